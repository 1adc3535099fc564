package report

import (
	"fmt"
	"io"

	"github.com/moeplan/moeplan/layout/plan"
)

// Diff writes two layouts side by side.
func Diff(w io.Writer, d *plan.Difference) error {
	a, b := &d.A.Plan, &d.B.Plan
	p := printerTo(w)
	p.section("A", p.wrapLayout(a.Key)...)
	p.section("B", p.wrapLayout(b.Key)...)
	p.blank()

	if len(d.Flags) > 0 {
		p.section("FLAGS", "")
		t := Table{Head: []string{"flag", "A", "B"}, Text: []int{0, 1, 2}}
		for _, f := range d.Flags {
			t.Add(f.Flag, dash(f.A), dash(f.B))
		}
		if err := t.Write(w, Text); err != nil {
			return err
		}
		p.blank()
	}
	ma, mb := &a.Stages[a.WorstStage].Memory, &b.Stages[b.WorstStage].Memory
	p.prose("MEMORY", fmt.Sprintf("GiB on the worst stage: %d of A, %d of B", a.WorstStage, b.WorstStage))
	t := Table{Head: []string{"component", "A", "B", "change"}, Text: []int{0}}
	for _, row := range []struct {
		name string
		a, b int64
	}{
		{"dense state", ma.DenseState, mb.DenseState}, {"expert state", ma.ExpertState, mb.ExpertState},
		{"activations", ma.Activations, mb.Activations}, {"transient", ma.Transient, mb.Transient},
		{"workspace", ma.Workspace, mb.Workspace}, {"allocated peak", ma.PeakAllocated, mb.PeakAllocated},
		{"card, upper figure", ma.PeakDevice, mb.PeakDevice},
	} {
		t.Add(row.name, gibs(row.a), gibs(row.b), signed(float64(row.b-row.a)/gib, 2))
	}
	if err := t.Write(w, Text); err != nil {
		return err
	}
	p.blank()

	p.prose("LINKS", "GB a step and rank as written: all, leaving NVLink; s exposed")
	t = Table{Head: []string{"axis", "A size", "A GB", "A leaving", "A exposed", "B size", "B GB", "B leaving", "B exposed"}, Text: []int{0}}
	for _, axis := range axesOf(a, b) {
		t.Add(append([]string{axis}, append(traffic(a, axis), traffic(b, axis)...)...)...)
	}
	if err := t.Write(w, Text); err != nil {
		return err
	}
	p.blank()

	p.prose("TIME", "s a step")
	t = Table{Head: []string{"part", "A", "B", "change"}, Text: []int{0}}
	for _, row := range []struct {
		name string
		a, b float64
	}{{"now", a.StepTimeMS, b.StepTimeMS}, {"  of it exposed", a.ExposedMS, b.ExposedMS}, {"tuned", a.TunedTimeMS, b.TunedTimeMS}} {
		t.Add(row.name, seconds(row.a), seconds(row.b), change(row.a, row.b))
	}
	if err := t.Write(w, Text); err != nil {
		return err
	}
	p.prose("", "now: "+both(a.StepSoftware, b.StepSoftware)+"; tuned: "+both(a.TunedSoftware, b.TunedSoftware))
	p.blank()
	for _, side := range []struct {
		name string
		side *plan.Side
	}{{"A", &d.A}, {"B", &d.B}} {
		for _, v := range side.side.Violations {
			p.prose("RULES "+side.name, fmt.Sprintf("%s %s: %s", v.Severity, v.Rule, v.Message))
		}
	}
	p.flush(d.Closing)
	return nil
}

// axesOf lists the axes on which either side communicates.
func axesOf(a, b *plan.Plan) []string {
	var axes []string
	seen := map[string]bool{}
	for _, p := range []*plan.Plan{a, b} {
		for i := range p.Communication {
			if axis := p.Communication[i].Axis; !seen[axis] {
				seen[axis] = true
				axes = append(axes, axis)
			}
		}
	}
	return axes
}

func traffic(p *plan.Plan, axis string) []string {
	for i := range p.Communication {
		if c := &p.Communication[i]; c.Axis == axis {
			return []string{fmt.Sprint(c.GroupSize), fmt.Sprintf("%.1f", float64(c.Bytes)/1e9),
				fmt.Sprintf("%.1f", float64(c.BytesCrossing)/1e9), seconds(c.ExposedMS)}
		}
	}
	return []string{"1", "-", "-", "-"}
}

// both names what two sides have: once if it is the same.
func both(a, b string) string {
	if a == b {
		return a
	}
	return "A " + a + ", B " + b
}
