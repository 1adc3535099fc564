package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/moeplan/moeplan/layout/plan"
)

// Next writes the experiments to try on a layout, one after the other; sources adds where each claim comes from.
func Next(w io.Writer, e *plan.Experiments, sources bool) {
	p := printerTo(w)
	p.section("LAYOUT", p.wrapLayout(e.Key)...)
	p.prose("BASELINE", fmt.Sprintf("%s s a step (%s); expected wall: %s. One change at a time, from this run.", seconds(e.BaselineMS), e.Software, e.Wall))
	p.blank()
	for i := range e.List {
		x := &e.List[i]
		expected := "not priced"
		if x.Expected != nil {
			expected = signed(100**x.Expected, 0) + " % time"
		}
		if x.Memory != nil {
			expected += ", " + signed(float64(*x.Memory)/gib, 1) + " GiB"
		}
		p.section(fmt.Sprintf("%2d", x.Order), fmt.Sprintf("%s   (%s)", x.Variable, expected))
		p.prose("", "why: "+x.Why)
		p.section("", "flags: "+strings.Join(x.Flags, " "))
		if len(x.Requires) > 0 {
			p.prose("", "needs: "+strings.Join(x.Requires, "; "))
		}
		p.prose("", "accept: "+strings.ReplaceAll(x.Accept, plan.SteadyAB, "a matched A/B"))
		if sources {
			p.prose("", "source: "+x.Source)
		}
	}
	p.blank()
	p.prose("MATCHED A/B", plan.SteadyAB)
	if len(e.Excluded) > 0 {
		p.prose("NOT HERE", e.Excluded...)
	}
}
