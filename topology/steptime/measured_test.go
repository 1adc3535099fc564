package steptime

import (
	"math"
	"sort"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// Errors and order against the measured points, all corrections on, as the product prices them. The bounds
// are what was reached; they may only tighten. The notes' own model: median 5.8 %, 90th percentile 17.1 %
// (comm-model 5.2, fit on all points); both are in-sample, out of sample expect 10 to 15 %. 67 of 69 pairs in order (ranking-findings section 1).
//
// The rows' pipeline splits are not recorded: each gets one that is balanced by load.
func TestMeasured(t *testing.T) {
	const medianBound, ninetiethBound, disorderedBound = 0.057, 0.18, 2
	type point struct {
		row   goldenRow
		price Price
	}
	var points []point
	var errs []float64
	for _, r := range readGolden(t).Rows {
		c := &r.Config
		if !c.Usable { // GB200 alltoall of 2025, kept out of the fit
			continue
		}
		m := testModel(t, c.Model)
		e := r.estimator(t, m, DefaultRun())
		l, sw := r.layout(t, m)
		l.Split = balancedLayers(e, m, &l, sw)
		p := known(t, e, &l, sw)
		points = append(points, point{r, p})
		errs = append(errs, math.Abs(math.Log(p.Tokens/c.Tokens)))
		if testing.Verbose() {
			t.Logf("%-34s measured %8.0f tok/s/GPU, priced %8.0f (%+.1f %%), the notes' model %+.1f %%", c.ID, c.Tokens,
				p.Tokens, 100*(p.Tokens/c.Tokens-1), 100*(float64(c.GBS*c.Seq)/r.Step/float64(c.N)/c.Tokens-1))
		}
	}
	sort.Float64s(errs)
	median, ninetieth := errs[len(errs)/2], errs[len(errs)*9/10]
	t.Logf("%d points: median error %.4f, 90th percentile %.4f", len(errs), median, ninetieth)
	if median > medianBound || ninetieth > ninetiethBound {
		t.Errorf("median error %.4f over %g, or 90th percentile %.4f over %g", median, medianBound, ninetieth, ninetiethBound)
	}

	// Pairs that differ in nothing but layout, dispatcher, overlap or batch, by more than 3 %.
	pairs, disordered := 0, 0
	for i, a := range points {
		for _, b := range points[:i] {
			x, y := &a.row.Config, &b.row.Config
			if x.Model != y.Model || x.Platform != y.Platform || x.Prec != y.Prec || x.Since != y.Since || x.Seq != y.Seq ||
				math.Abs(math.Log(x.Tokens/y.Tokens)) <= 0.03 {
				continue
			}
			pairs++
			if (x.Tokens > y.Tokens) != (a.price.Tokens > b.price.Tokens) {
				disordered++
				t.Logf("out of order: %s measured %.0f, %s %.0f; priced %.0f, %.0f", x.ID, x.Tokens, y.ID, y.Tokens,
					a.price.Tokens, b.price.Tokens)
			}
		}
	}
	t.Logf("%d of %d pairs in the measured order", pairs-disordered, pairs)
	if disordered > disorderedBound {
		t.Errorf("%d of %d pairs out of order, %d are known", disordered, pairs, disorderedBound)
	}
}

// balancedLayers gives each rank about the same time, and its chunks about the same layers: what a hand-written
// layout string does. The last rank has the output heads and the MTP layers beside its decoder layers.
func balancedLayers(e *Estimator, m *arch.Model, l *layout.Layout, sw Software) *layout.Split {
	split := evenLayers(m, l.PP, l.VPP)
	place, _ := e.place(l)
	k := e.task(l, sw, place)
	var u units
	e.units(&k, &u)
	kind := 0
	if k.full {
		kind = recomputedKind
	}
	cost := make([]float64, m.NumLayers)
	for i := range cost {
		cost[i] = u.layer[kind].total
		if m.MoE != nil && e.count(moeKind, i, 1) > 0 {
			cost[i] = u.layer[kind|moeKind].total
		}
	}
	mtp := float64(m.MTPNumLayers)
	tail := u.head*(1+mtp) + mtp*(u.layer[kind|moeKind].total+u.mtp)

	fits := func(capacity float64) bool {
		taken := make([]float64, l.PP)
		at := 0
		for i := range split.Cells {
			rank, chunk := i%l.PP, i/l.PP
			budget := capacity
			if rank == l.PP-1 {
				budget -= tail
			}
			first, due := at, budget*float64(chunk+1)/float64(l.VPP)
			for at < len(cost) && taken[rank]+cost[at]/2 <= due && taken[rank]+cost[at] <= budget {
				taken[rank] += cost[at]
				at++
			}
			split.Cells[i].First, split.Cells[i].Decoders = first, at-first
		}
		return at == len(cost)
	}
	low, high := 0.0, 1e6 // s
	for range 100 {
		if mid := (low + high) / 2; fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	fits(high)
	return split
}
