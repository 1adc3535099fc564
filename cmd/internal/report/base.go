package report

import (
	"fmt"
	"io"

	"github.com/moeplan/moeplan/layout/plan"
)

// Against writes where a layout that somebody has stands among the plans, and what each plan changes from it.
func Against(w io.Writer, r *plan.Result) error {
	b := r.Base
	if b == nil {
		return nil
	}
	p := printerTo(w)
	p.blank()
	p.section("BASE", p.wrapLayout(b.Key)...)
	verdict := "fits"
	if !b.Fits {
		verdict = "does not fit"
	}
	p.prose("", fmt.Sprintf("place %d of %d pairs of meshes; %s s a step when tuned, %.1f %% longer than the best; peak %.1f GiB, %s",
		b.Place, b.Of, seconds(b.TunedTimeMS), 100*b.SlowerBy, float64(b.PeakBytes)/gib, verdict))
	p.blank()
	t := Table{Head: []string{"#", "tuned", "peak GiB", "layout"}, Text: []int{3}}
	for i := range r.Plans {
		pl := &r.Plans[i]
		peak := pl.Stages[pl.WorstStage].Memory.PeakAllocated
		s := &pl.Sizes
		t.Add(fmt.Sprint(pl.Rank), signed(100*(pl.TunedTimeMS/b.TunedTimeMS-1), 1)+" %", signed(float64(peak-b.PeakBytes)/gib, 1),
			fmt.Sprintf("tp%d cp%d pp%d vpp%d ep%d etp%d mbs%d %s", s.TP, s.CP, s.PP, s.VPP, s.EP, s.ETP, s.MicroBatchSize, shortRecompute(pl.Layout.Recompute.String())))
	}
	return t.Write(w, Text)
}
