package megatron

import (
	"fmt"
	"iter"
)

// Settings are the values that a command line gives every option of a release, defaults included: what Megatron-LM's
// parser returns, before anything is checked or derived. Parse makes them. They are read-only and safe for concurrent use.
type Settings struct {
	release Release
	values  map[string]setting // by dest: only what was given
}

type setting struct {
	option *Option
	value  Value
}

func newSettings(r Release) *Settings { return &Settings{release: r, values: map[string]setting{}} }

func (s *Settings) give(o *Option, v Value) { s.values[o.Dest] = setting{o, v} }

// Release returns the release whose parser was followed.
func (s *Settings) Release() Release { return s.release }

// Value returns what the parser would hold under a dest. It is None for a dest that the release does not have, and panics
// for one that no release has.
func (s *Settings) Value(dest string) Value {
	if g, ok := s.values[dest]; ok {
		return g.value
	}
	if o := optionsOf(s.release).byDest[dest]; o != nil {
		return o.Default
	}
	if !allDests()[dest] {
		panic(fmt.Sprintf("bug: no release of Megatron-LM has an option for %q", dest))
	}
	return Value{}
}

// Has reports whether the release has an option for the dest.
func (s *Settings) Has(dest string) bool { return optionsOf(s.release).byDest[dest] != nil }

// IsGiven reports whether the command line sets the dest, be it to its default.
func (s *Settings) IsGiven(dest string) bool { _, ok := s.values[dest]; return ok }

// IsNone reports whether the parser would hold None.
func (s *Settings) IsNone(dest string) bool { return s.Value(dest).IsNone() }

// Int returns an integer; 0 for None.
func (s *Settings) Int(dest string) int { return s.Value(dest).Int() }

// IntOr returns an integer, or the fallback for None.
func (s *Settings) IntOr(dest string, fallback int) int {
	if v := s.Value(dest); !v.IsNone() {
		return v.Int()
	}
	return fallback
}

// Float returns a number; 0 for None.
func (s *Settings) Float(dest string) float64 { return s.Value(dest).Float() }

// Bool returns a switch's state; false for None.
func (s *Settings) Bool(dest string) bool { return s.Value(dest).Bool() }

// String returns a text; "" for None.
func (s *Settings) String(dest string) string { return s.Value(dest).Text() }

// Strings returns a list of texts; nil for None. The slice is shared.
func (s *Settings) Strings(dest string) []string { return s.Value(dest).Texts() }

// Setting is one option with its value.
type Setting struct {
	Option *Option
	Value  Value
	Given  bool // on the command line
}

// All yields every option of the release in table order with its value. Where two options set one dest, each is yielded,
// and Given is true for the one that was given last.
func (s *Settings) All() iter.Seq[Setting] {
	return func(yield func(Setting) bool) {
		for _, o := range optionsOf(s.release).all {
			g, ok := s.values[o.Dest]
			set := Setting{Option: o, Value: o.Default}
			if ok {
				set.Value, set.Given = g.value, g.option == o
			}
			if !yield(set) {
				return
			}
		}
	}
}

// Given yields the options that the command line sets, in table order.
func (s *Settings) Given() iter.Seq[Setting] {
	return func(yield func(Setting) bool) {
		for set := range s.All() {
			if set.Given && !yield(set) {
				return
			}
		}
	}
}
