package plan

import (
	"context"
	"fmt"
	"math"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/topology/steptime"
)

// Side is one of two layouts that are compared.
type Side struct {
	Plan Plan `json:"plan"` // the layout with its price; rank is 1
	// Violations are all rules that it breaks, hazards and advice included.
	Violations layout.Violations `json:"violations"`
	flags      megatron.Args
}

// Difference is what changes from one layout to another of the same model on the same GPUs.
type Difference struct {
	A Side `json:"a"` // the first layout
	B Side `json:"b"` // the second one
	// Flags are the Megatron-LM flags whose values differ, in the first side's order, then the second's.
	Flags []FlagChange `json:"flags"`
	// Closing sums the difference up in one sentence.
	Closing string `json:"closing"`
}

// FlagChange is one Megatron-LM flag whose value differs. A flag that a side does not pass is "".
type FlagChange struct {
	Flag string `json:"flag"` // with its dashes
	A    string `json:"a"`    // the value on the first side, several with blanks between them; "on" for a flag without one
	B    string `json:"b"`    // the value on the second side, written as on the first
}

// Describe prices one layout that somebody chose, in the terms of Search.
func Describe(ctx context.Context, r Request, l layout.Layout) (*Plan, layout.Violations, error) {
	r, _ = r.filled()
	p, err := newPricer(&r)
	if err != nil {
		return nil, nil, err
	}
	described, err := p.describe(&l)
	if err != nil {
		return nil, nil, err
	}
	described.Rank = 1
	return &described, layout.Check(r.Model, &l), ctx.Err()
}

// AnswerWith is the answer to a request whose only plan is a layout that somebody chose: what Search would return if it had
// found just that one.
func AnswerWith(ctx context.Context, r Request, l layout.Layout) (*Result, error) {
	described, _, err := Describe(ctx, r, l)
	if err != nil {
		return nil, err
	}
	r, assumed := r.filled()
	p, err := newPricer(&r)
	if err != nil {
		return nil, err
	}
	out := &Result{Assumed: assumed, Request: r.echo(p), Plans: []Plan{*described}, Pareto: []Point{}, Notes: []string{},
		Searched: Searched{RejectedByRule: map[string]int{}, NotSearched: []string{}}}
	out.Notes = p.notes(&r, out)
	return out, nil
}

// Diff compares two layouts.
func Diff(ctx context.Context, r Request, a, b layout.Layout) (*Difference, error) {
	out := &Difference{}
	for _, s := range []struct {
		side *Side
		l    layout.Layout
	}{{&out.A, a}, {&out.B, b}} {
		described, violations, err := Describe(ctx, r, s.l)
		if err != nil {
			return nil, err
		}
		s.side.Plan, s.side.Violations = *described, violations
		if s.side.flags, err = megatron.Training(&s.l, r.Model); err != nil {
			return nil, err
		}
	}
	out.Flags = changedFlags(out.A.flags, out.B.flags)
	out.Closing = out.close()
	return out, nil
}

// changedFlags lists the flags whose values differ, in the order of the first side, then of the second.
func changedFlags(a, b megatron.Args) []FlagChange {
	var changes []FlagChange
	value := func(args megatron.Args, name string) (string, bool) {
		values, ok := args.Get(name)
		if !ok {
			return "", false
		}
		if len(values) == 0 {
			return "on", true
		}
		return fmt.Sprint(joined(values)), true
	}
	for _, f := range a {
		va, _ := value(a, f.Name)
		if vb, ok := value(b, f.Name); !ok || va != vb {
			changes = append(changes, FlagChange{f.Name, va, vb})
		}
	}
	for _, f := range b {
		if _, ok := value(a, f.Name); !ok {
			vb, _ := value(b, f.Name)
			changes = append(changes, FlagChange{f.Name, "", vb})
		}
	}
	return changes
}

func joined(values []string) (text string) {
	for i, v := range values {
		if i > 0 {
			text += " "
		}
		text += v
	}
	return text
}

// close says in one sentence which side is faster and what it costs in memory and links.
func (d *Difference) close() string {
	a, b := &d.A.Plan, &d.B.Plan
	memory := float64(b.Stages[b.WorstStage].Memory.PeakAllocated-a.Stages[a.WorstStage].Memory.PeakAllocated) / float64(gib)
	sentence := inTime(a.TunedTimeMS, b.TunedTimeMS)
	if a.StepSoftware != b.StepSoftware { // a difference that the tuned state takes away
		sentence = "as written " + inTime(a.StepTimeMS, b.StepTimeMS) + "; tuned, " + sentence
	}
	switch {
	case math.Abs(memory) < 0.05:
		sentence += ", with the same memory on its worst stage"
	case memory > 0:
		sentence += fmt.Sprintf(", and %.1f GiB more on its worst stage", memory)
	default:
		sentence += fmt.Sprintf(", and %.1f GiB less on its worst stage", -memory)
	}
	if a.NVLinkFraction != nil && b.NVLinkFraction != nil {
		if points := 100 * (*b.NVLinkFraction - *a.NVLinkFraction); math.Abs(points) >= 1 {
			sentence += fmt.Sprintf("; %.0f %% of its hot bytes stay inside NVLink, %+.0f points", 100**b.NVLinkFraction, points)
		}
	}
	return sentence + "."
}

// inTime says how B's time differs from A's, both in the same unit; by steptime's rule of what it can tell apart.
func inTime(a, b float64) string {
	switch change := b/a - 1; {
	case !steptime.Distinguishable(a, b):
		return "B and A are not distinguishable in time"
	case change < 0:
		return fmt.Sprintf("B takes %.0f %% less time than A", -100*change)
	default:
		return fmt.Sprintf("B takes %.0f %% more time than A", 100*change)
	}
}
