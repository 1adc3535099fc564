package evidence

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const timeline = 64

// points is a set as one bit per unit of time: the brute force that the algebra is held against.
func points(list []Interval) (p [timeline]bool) {
	for _, i := range list {
		for t := i.Start; t < i.End; t++ {
			p[t] = true
		}
	}
	return p
}

func drawIntervals(t *rapid.T, label string) []Interval {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Interval {
		return Interval{rapid.Int64Range(0, timeline).Draw(t, "start"), rapid.Int64Range(0, timeline).Draw(t, "end")}
	}), 0, 12).Draw(t, label)
}

func normal(a Intervals) bool {
	for i := range a {
		if a[i].End <= a[i].Start || i > 0 && a[i].Start <= a[i-1].End {
			return false
		}
	}
	return true
}

// TestIntervalAlgebra: union, intersection and difference hold what a timeline of single points holds.
func TestIntervalAlgebra(t *testing.T) { rapid.Check(t, intervalAlgebra) }

func FuzzIntervalAlgebra(f *testing.F) { f.Fuzz(rapid.MakeFuzz(intervalAlgebra)) }

func intervalAlgebra(t *rapid.T) {
	la, lb := drawIntervals(t, "a"), drawIntervals(t, "b")
	pa, pb := points(la), points(lb)
	a, b := Union(slices.Clone(la)), Union(slices.Clone(lb))
	both, either, without := a.Intersect(b), Union(append(slices.Clone(a), b...)), a.Subtract(b)
	for _, s := range []Intervals{a, b, both, either, without} {
		if !normal(s) {
			t.Fatalf("%v is not normal", s)
		}
	}
	qa, qboth, qeither, qwithout := points(a), points(both), points(either), points(without)
	var n int64
	for i := range timeline {
		if qa[i] != pa[i] || qboth[i] != (pa[i] && pb[i]) || qeither[i] != (pa[i] || pb[i]) || qwithout[i] != (pa[i] && !pb[i]) {
			t.Fatalf("at %d: a %v b %v, union %v intersection %v difference %v", i, a, b, either, both, without)
		}
		if pa[i] {
			n++
		}
	}
	if a.Length() != n || both.Length()+without.Length() != n {
		t.Fatalf("%v lasts %d, with b %d and without %d; %d points", a, a.Length(), both.Length(), without.Length(), n)
	}
}
