package report

import (
	"fmt"
	"io"

	"github.com/moeplan/moeplan/layout/plan"
)

// Workflow writes the field's workflow as a checklist, filled in for one plan.
func Workflow(w io.Writer, r *plan.Result, next *plan.Experiments) {
	p := printerTo(w)
	best := &r.Plans[0]
	s := &best.Sizes
	q := &r.Request
	p.section("LAYOUT", p.wrapLayout(best.Key)...)
	p.prose("", fmt.Sprintf("attention mesh TP %d x CP %d x DP %d x PP %d; MoE mesh ETP %d x EP %d x EDP %d x PP %d; %d GPUs (%s)",
		s.TP, s.CP, s.DP, s.PP, s.ETP, s.EP, s.EDP, s.PP, q.GPUs, q.Platform))
	p.blank()
	p.prose("1 CONTRACT", "[ ] freeze what is measured before anything is tuned: model, data, precision, batch, versions, topology (moeplan contract)",
		fmt.Sprintf("[ ] sequence %d, MBS %d, GBS %d, %s, %s gradients, %s moments", q.SeqLength, s.MicroBatchSize, q.GlobalBatchSize, q.Precision, q.Gradients, q.Moments),
		"[ ] label the candidate: training-equivalent, or benchmark-only (forced balance, mock data)")
	m := &best.Stages[best.WorstStage].Memory
	p.prose("2 FIT", "[ ] "+best.Why[0],
		fmt.Sprintf("[ ] worst stage %d: %.1f GiB allocated, %.0f-%.0f on the card of %.2f", best.WorstStage, float64(m.PeakAllocated)/gib,
			float64(m.PeakDeviceLow)/gib, float64(m.PeakDevice)/gib, q.MemoryGiB),
		"[ ] check on one GPU: moeplan emit --for check, then moeplan verify")
	p.prose("3 SCALE", fmt.Sprintf("[ ] DP %d; minimum model parallelism TP %d x CP %d x PP %d", s.DP, s.TP, s.CP, s.PP))
	for _, why := range best.Why[1:] {
		p.prose("", "[ ] "+why)
	}
	p.prose("4 PROFILE", fmt.Sprintf("[ ] bring-up, %.3g s a step expected; expected wall: %s. Profile a steady step and look for that wall (moeplan overlap)", best.StepTimeMS/1e3, best.Wall))
	p.prose("5 RETUNE", "[ ] one variable at a time (moeplan next):")
	for i := range next.List {
		x := &next.List[i]
		expected := "not priced"
		if x.Expected != nil {
			expected = fmt.Sprintf("%+.0f %%", 100**x.Expected)
		}
		p.prose("", fmt.Sprintf("    [ ] %s (%s)", x.Variable, expected))
	}
	p.prose("6 VALIDATE", "[ ] at least 50 steady steps in a declared window against the matched baseline (moeplan evidence)",
		"[ ] report: step time with spread, tokens/s per GPU, TFLOPS per GPU in Megatron's convention, peak memory of every stage, loss finite, skipped and NaN steps, versions and commits",
		"[ ] natural routing costs 8 to 20 % against forced balance on the published pair: say which was measured")
}
