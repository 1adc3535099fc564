package plan

import (
	"context"
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/topology/steptime"
)

// explain fills the first plan's Why with statements that a person can check.
func (p *pricer) explain(r *Request, out *Result) {
	best := &out.Plans[0]
	why := []string{p.whyRecompute(r, &best.Layout)}
	why = append(why, whyPlacement(best)...)
	if f := out.Folding; f != nil {
		why = append(why, whyFolding(f, &best.Layout))
	}
	if out.BF16Gradients != "" {
		why = append(why, out.BF16Gradients)
	}
	why = append(why, "expected wall: "+best.Wall)
	best.Why = why
}

// whyFolding compares a layout with the best that does not fold.
func whyFolding(f *Unfolded, l *layout.Layout) string {
	switch {
	case l.ETP == l.TP && l.DP()%l.EP == 0:
		return fmt.Sprintf("it does not fold: EP %d lies within DP %d, and ETP is TP", l.EP, l.DP())
	case f.SlowerBy == nil:
		return "without folding (experts parallel within DP, one TP for all) nothing fits"
	}
	return fmt.Sprintf("without folding (EP within DP, ETP = TP) the best takes %s: %s", slower(*f.SlowerBy), f.Key)
}

// worthSaying is the gain below which the answer to another question is not mentioned.
const worthSaying = 0.02

// withBF16Gradients answers the same question with gradients reduced in bf16, as NVIDIA's tuned recipes do
// (recipes.md), and says what that would buy; "" if nothing worth saying.
func withBF16Gradients(ctx context.Context, r *Request, best *Plan) (string, error) {
	if r.BF16Gradients {
		return "", nil
	}
	q := *r
	q.BF16Gradients = true
	fastest, err := fastestOf(ctx, &q)
	if err != nil || fastest == nil {
		return "", err
	}
	gain := 1 - ms(fastest.tuned)/best.TunedTimeMS
	if gain < worthSaying {
		return "", nil
	}
	return fmt.Sprintf("with --grads bf16, as tuned recipes reduce them, %.0f %% less: %s", 100*gain, fastest.layout.Degrees), nil
}

// fastestOf sweeps a question and returns its fastest layout that fits, or nil.
func fastestOf(ctx context.Context, r *Request) (*candidate, error) {
	q := *r
	q.Pareto = false // of which it needs nothing
	space, err := q.space()
	if err != nil {
		return nil, nil // the pins leave nothing to try
	}
	found, err := sweep(ctx, &q, space)
	if err != nil {
		return nil, err
	}
	var fastest *candidate
	for _, f := range found {
		for i := range f.best {
			if fastest == nil || f.best[i].tuned < fastest.tuned {
				fastest = &f.best[i]
			}
		}
	}
	return fastest, nil
}

// whyRecompute names the rung taken, and by how much the one before fails.
func (p *pricer) whyRecompute(r *Request, l *layout.Layout) string {
	taken := l.Recompute.String()
	if r.Recompute != nil {
		return "recompute " + taken + " was given"
	}
	ladder := layout.RecomputeLadder(p.model)
	for i, rung := range ladder {
		if rung != l.Recompute {
			continue
		}
		if i == 0 {
			return "fits without recompute"
		}
		before := *l
		before.Recompute = ladder[i-1]
		need := p.memory.Need(&before)
		over, stage := float64(p.budget.over(need))/float64(gib), need.Rank
		if over <= 0 {
			return fmt.Sprintf("recompute %s leaves room; with %s stage %d comes within %.1f GiB of the limit",
				taken, rungName(ladder[i-1]), stage, -over)
		}
		return fmt.Sprintf("recompute %s is the first rung that fits; with %s stage %d is over by %.1f GiB",
			taken, rungName(ladder[i-1]), stage, over)
	}
	return "recompute " + taken
}

