package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// missingValue refuses a flag that needs a value and has none. Kong takes an empty text instead, because it is told that
// values may begin with a hyphen, and the flag would be as good as left out.
func missingValue(root *kong.Node, args []string) error {
	at := place{node: root}
	for _, word := range args {
		if word == "--" && at.flag == nil || at.node.Hidden {
			return nil // what follows belongs to somebody else
		}
		if at.flag != nil {
			if word == "" {
				return usage("--%s: no value given", at.flag.Name)
			}
			if strings.HasPrefix(word, "--") { // no value of ours begins so
				return usage("--%s: no value given, %s follows", at.flag.Name, word)
			}
		}
		if name, value, ok := strings.Cut(word, "="); ok && value == "" && strings.HasPrefix(word, "--") {
			if f := flagNamed(at.node, name); f != nil {
				return usage("--%s: no value given", f.Name)
			}
		}
		at = at.after(word)
	}
	if at.flag != nil {
		return usage("--%s: no value given", at.flag.Name)
	}
	return nil
}
