package main

import (
	"reflect"
	"slices"
	"strings"
)

// grammarFor returns a pointer to the part of the grammar that a command line can reach. Building all of it takes several
// times as long as most commands: kong parses the tags of some five hundred flags and looks for variables in their texts.
// The whole is for those who ask about the whole: the list of commands, completion, and a command behind flags of the
// default one, which is an error about both. TestBranches holds that the part answers as the whole does.
func grammarFor(args []string) any {
	whole := reflect.TypeFor[grammar]()
	field, ok := branch(whole, args)
	if !ok {
		return new(grammar)
	}
	return reflect.New(reflect.StructOf([]reflect.StructField{field})).Interface()
}

// branch is the command that the arguments stay within.
func branch(whole reflect.Type, args []string) (reflect.StructField, bool) {
	if len(args) > 0 {
		if f, ok := commandField(whole, args[0]); ok {
			return f, args[0] != "complete" // which walks all commands
		}
	}
	beyond := slices.ContainsFunc(args, func(a string) bool {
		_, named := commandField(whole, a)
		return named || asksHelp(a)
	})
	if beyond {
		return reflect.StructField{}, false
	}
	return whole.FieldByName("Plan")
}

// commandField finds the field of a command by the name that kong gives it.
func commandField(whole reflect.Type, name string) (reflect.StructField, bool) {
	return whole.FieldByNameFunc(func(field string) bool { return strings.ToLower(field) == name })
}

// asksHelp reports whether an argument may be --help or hold -h among other short flags.
func asksHelp(arg string) bool {
	return strings.HasPrefix(arg, "--help") ||
		strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.Contains(arg, "h")
}
