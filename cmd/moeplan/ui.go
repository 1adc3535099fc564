package main

// Rules of what moeplan says besides its results: it goes to standard error, starts with "moeplan:", has no
// capital letter and no full stop, is one line per problem, names the value, the rule and the nearest legal
// values, and never holds a stack trace. With -o json it is one JSON object a line.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
)

// Exit codes, as DESIGN.md section 4 fixes them.
const (
	exitDone     = 0
	exitFailure  = 1
	exitIllegal  = 2 // the layout breaks a rule, or no legal layout exists for what was pinned
	exitNoFit    = 3 // legal, but nothing fits
	exitDeviates = 4
	exitUsage    = 80
)

// coded is an error with an exit code of its own.
type coded struct {
	code int
	err  error
}

func (c *coded) Error() string { return c.err.Error() }
func (c *coded) Unwrap() error { return c.err }

func usage(format string, args ...any) error { return &coded{exitUsage, fmt.Errorf(format, args...)} }

// exitCode maps an error to the process's exit code.
func exitCode(err error) int {
	var c *coded
	var file *fs.PathError
	var parse *kong.ParseError
	var unknownModel *arch.UnknownModelError
	var ambiguous *arch.AmbiguousModelError
	var unknownPlatform *topology.UnknownPlatformError
	var unknownFigure *topology.UnknownFigureError
	var refusal *folding.Refusal
	var violations layout.Violations
	var precision *plan.PrecisionError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &file): // cannot be read or written, whatever it was for
		return exitFailure
	case errors.As(err, &c):
		return c.code
	case errors.As(err, &parse), errors.As(err, &unknownModel), errors.As(err, &ambiguous),
		errors.As(err, &unknownPlatform), errors.As(err, &precision), errors.As(err, &unknownFigure), errors.Is(err, layout.ErrSize):
		return exitUsage
	case errors.Is(err, layout.ErrNoLayout), errors.As(err, &refusal), errors.As(err, &violations):
		return exitIllegal
	}
	return exitFailure
}

// errorJSON is an error where results are JSON.
type errorJSON struct {
	Error string `json:"error"` // what was refused, the rule and the nearest legal values; several problems stand on lines of their own
	// Exit is the exit code: 1 failure, 2 illegal layout, 3 nothing fits, 4 evidence deviates or does not support its claim,
	// 80 usage.
	Exit       int               `json:"exit"`
	Violations layout.Violations `json:"violations,omitempty"` // the rules that a layout breaks; absent where it is not about a layout
}

// complain writes an error and returns its exit code.
func complain(w io.Writer, err error, asJSON bool) int {
	code := exitCode(err)
	if err == nil || errors.Is(err, errHandled) {
		return code
	}
	if asJSON {
		out := errorJSON{Error: err.Error(), Exit: code}
		errors.As(err, &out.Violations)
		line, _ := json.Marshal(out)
		fmt.Fprintf(w, "%s\n", line)
		return code
	}
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		fmt.Fprintf(w, "moeplan: %s\n", printable(strings.TrimPrefix(line, "moeplan: ")))
	}
	return code
}
