package evidence

import (
	"cmp"
	"slices"
)

// axisRange is a named range that tells an axis, on a stream of a device or on a thread of the host: its scope.
type axisRange struct {
	scope int64
	Interval
	axis axis
}

// axis is what a name tells.
type axis struct {
	kind    Kind
	known   bool
	guessed bool // by the operation alone
}

// moment is a point of time in a scope.
type moment struct{ scope, at int64 }

// innermost finds for each moment the axis of the range around it that began last. A range that only names an operation gives way to
// one around it that names an axis: an all-to-all in a range of context parallelism is context parallelism's. Ranges are sorted
// in place.
func innermost(ranges []axisRange, moments []moment) []axis {
	slices.SortStableFunc(ranges, func(a, b axisRange) int {
		return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	order := make([]int32, len(moments))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int {
		return cmp.Or(cmp.Compare(moments[i].scope, moments[j].scope), cmp.Compare(moments[i].at, moments[j].at))
	})
	out := make([]axis, len(moments))
	// Of each kind of range those that began, the last on top. What ended is dropped when it comes to the top: on a thread or
	// stream time only moves on.
	var named, guessed []axisRange
	next := 0
	for _, i := range order {
		m := moments[i]
		for ; next < len(ranges) && (ranges[next].scope < m.scope || ranges[next].scope == m.scope && ranges[next].Start <= m.at); next++ {
			if r := ranges[next]; r.axis.guessed {
				guessed = append(guessed, r)
			} else {
				named = append(named, r)
			}
		}
		for _, stack := range []*[]axisRange{&named, &guessed} {
			open := *stack
			for len(open) > 0 && (open[len(open)-1].scope != m.scope || open[len(open)-1].End <= m.at) {
				open = open[:len(open)-1]
			}
			*stack = open
			if len(open) > 0 && !out[i].known {
				out[i] = open[len(open)-1].axis
			}
		}
	}
	return out
}
