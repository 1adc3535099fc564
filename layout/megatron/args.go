package megatron

import (
	"fmt"
	"slices"
	"strings"
)

// Flag is one option of a command line with its values; store-true and store-false flags have none.
type Flag struct {
	Name   string   `json:"name"`   // with its dashes
	Values []string `json:"values"` // as the command line has them; [] for flags that take none
}

// Args are the flags of a command line, each name at most once.
type Args []Flag

// SplitArgs reads an argv into flags. Every word that begins with "--" starts one, in either form, "--a b" or "--a=b";
// what follows are its values. A repeated flag keeps its first place and takes its last values, as argparse does. It
// fails on a value that no flag precedes.
func SplitArgs(argv []string) (Args, error) {
	var args Args
	current := ""
	for _, word := range argv {
		switch {
		case strings.HasPrefix(word, "--"):
			name, value, joined := strings.Cut(word, "=")
			args.Set(name)
			current = name
			if joined {
				args.Set(name, value)
			}
		case current == "":
			return nil, fmt.Errorf("megatron: %q is a value without a flag", word)
		default:
			values, _ := args.Get(current)
			args.Set(current, append(slices.Clone(values), word)...)
		}
	}
	return args, nil
}

func (a Args) index(name string) int {
	return slices.IndexFunc(a, func(f Flag) bool { return f.Name == name })
}

// Get returns the values of a flag and whether it is there.
func (a Args) Get(name string) ([]string, bool) {
	if i := a.index(name); i >= 0 {
		return a[i].Values, true
	}
	return nil, false
}

// Set gives a flag its values, in its old place if it is there and at the end if not.
func (a *Args) Set(name string, values ...string) {
	if i := a.index(name); i >= 0 {
		(*a)[i].Values = values
		return
	}
	*a = append(*a, Flag{name, values})
}

// Remove takes a flag out.
func (a *Args) Remove(name string) {
	*a = slices.DeleteFunc(*a, func(f Flag) bool { return f.Name == name })
}

// Argv returns the words of the command line.
func (a Args) Argv() []string {
	words := make([]string, 0, 2*len(a))
	for _, f := range a {
		words = append(append(words, f.Name), f.Values...)
	}
	return words
}

// Missing returns what a release cannot say of a command line that was written for another one: flags that it does not have
// yet, with the release that brings them, or any more, with the last one that had them, and values that it does not take.
// Nil means that its parser reads the whole of it.
func (a Args) Missing(r Release) Problems {
	_, problems := parse(a.Argv(), r)
	return problems
}