// rungName names a rung inside a sentence.
func rungName(r layout.Recompute) string {
	if r.Granularity == layout.NoRecompute {
		return "none"
	}
	return r.String() + " alone"
}

// whyPlacement says where the hot traffic goes and what it costs.
func whyPlacement(pl *Plan) []string {
	var out []string
	for _, t := range pl.Communication {
		switch {
		case t.GroupSize <= 1:
		case t.Axis == steptime.EP.String(), t.Axis == steptime.TP.String(), t.Axis == steptime.CP.String():
			if t.Domains <= 1 {
				out = append(out, fmt.Sprintf("%s %d stays inside one NVLink domain; %s s a step exposed at bring-up",
					strings.ToUpper(t.Axis), t.GroupSize, short(t.ExposedMS)))
				continue
			}
			out = append(out, fmt.Sprintf("%s %d spans %d domains: %.0f %% of its bytes leave NVLink, %s s a step exposed at bring-up",
				strings.ToUpper(t.Axis), t.GroupSize, t.Domains, 100*float64(t.BytesCrossing)/float64(max(t.Bytes, 1)), short(t.ExposedMS)))
		}
	}
	return out
}

// slower says how a time compares with the best plan's.
func slower(by float64) string {
	switch {
	case by > 0.005:
		return fmt.Sprintf("%.0f %% longer", 100*by)
	case by < -0.05: // the plans were ordered by something else than time
		return fmt.Sprintf("%.0f %% less", -100*by)
	case by < -0.005: // the plan shown is the simplest of those that cannot be told apart
		return fmt.Sprintf("%.0f %% less, which is not distinguishable", -100*by)
	}
	return "as long"
}

// short prints seconds with two digits: a time is known to +-15 %.
func short(ms float64) string {
	if s := ms / 1e3; s >= 10 {
		return fmt.Sprintf("%.0f", s)
	}
	return fmt.Sprintf("%.2g", ms/1e3)
}

// unfolded finds the best layout without Parallel Folding: experts share the attention's TP, and EP is taken from
// data parallelism alone. It is nil for dense models.
func unfolded(ctx context.Context, r *Request, best *Plan) (*Unfolded, error) {
	if r.Model.MoE == nil {
		return nil, nil
	}
	q := *r
	q.Pins.ETP = layout.Exactly(1, 2, 4, 8)
	q.keep = func(l *layout.Layout) bool { return l.ETP == l.TP && l.DP()%l.EP == 0 }
	fastest, err := fastestOf(ctx, &q)
	if err != nil {
		return nil, err
	}
	if fastest == nil {
		return &Unfolded{}, nil
	}
	slower := fastest.tuned*1e3/best.TunedTimeMS - 1
	return &Unfolded{Key: fastest.layout.Degrees.String(), StepTimeMS: ms(fastest.tuned), SlowerBy: &slower}, nil
}

// notes say what is outside the measured domain.
func (p *pricer) notes(r *Request, out *Result) []string {
	notes := []string{}
	if len(out.Plans) > 0 {
		notes = append(notes, out.Plans[0].Notes...)
	}
	if len(out.Plans) > 0 {
		notes = append(notes, p.offloadNotes(r, &out.Plans[0].Layout)...)
	}
	if f := r.TrainableFraction; f > 0 && f < 1 {
		notes = append(notes, fmt.Sprintf("%g of the parameters are trained: memory counts gradients and optimizer state for them alone; times are those of full training", f))
	}
	if r.stretched {
		notes = append(notes, fmt.Sprintf("a sequence of %d exceeds the model's own positions: rope scaling is yours to choose", r.SeqLength))
	}
	if r.Platform.Arch != "" && !r.Platform.SM.Known {
		notes = append(notes, "workspaces of "+r.Platform.ID+" are taken for an H100's")
	}
	if !p.budget.supported {
		notes = append(notes, "the headroom of "+r.Platform.ID+" rests on no tuned recipe")
	}
	return notes
}
