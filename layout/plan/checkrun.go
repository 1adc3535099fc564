package plan

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/memmodel"
)

// CheckRun returns the question and the layout that a check on one GPU really runs: tokens balanced by force, and alltoall
// in place of any other dispatcher, because flex ones are refused under a fake process group (megatron.CheckCommand writes
// the same). Describe of the two is what such a check must show.
func CheckRun(r Request, l layout.Layout) (Request, layout.Layout) {
	r.Imbalance = 1
	l.Dispatcher = layout.AllToAll
	return r, l
}

// checkStages prices what a check runs; stages are those of the layout itself, which are the answer where it is the same.
func (p *pricer) checkStages(l *layout.Layout, stages []memmodel.Stage) ([]memmodel.Stage, error) {
	if p.balanced == nil && l.Dispatcher == layout.AllToAll {
		return stages, nil
	}
	estimator := p.memory
	if p.balanced != nil {
		estimator = p.balanced
	}
	run := *l
	run.Dispatcher = layout.AllToAll
	return estimator.Estimate(&run)
}

// CheckExpectation says in words what a check must show, and which fuller stage it cannot reach: a rank without data does
// not train under the fake process group (layout-rules.md 4.3).
func (p *Plan) CheckExpectation() string {
	text := fmt.Sprintf("expect %.1f GiB allocated at the peak of stage %d", float64(p.CheckPeak)/float64(gib), p.CheckStage)
	if m := &p.Stages[p.WorstStage].Memory; p.WorstStage != p.CheckStage && m.PeakAllocated > p.CheckPeak {
		text += fmt.Sprintf("; the fullest, stage %d with %.1f GiB, is reached with --middle-stages alone, which nobody has tested",
			p.WorstStage, float64(m.PeakAllocated)/float64(gib))
	}
	return text
}
