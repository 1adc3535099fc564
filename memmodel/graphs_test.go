package memmodel

import (
	"testing"

	"github.com/moeplan/moeplan/layout/arch"
)

// What graphs may hold beyond the eager peak follows from what they capture: nothing captured is nothing, a wider scope is not
// less, parts that the model does not have count nothing, and no part exceeds what the stage keeps in all.
func TestGraphPools(t *testing.T) {
	m, err := arch.Lookup("deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	l := benchLayout(m)
	stage := func(g Graphs) Stage {
		run := DefaultRun(100)
		run.Graphs = g
		e, err := New(m, run)
		if err != nil {
			t.Fatal(err)
		}
		stages, err := e.Estimate(&l)
		if err != nil {
			t.Fatal(err)
		}
		return stages[len(stages)-2] // MoE layers alone
	}
	static := stage(Graphs{Modules: GraphMamba}).Device.Graphs.Low
	for _, tt := range []struct {
		modules, wider GraphModules
		pool           bool // whether more than static tensors may be held
		reason         string
	}{
		{0, GraphRouter, false, "nothing captured"},
		{GraphMamba, GraphMamba | GraphRouter, false, "no Mamba layer"},
		{GraphMLP, GraphMLP | GraphMoE, false, "no dense layer on this stage"},
		{GraphRouter, GraphRouter | GraphAttention, true, "the norm, the router and the shared expert"},
		{GraphRouter, GraphMoE, true, "the router is part of the MoE layer"},
		{GraphAttention, GraphAttention | GraphMoE, true, "attention"},
	} {
		narrow, wide := stage(Graphs{Modules: tt.modules}), stage(Graphs{Modules: tt.wider})
		n, w := narrow.Device.Graphs, wide.Device.Graphs
		if pool := n.High - n.Low; (pool > 0) != tt.pool || pool > narrow.PeakAllocated || w.High < n.High {
			t.Errorf("%s: %+v, wider %+v", tt.reason, n, w)
		}
		if tt.modules != 0 && n.Low != static {
			t.Errorf("%s: static tensors %d, want %d whatever is captured", tt.reason, n.Low, static)
		}
	}
	if s := stage(Graphs{FullIteration: true}); s.Device.Graphs.High != s.PeakAllocated {
		t.Errorf("a whole iteration: %+v of a peak of %d", s.Device.Graphs, s.PeakAllocated)
	}
}
