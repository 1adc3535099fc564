package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/evidence"
)

// RankName names a rank that may be unknown.
func RankName(rank evidence.Index) string {
	if rank < 0 {
		return "a rank"
	}
	return fmt.Sprintf("rank %d", rank)
}

// Verification writes what logs showed of a layout's memory against its prediction.
func Verification(w io.Writer, l *layout.Layout, v *evidence.Verification) error {
	p := printerTo(w)
	p.section("LAYOUT", p.wrapLayout(l.String())...)
	p.blank()
	p.prose("MEMORY", "GiB, allocated peak and what stays after a step")
	t := Table{Head: []string{"rank", "stage", "iter", "predicted", "measured", "deviation", "after step", "measured", "fits", "verdict"}, Text: []int{8, 9}}
	for i := range v.Ranks {
		r := &v.Ranks[i]
		t.Add(rankCells(r)...)
	}
	if err := t.Write(w, Text); err != nil {
		return err
	}
	p.blank()
	if n := len(v.Parameters); n > 0 {
		wrong := 0
		for i := range v.Parameters {
			if c := &v.Parameters[i]; c.Predicted != c.Printed {
				wrong++
				p.prose("PARAMETERS", fmt.Sprintf("stage %d, tensor rank %d: %d printed, %d predicted", c.Stage, c.Tensor, c.Printed, c.Predicted))
			}
		}
		if wrong == 0 {
			p.prose("PARAMETERS", fmt.Sprintf("%s printed, all as predicted", plural(n, "count")))
		}
	}
	for i := range v.Theory {
		p.prose("UPSTREAM", theory(&v.Theory[i]))
	}
	c := &v.Coverage
	if c.Covered.Known {
		text := fmt.Sprintf("covers %.1f of %.1f GiB", c.Covered.GiB(), float64(c.Of)/gib)
		if c.Fake {
			text += " (fake process group)"
		}
		if len(c.Missing) > 0 {
			text += "; not " + strings.Join(c.Missing, ", ")
		}
		p.prose("COVERAGE", text)
	}
	for _, m := range v.Mismatches {
		p.prose("ANOTHER RUN", m)
	}
	for _, n := range v.Notes {
		p.prose("NOTE", n)
	}
	p.prose("VERDICT", verdictOf(v))
	return nil
}

func rankCells(r *evidence.RankCheck) []string {
	unknown := func(b evidence.Bytes) string {
		if !b.Known {
			return "-"
		}
		return gibs(b.N)
	}
	rank, stage, predicted, measured, deviation, iteration := "?", "?", "-", "-", "-", "-"
	if r.Rank >= 0 {
		rank = fmt.Sprint(r.Rank)
	}
	if r.Stage >= 0 {
		stage, predicted = fmt.Sprint(r.Stage), gibs(r.Predicted.N)
	}
	if r.Report.Iteration >= 0 {
		iteration = fmt.Sprint(r.Report.Iteration)
	}
	if r.OfOutOfMem {
		if r.Measured.Known {
			measured = "> " + gibs(r.Measured.N)
		}
		what := "out of memory"
		if r.OutsideAlloc {
			what += " outside the allocator"
		}
		return []string{rank, stage, iteration, predicted, measured, deviation, "-", "-", "no", what}
	}
	measured, deviation = gibs(r.Measured.N), signed(100*r.Deviation.V, 2)+" %"
	if !r.Steady {
		measured = "> " + measured
	}
	return []string{rank, stage, iteration, predicted, measured, deviation, gibs(r.AfterStep.N), unknown(r.Report.Allocated), r.Grade, string(r.Outcome)}
}

func theory(c *evidence.TheoryCheck) string {
	printed := fmt.Sprintf("its theoretical line prints weight and optimizer %.2f MB", c.Printed.WeightsMiB)
	switch {
	case c.Reproduced == nil:
		return printed + ", not reproduced: " + *c.Why
	case c.Agrees:
		return printed + ", reproduced; it knows no experts' activations, recomputation or CP and is no prediction"
	}
	return fmt.Sprintf("%s, the layout's flags give %.2f (by the formula of main)", printed, c.Reproduced[0])
}

func verdictOf(v *evidence.Verification) string {
	switch v.Outcome {
	case evidence.Agrees:
		w := v.Worst()
		if w.OfOutOfMem {
			return "it ran out of memory, as the prediction says"
		}
		return fmt.Sprintf("the prediction holds: the worst rank is off by %s %%, %g %% are allowed", signed(100*w.Deviation.V, 2), 100*v.Tolerance)
	case evidence.Deviates:
		return fmt.Sprintf("the prediction does not hold within %g %%", 100*v.Tolerance)
	case evidence.AnotherRun:
		return "none: this log is of another run"
	}
	return "none: no peak that could be compared"
}
