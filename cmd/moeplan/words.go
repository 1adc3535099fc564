package main

import (
	"fmt"

	"github.com/alecthomas/kong"
)

// words are positional arguments up to the next flag. Unlike a slice it may be followed by others, so that a command can
// take words before and after its flags.
type words struct{ list []string }

// Decode takes words until a flag.
func (w *words) Decode(ctx *kong.DecodeContext) error {
	for {
		t := ctx.Scan.Peek()
		if !t.IsValue() && t.String() != "-" {
			return nil
		}
		text, ok := ctx.Scan.Pop().Value.(string)
		if !ok {
			return fmt.Errorf("%v is no word", t)
		}
		w.list = append(w.list, text)
	}
}
