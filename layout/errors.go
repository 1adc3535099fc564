package layout

import (
	"errors"
	"fmt"
)

// Kinds of failure, for errors.Is. ErrSize is a wrong question (a command exits 80), ErrNoLayout a question without
// an answer (it exits 2).
var (
	ErrSize     = errors.New("layout: size out of range")
	ErrNoLayout = errors.New("layout: no legal layout")
)

// SizeError is a size that cannot be meant: zero, negative, absurd or not a number.
type SizeError struct {
	What    string // "world size", "ep", ...
	Value   string // as given
	Problem string // "is below 1"
}

// Error is one line that names the value.
func (e *SizeError) Error() string { return fmt.Sprintf("%s %s %s", e.What, e.Value, e.Problem) }

// Is makes errors.Is(err, ErrSize) true.
func (e *SizeError) Is(target error) bool { return target == ErrSize }

// NoLayoutError says why nothing is legal for what was pinned.
type NoLayoutError struct {
	Rule    RuleID // the rule that cut most; "" if nothing was left to try
	Message string // one line with the numbers
	Repairs []string
}

// Error is one line: the reason and the nearest legal values.
func (e *NoLayoutError) Error() string {
	text := e.Message
	if e.Rule != "" {
		text = string(e.Rule) + ": " + text
	}
	for i, r := range e.Repairs {
		if i == 0 {
			text += "; try "
		} else {
			text += ", or "
		}
		text += r
	}
	return text
}

// Is makes errors.Is(err, ErrNoLayout) true.
func (e *NoLayoutError) Is(target error) bool { return target == ErrNoLayout }
