package plan

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// The checklist has the phases in the field's order, says where each line comes from, and holds what the layout at hand
// makes of each.
func TestWorkflow(t *testing.T) {
	for _, tt := range []struct {
		model  string
		gpus   int
		layout string
		has    []string
		not    []string
		reason string
	}{
		{"qwen3-235b", 256, "tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm",
			[]string{"card of 79.65: fits", "recompute moe_act,layernorm leaves room", "EP 32 spans 4 domains", "without folding", "towards deepep",
				"dispatcher deepep (-", "natural routing"}, []string{"does not fit"}, "the first question"},
		{"llama3-70b", 64, "tp4 pp4", []string{"fits without recompute", "TP overlap ("}, []string{"natural routing", "without folding", "alltoall"},
			"a dense model has no experts to route, fold or dispatch"},
		{"qwen3-235b", 64, "tp8 pp8", []string{"does not fit; moeplan mem"}, []string{"leaves room", "fits without"}, "216 GiB on a card of 80"},
		{"qwen3-235b", 256, "tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm dispatcher=deepep overlap=on",
			[]string{"first run (deepep + EP overlap, eager)", "delayed weight gradients (-"}, []string{"dispatcher deepep ("}, "what is on is no experiment"},
	} {
		r := ask(t, tt.model, "h100", tt.gpus)
		w, err := WorkflowOf(context.Background(), r, parsed(t, &r, tt.layout))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		text := ""
		for _, p := range w.Phases {
			names = append(names, p.Name)
			for _, todo := range p.Todo {
				text += todo.Text + "\n"
				if todo.Source == "" {
					t.Errorf("%s: no source of %q", tt.layout, todo.Text)
				}
			}
		}
		if got := fmt.Sprint(names); got != "[contract fit scale profile retune validate]" {
			t.Errorf("phases %s", got)
		}
		for _, want := range tt.has {
			if !strings.Contains(text, want) {
				t.Errorf("%s %s: no %q (%s):\n%s", tt.model, tt.layout, want, tt.reason, text)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(text, not) {
				t.Errorf("%s %s: %q (%s)", tt.model, tt.layout, not, tt.reason)
			}
		}
		if (w.MoEMesh == "") != (r.Model.MoE == nil) {
			t.Errorf("%s: MoE mesh %q", tt.model, w.MoEMesh)
		}
	}
}
