package page

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/moeplan/moeplan/layout/plan"
)

// frontChart is time against memory headroom: one point a plan, and the front as a line.
type frontChart struct {
	XTicks, YTicks []mark
	Kept           mark // below it nothing fits
	Line           []line
	Points         []point
}

type line struct{ X1, Y1, X2, Y2 string }

type point struct {
	ID, Label, X, Y string
	Front           bool // no other that fits is both faster and smaller
	Best            bool
	Text            string // what hovering says
}

// The parts of the picture inside which points lie; the rest is for labels.
const (
	plotLeft, plotRight = 0.1, 0.95
	plotTop, plotBottom = 0.07, 0.86
)

// frontOf places plans. Those of the front are joined by steps: what lies above and left of it, nothing reaches.
func frontOf(plans []planView, front []plan.Point, kept float64) frontChart {
	var c frontChart
	if len(plans) == 0 {
		return c
	}
	onFront := make(map[string]bool, len(front))
	for i := range front {
		onFront[front[i].Key] = true
	}
	x := span{plans[0].ms, plans[0].ms, plotLeft, plotRight}
	y := span{0, 1, plotBottom, plotTop}
	for i := range plans {
		p := &plans[i]
		x.low, x.high = min(x.low, p.ms), max(x.high, p.ms)
		y.high = max(y.high, p.headroom, kept)
		y.low = min(y.low, p.headroom)
	}
	pad := max((x.high-x.low)*0.04, x.high*0.01)
	x.low, x.high, y.high = x.low-pad, x.high+pad, y.high*1.06
	if kept > 0 {
		c.Kept = mark{at(y.of(kept)), fmt.Sprintf("%.4g GiB are kept free", kept)}
	}
	for i := range plans {
		p := &plans[i]
		c.Points = append(c.Points, point{ID: p.ID, Label: p.Label, X: at(x.of(p.ms)), Y: at(y.of(p.headroom)),
			Front: onFront[p.Key], Best: i == 0,
			Text: fmt.Sprintf("Plan %s: %s s a step tuned, %.1f GiB free above the allocated peak. %s",
				p.Label, seconds(p.ms), p.headroom, p.Short)})
	}
	// The best is drawn last, over those it hides.
	slices.Reverse(c.Points)
	steps := slices.DeleteFunc(slices.Clone(plans), func(p planView) bool { return !onFront[p.Key] })
	slices.SortFunc(steps, func(a, b planView) int { return cmp.Compare(a.ms, b.ms) })
	for i := 1; i < len(steps); i++ {
		a, b := &steps[i-1], &steps[i]
		c.Line = append(c.Line,
			line{at(x.of(a.ms)), at(y.of(a.headroom)), at(x.of(b.ms)), at(y.of(a.headroom))},
			line{at(x.of(b.ms)), at(y.of(a.headroom)), at(x.of(b.ms)), at(y.of(b.headroom))})
	}
	for _, v := range (span{x.low / 1e3, x.high / 1e3, 0, 1}).marks(6) {
		c.XTicks = append(c.XTicks, mark{at(x.of(v * 1e3)), fmt.Sprintf("%.4g", v)})
	}
	for _, v := range y.marks(5) {
		c.YTicks = append(c.YTicks, mark{at(y.of(v)), fmt.Sprintf("%.4g", v)})
	}
	return c
}
