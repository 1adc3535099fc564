package report

import (
	"fmt"
	"io"

	"github.com/moeplan/moeplan/layout/plan"
)

// Workflow writes the field's workflow as a checklist, filled in for one layout; sources adds where each line comes from.
func Workflow(w io.Writer, flow *plan.Workflow, sources bool) {
	p := printerTo(w)
	p.section("LAYOUT", p.wrapLayout(flow.Key)...)
	p.prose("", "attention "+flow.AttentionMesh)
	if flow.MoEMesh != "" {
		p.prose("", "experts   "+flow.MoEMesh)
	}
	p.prose("", fmt.Sprintf("on %d GPUs (%s)", flow.GPUs, flow.Platform))
	p.blank()
	for i := range flow.Phases {
		phase := &flow.Phases[i]
		name := fmt.Sprintf("%d %s", i+1, phase.Title())
		for _, todo := range phase.Todo {
			if todo.Part {
				p.section(name, "    [ ] "+todo.Text)
			} else {
				p.prose(name, "[ ] "+todo.Text)
			}
			name = ""
			if sources {
				p.prose("", "- from "+todo.Source)
			}
		}
	}
}
