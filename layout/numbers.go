package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxSize bounds every degree, micro-batch and world: 1 Mi. MaxSequence bounds the sequence and the global batch. Three of
// the former multiply without overflow.
const (
	MaxSize     = 1 << 20
	MaxSequence = 1 << 26
)

// parseSize reads a whole number between 1 and MaxSize.
func parseSize(what, text string) (int, error) { return parseNumber(what, text, MaxSize) }

func parseNumber(what, text string, most int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 62)
	switch {
	case err != nil && isDigits(text), err == nil && n > uint64(most):
		return 0, &SizeError{What: what, Value: plain(text), Problem: fmt.Sprintf("is larger than %d", most)}
	case err != nil:
		return 0, &SizeError{What: what, Value: plain(text), Problem: "is not a whole number"}
	case n == 0:
		return 0, &SizeError{What: what, Value: text, Problem: "is below 1"}
	}
	return int(n), nil
}

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// Divisors returns the divisors of n in ascending order; nil for n < 1.
func Divisors(n int) []int {
	if n < 1 {
		return nil
	}
	var low, high []int
	for d := 1; d <= n/d; d++ {
		if n%d == 0 {
			low = append(low, d)
			if d != n/d {
				high = append(high, n/d)
			}
		}
	}
	slices.Reverse(high)
	return append(low, high...)
}

// NearestDivisors returns the largest divisor of n that is at most v and the smallest that is at least v, ascending
// and without repetition: the nearest legal values of a degree that must divide n. Nil for n < 1.
func NearestDivisors(n, v int) []int {
	return nearest(Divisors(n), v)
}

// nearest returns the neighbours of v (or v itself) in an ascending list.
func nearest(sorted []int, v int) []int {
	i, found := slices.BinarySearch(sorted, v)
	switch {
	case found:
		return []int{v}
	case i == 0:
		return slices.Clone(sorted[:min(1, len(sorted))])
	case i == len(sorted):
		return slices.Clone(sorted[i-1:])
	}
	return slices.Clone(sorted[i-1 : i+1])
}

// NearestMultiples returns the positive multiples of unit just below and above v, ascending; unit itself if v is
// smaller. Nil for unit < 1.
func NearestMultiples(unit, v int) []int {
	if unit < 1 {
		return nil
	}
	low := v / unit * unit
	switch {
	case low < 1:
		return []int{unit}
	case low == v:
		return []int{v}
	}
	return []int{low, low + unit}
}

// orList writes "2 or 4"; "" for an empty list.
func orList(values []int) string {
	text := ""
	for i, v := range values {
		switch {
		case i == 0:
		case i == len(values)-1:
			text += " or "
		default:
			text += ", "
		}
		text += strconv.Itoa(v)
	}
	return text
}

// Count writes a number of things: "1 layer", "3 layers", "2 micro-batches".
func Count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Are is Count with its verb: "1 layer is", "3 layers are".
func Are(n int, noun string) string {
	if n == 1 {
		return Count(n, noun) + " is"
	}
	return Count(n, noun) + " are"
}
