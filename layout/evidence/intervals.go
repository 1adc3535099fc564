package evidence

import (
	"cmp"
	"slices"
)

// Interval is a stretch of time from Start up to but without End, in nanoseconds.
type Interval struct{ Start, End int64 }

// Intervals is a set of points in time: intervals that are not empty, sorted, and neither overlap nor touch. Union makes it.
type Intervals []Interval

// Union returns the points that any of the intervals holds; those whose end is not after their start hold none. The list is
// sorted in place.
func Union(list []Interval) Intervals {
	slices.SortFunc(list, func(a, b Interval) int { return cmp.Compare(a.Start, b.Start) })
	var out Intervals
	for _, i := range list {
		switch n := len(out); {
		case i.End <= i.Start:
		case n > 0 && i.Start <= out[n-1].End:
			out[n-1].End = max(out[n-1].End, i.End)
		default:
			out = append(out, i)
		}
	}
	return out
}

// Length is how long the set lasts.
func (a Intervals) Length() (n int64) {
	for _, i := range a {
		n += i.End - i.Start
	}
	return n
}

// Intersect returns the points in both sets.
func (a Intervals) Intersect(b Intervals) Intervals {
	var out Intervals
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if start, end := max(a[i].Start, b[j].Start), min(a[i].End, b[j].End); start < end {
			out = append(out, Interval{start, end})
		}
		if a[i].End < b[j].End {
			i++
		} else {
			j++
		}
	}
	return out
}

// Subtract returns the points of a that are not in b.
func (a Intervals) Subtract(b Intervals) Intervals {
	var out Intervals
	j := 0
	for _, i := range a {
		for j < len(b) && b[j].End <= i.Start {
			j++
		}
		for k := j; k < len(b) && b[k].Start < i.End; k++ {
			if i.Start < b[k].Start {
				out = append(out, Interval{i.Start, b[k].Start})
			}
			i.Start = max(i.Start, b[k].End)
		}
		if i.Start < i.End {
			out = append(out, i)
		}
	}
	return out
}

// span is from the first point of a set to its last.
func (a Intervals) span() Interval {
	if len(a) == 0 {
		return Interval{}
	}
	return Interval{a[0].Start, a[len(a)-1].End}
}
