package megatron

import (
	"fmt"
	"slices"
	"strings"
)

// Option is one option of Megatron-LM's parser, as it is in one release. Options are shared and read-only.
type Option struct {
	Name      string   // the spelling that was looked up first: "--num-layers"
	Spellings []string // every spelling of the same option, Name included
	// Dest is the name under which Settings holds the value: that of the newest release that has the option, also where
	// an older one used another.
	Dest   string
	Action Action
	Type   ValueType // of Store
	// MinValues and MaxValues bound how many values follow it; MaxValues is -1 without bound.
	MinValues, MaxValues int
	// List says that the value is a list even where only one is given (nargs +, * or a number).
	List    bool
	Choices []string // the only texts it takes; nil for any
	Default Value
	Group   string // of the newest parser; "" for an option that is gone
	// Hidden options are not in upstream's help; Deprecated ones are called so in it.
	Hidden, Deprecated bool

	place int // in the table
}

// Action is what an option does.
type Action uint8

const (
	Store      Action = iota // takes values
	StoreTrue                // a switch that turns on
	StoreFalse               // a switch that turns off: --no-x, --disable-x
	Toggle                   // --x turns on, --no-x turns off
)

// ValueType is what the parser turns a text into.
type ValueType uint8

const (
	Text ValueType = iota
	Integer
	Number    // a float
	Truth     // Python's bool of a text: false only for the empty one
	Frequency // an integer or a list expression such as "([0]*3+[1]*58)"
	Tuple     // integers separated by commas, in parentheses or not
)

// TakesValue reports whether values follow the option.
func (o *Option) TakesValue() bool { return o.Action == Store }

// Accepts reports whether the option takes the text as one of its values: a choice where there are choices, and of its type.
func (o *Option) Accepts(text string) bool {
	v, bad := o.convert(text)
	return bad == "" && o.allows(v, text)
}

// allows reports whether a value is one of the choices.
func (o *Option) allows(v Value, text string) bool {
	if o.Choices == nil {
		return true
	}
	if o.Type == Text {
		return slices.Contains(o.Choices, text)
	}
	return slices.Contains(o.Choices, v.Text()) // an int choice compares as a number: "+1" is 1
}

// UnknownFlagError is a flag that the release does not have.
type UnknownFlagError struct {
	Name    string
	Release Release
	Nearest string // a spelling that the release has; "" if none is near
	// Since and Until bound the releases that have it; both are empty for a flag that none has. Until is "" for one that
	// main still has.
	Since, Until string
	Instead      string // what to write instead, where upstream renamed it; "" if unknown
}

// Error says since or until when the flag exists, or which one is nearest.
func (e *UnknownFlagError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is not a flag of Megatron-LM %s", clipped(e.Name), e.Release)
	switch {
	case e.Since == "":
	case e.newer():
		fmt.Fprintf(&b, ": it exists from %s on", e.Since)
	default:
		fmt.Fprintf(&b, ": %s is the last release that has it", e.Until)
	}
	switch {
	case e.Instead != "":
		fmt.Fprintf(&b, "; use %s", e.Instead)
	case e.Nearest != "":
		fmt.Fprintf(&b, "; the nearest is %s", e.Nearest)
	}
	return b.String()
}

// newer reports whether the flag arrives after the release.
func (e *UnknownFlagError) newer() bool {
	return e.Since != "" && e.Release.Compare(mustRelease(e.Since)) < 0
}

// LookupFlag finds an option by one of its spellings, dashes included. The error is an *UnknownFlagError.
func LookupFlag(name string, r Release) (*Option, error) {
	if o := optionsOf(r).bySpelling[name]; o != nil {
		return o, nil
	}
	return nil, unknownFlag(name, r)
}

// Options returns every option of a release in the order of the newest parser, those that are gone from it last. The
// slice is the caller's.
func Options(r Release) []*Option { return slices.Clone(optionsOf(r).all) }

// OptionOf finds the option that sets a dest; where several do (--x and --no-x as two options), the first. nil: none in
// this release.
func OptionOf(dest string, r Release) *Option { return optionsOf(r).byDest[dest] }

func unknownFlag(name string, r Release) *UnknownFlagError {
	e := &UnknownFlagError{Name: name, Release: r}
	if rec := table().record(name); rec != nil {
		e.Since, e.Until = tidyRelease(rec.Since), tidyRelease(rec.Until)
		if _, ok := table().fieldsAt(rec, r.column()); ok {
			e.Since = "0.17.1" // the table has it for the series, 0.17.0 alone lacks it
		}
		if !e.newer() {
			e.Instead = table().renamed(name)
		}
		return e
	}
	e.Nearest = nearestFlag(name, r)
	return e
}

func tidyRelease(text string) string {
	if text == "0.20.0-main" {
		return "main"
	}
	return text
}
