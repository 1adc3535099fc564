package plan

import (
	"testing"

	"pgregory.net/rapid"
)

// Each objective's first plan is the best by that objective among the plans shown, and the front holds no layout that
// another beats in both time and memory.
func TestObjectives(t *testing.T) {
	r := ask(t, "qwen3-30b", "h100", 64)
	r.Top, r.Pareto = 1000, true
	peak := func(p *Plan) int64 { return p.Stages[p.WorstStage].Memory.PeakAllocated }
	parallelism := func(p *Plan) int { return p.Sizes.TP * p.Sizes.CP * p.Sizes.PP }
	for _, o := range Objectives() {
		r.Objective = o
		out := answer(t, r)
		first := &out.Plans[0]
		for i := range out.Plans {
			p := &out.Plans[i]
			switch {
			case o == ByMemory && peak(p) < peak(first):
				t.Errorf("memory: plan %s needs less than the first", p.Key)
			case o == ByLocality && p.NVLinkFraction != nil && *first.NVLinkFraction < 0.99 && *p.NVLinkFraction > *first.NVLinkFraction+0.05:
				t.Errorf("locality: plan %s keeps more inside than the first", p.Key)
			case o == ByWorkflow && parallelism(p) < parallelism(first):
				t.Errorf("workflow: plan %s has less model parallelism than the first", p.Key)
			}
		}
		for i, a := range out.Pareto {
			if i > 0 && (a.TunedTimeMS < out.Pareto[i-1].TunedTimeMS || a.PeakAllocated >= out.Pareto[i-1].PeakAllocated) {
				t.Errorf("%s: front point %d does not trade time for memory", o, i)
			}
		}
	}
}

// The front is what is left when every beaten candidate is removed, in whatever order they come.
func TestFront(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type point struct{ time, peak int }
		points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) point {
			return point{rapid.IntRange(1, 20).Draw(t, "time"), rapid.IntRange(1, 20).Draw(t, "peak")}
		}), 1, 40).Draw(t, "points")
		var front []candidate
		for _, p := range points {
			front = addToFront(front, candidate{tuned: float64(p.time), peak: int64(p.peak)})
		}
		want := map[point]bool{}
		for _, p := range points {
			beaten := false
			for _, q := range points {
				beaten = beaten || q != p && q.time <= p.time && q.peak <= p.peak
			}
			if !beaten {
				want[p] = true
			}
		}
		if len(front) != len(want) {
			t.Fatalf("front of %d points, want %d", len(front), len(want))
		}
		for _, c := range front {
			if !want[point{int(c.tuned), int(c.peak)}] {
				t.Fatalf("%g s, %d bytes is beaten", c.tuned, c.peak)
			}
		}
	})
}
