package page

import (
	"slices"
	"testing"

	"github.com/moeplan/moeplan/layout/plan"
)

// Stages that hold the same share a column, every part has a size or a gap in every column, and what lies outside comes last.
func TestWhence(t *testing.T) {
	stage := func(activations int64, extra bool) plan.StageAccount {
		s := plan.StageAccount{Parts: []plan.Part{{Name: "saved activations", Bytes: activations << 30, Basis: plan.Exact, Formula: "sum", Source: "a file"}},
			Outside: []plan.Range{{Name: "CUDA context", Low: 1 << 30, High: 2 << 30, Basis: plan.Assumed}}}
		if extra {
			s.Parts = append(s.Parts, plan.Part{Name: "running layer", Bytes: 1 << 30, Basis: plan.Fitted})
		}
		return s
	}
	w := whenceOf([]plan.StageAccount{stage(3, false), stage(2, false), stage(2, false), stage(1, true)}, 0)
	if want := []string{"pp0", "pp1–2", "pp3"}; !slices.Equal(w.Stages, want) || w.LeftOut != "" {
		t.Errorf("columns %q without %q, want %q", w.Stages, w.LeftOut, want)
	}
	want := []whenceRow{
		{"saved activations", "exact", []string{"3.0", "2.0", "1.0"}, "sum", "a file"},
		{"running layer", "fitted", []string{"", "", "1.0"}, "", ""},
		{"outside: CUDA context", "assumed", []string{"1.0–2.0", "1.0–2.0", "1.0–2.0"}, "", ""},
	}
	if !slices.EqualFunc(w.Rows, want, func(a, b whenceRow) bool {
		return a.Part == b.Part && a.Known == b.Known && a.How == b.How && a.Source == b.Source && slices.Equal(a.GiB, b.GiB)
	}) {
		t.Errorf("rows %+v, want %+v", w.Rows, want)
	}
	var many []plan.StageAccount
	for i := range 9 {
		many = append(many, stage(int64(20-i), false))
	}
	many[4] = stage(50, false)
	if w := whenceOf(many, 4); !slices.Equal(w.Stages, []string{"pp0", "pp1", "pp4", "pp8"}) || w.LeftOut != "pp2, pp3, pp5, pp6, pp7" {
		t.Errorf("%q without %q: the first two, the worst and the last stay", w.Stages, w.LeftOut)
	}
	if whenceOf(nil, 0) != nil {
		t.Error("a table of nothing")
	}
}
