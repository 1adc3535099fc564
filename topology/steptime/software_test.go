package steptime

import (
	"testing"

	"github.com/moeplan/moeplan/layout"
)

func TestTuned(t *testing.T) {
	for _, c := range []struct {
		reason     string
		model, gpu string
		spec       layoutSpec
		recompute  layout.Modules
		full       bool
		dispatcher layout.Dispatcher
		overlap    bool
		graph      Graph
	}{
		{"inside a Hopper box the rule takes alltoall (ranking-findings 3 item 9, loc-001)",
			"Qwen3-235B-A22B", "h100", layoutSpec{world: 256, pp: 8, vpp: 4, ep: 8}, 0, false, layout.AllToAll, true, Eager},
		{"and HybridEP on Blackwell", "Qwen3-235B-A22B", "b200", layoutSpec{world: 256, pp: 8, vpp: 4, ep: 8}, 0, false,
			layout.HybridEP, true, AttnGraph},
		{"across boxes flex", "Qwen3-235B-A22B", "h100", layoutSpec{world: 256, pp: 8, vpp: 4, ep: 32}, 0, false,
			layout.DeepEP, true, Eager},
		{"ETP counts: 2*8 ranks leave the box", "Qwen3-235B-A22B", "h100", layoutSpec{world: 256, tp: 2, pp: 8, vpp: 4, ep: 8, etp: 2},
			0, false, layout.DeepEP, true, Eager},
		{"no flex backend runs on Ada", "Qwen3-30B-A3B", "l40s", layoutSpec{world: 32, ep: 16}, 0, false, layout.AllToAll, true, Eager},
		{"PP without VPP excludes overlap", "Qwen3-235B-A22B", "h100", layoutSpec{world: 256, pp: 8, ep: 32}, 0, false,
			layout.DeepEP, false, Eager},
		{"moe recompute excludes overlap", "Qwen3-235B-A22B", "h100", layoutSpec{world: 256, pp: 8, vpp: 4, ep: 32}, layout.MoE, false,
			layout.DeepEP, false, Eager},
		{"moe_act does not", "Qwen3-235B-A22B", "h100", layoutSpec{world: 256, pp: 8, vpp: 4, ep: 32}, layout.MoEAct, false,
			layout.DeepEP, true, Eager},
		{"full recompute excludes overlap", "Qwen3-30B-A3B", "h100", layoutSpec{world: 16, ep: 16}, 0, true, layout.DeepEP, false, Eager},
		{"one rank dispatches nothing", "Qwen3-30B-A3B", "gb200", layoutSpec{world: 16}, 0, false, layout.AllToAll, false, AttnGraph},
		{"a dense model neither, but it can overlap TP", "Llama3-70B-L12", "h100", layoutSpec{world: 8, tp: 2}, 0, false, layout.AllToAll, false, Eager},
		{"one MTP layer is allowed", "DeepSeek-V3", "h100", layoutSpec{world: 256, pp: 8, vpp: 4, ep: 32}, 0, false,
			layout.DeepEP, true, Eager},
	} {
		m := testModel(t, c.model)
		l := testLayout(m, c.spec)
		if c.recompute != 0 {
			l.Recompute = layout.Recompute{Granularity: layout.Selective, Modules: c.recompute}
		}
		if c.full {
			l.Recompute = layout.Recompute{Granularity: layout.Full, NumLayers: 1}
		}
		got := newEstimator(t, m, c.gpu, DefaultRun()).Tuned(&l)
		want := BringUp()
		want.Dispatcher, want.EPOverlap, want.DelayWgrad, want.Graph = c.dispatcher, c.overlap, c.overlap, c.graph
		want.TPOverlap = m.MoE == nil && c.spec.tp > 1 // every dense recipe with TP has it; no MoE recipe
		if got != want {
			t.Errorf("%s: %+v, want %+v", c.reason, got, want)
		}
	}
	m := *testModel(t, "DeepSeek-V3")
	m.MTPNumLayers = 2
	l := testLayout(&m, layoutSpec{world: 256, pp: 8, vpp: 4, ep: 32})
	if newEstimator(t, &m, "h100", DefaultRun()).OverlapLegal(&l) {
		t.Error("overlap with two MTP layers is legal, but Megatron refuses more than one")
	}
}

func TestAsWritten(t *testing.T) {
	l := layout.Layout{Dispatcher: layout.HybridEP, EPOverlap: true}
	want := BringUp()
	want.Dispatcher, want.EPOverlap = layout.HybridEP, true
	if got := AsWritten(&l); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TP overlap leaves part of the gathers and scatters exposed, of as many bytes; without sequence parallelism it is
// silently off (comm-model 1.1).
func TestTPOverlap(t *testing.T) {
	m := testModel(t, "Llama3-70B-L12")
	e := newEstimator(t, m, "h100", DefaultRun())
	l := testLayout(m, layoutSpec{world: 8, tp: 4, gbs: 64})
	plain, sw := known(t, e, &l, BringUp()), BringUp()
	sw.TPOverlap = true
	over := known(t, e, &l, sw)
	a, b := plain.Communication[TP], over.Communication[TP]
	if a.Bytes != b.Bytes || b.Exposed <= 0 || b.Exposed > 0.35*a.Exposed {
		t.Errorf("exposed %g s without overlap, %g with; %d and %d bytes", a.Exposed, b.Exposed, a.Bytes, b.Bytes)
	}
	l.SequenceParallel = false
	if a, b := known(t, e, &l, BringUp()), known(t, e, &l, sw); a.Step != b.Step {
		t.Errorf("without sequence parallelism %g s, with overlap asked for %g", a.Step, b.Step)
	}
	l.SequenceParallel, l.Precision = true, layout.NVFP4
	if newEstimator(t, m, "gb200", DefaultRun()).Tuned(&l).TPOverlap {
		t.Error("the tuned side overlaps TP in NVFP4, which no recipe does")
	}
}

// NVFP4 makes large dense layers faster than MXFP8 does, and by less than the tensor cores' peaks differ on GB200.
func TestNVFP4(t *testing.T) {
	m := testModel(t, "Llama3-405B-L4")
	e := newEstimator(t, m, "gb200", DefaultRun())
	l := testLayout(m, layoutSpec{world: 8, tp: 2, gbs: 64})
	l.Precision = layout.MXFP8
	eight := known(t, e, &l, BringUp())
	l.Precision = layout.NVFP4
	four := known(t, e, &l, BringUp())
	if ratio := eight.Step / four.Step; ratio < 1.2 || ratio > 2 {
		t.Errorf("NVFP4 is %.2f times as fast as MXFP8, want between 1.2 and 2", ratio)
	}
}
