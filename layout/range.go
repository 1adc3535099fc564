package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Range is a set of sizes as a person pins them: "4", "4,8", "8..64" or a mixture. The zero value pins nothing.
type Range struct {
	spans []span
}

type span struct{ low, high int }

// ParseRange reads a list of numbers and of low..high ranges, both ends included. An error is a *SizeError that names the
// part of the text: empty, not a number, below 1, above MaxSize, or a range whose ends are reversed.
func ParseRange(text string) (Range, error) {
	var r Range
	if len(text) > 1024 {
		return Range{}, &SizeError{What: "range", Value: plain(text), Problem: "is longer than 1024 characters"}
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			return Range{}, &SizeError{What: "range", Value: strconv.Quote(text), Problem: "is empty or has an empty part"}
		}
		from, to, isSpan := strings.Cut(part, "..")
		if isSpan && (from == "" || to == "") {
			return Range{}, &SizeError{What: "range", Value: plain(part), Problem: "lacks an end: a range is written 2..8"}
		}
		low, err := parseSize("range", from)
		if err != nil {
			return Range{}, err
		}
		high := low
		if isSpan {
			if high, err = parseSize("range", to); err != nil {
				return Range{}, err
			}
		}
		if high < low {
			return Range{}, &SizeError{What: "range", Value: part, Problem: "is empty: its ends are reversed"}
		}
		r.spans = append(r.spans, span{low, high})
	}
	return r, nil
}

// Exactly pins the given sizes.
func Exactly(sizes ...int) Range {
	var r Range
	for _, n := range sizes {
		r.spans = append(r.spans, span{n, n})
	}
	return r
}

// IsZero reports whether nothing is pinned.
func (r Range) IsZero() bool { return len(r.spans) == 0 }

// Contains reports whether n is one of the pinned sizes; nothing pinned contains nothing.
func (r Range) Contains(n int) bool {
	return slices.ContainsFunc(r.spans, func(s span) bool { return s.low <= n && n <= s.high })
}

// String writes the range as ParseRange reads it.
func (r Range) String() string {
	parts := make([]string, len(r.spans))
	for i, s := range r.spans {
		parts[i] = strconv.Itoa(s.low)
		if s.high != s.low {
			parts[i] = fmt.Sprintf("%d..%d", s.low, s.high)
		}
	}
	return strings.Join(parts, ",")
}

// UnmarshalText makes a Range usable as a flag or a configuration value.
func (r *Range) UnmarshalText(text []byte) error {
	parsed, err := ParseRange(string(text))
	if err != nil {
		return err
	}
	*r = parsed
	return nil
}

// MarshalText writes String.
func (r Range) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// pick returns the sizes to try, ascending: numbers as they are, and of each low..high those that are in the universe,
// which is ascending.
func (r Range) pick(universe []int) []int {
	var picked []int
	for _, s := range r.spans {
		if s.low == s.high {
			picked = append(picked, s.low)
			continue
		}
		from, _ := slices.BinarySearch(universe, s.low)
		for _, n := range universe[from:] {
			if n > s.high {
				break
			}
			picked = append(picked, n)
		}
	}
	slices.Sort(picked)
	return slices.Compact(picked)
}

// Bounds returns the smallest and the largest pinned size; zeros if nothing is pinned.
func (r Range) Bounds() (low, high int) {
	for i, s := range r.spans {
		if i == 0 {
			low, high = s.low, s.high
		}
		low, high = min(low, s.low), max(high, s.high)
	}
	return low, high
}
