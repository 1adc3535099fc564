package memmodel

import (
	"math"
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// TestDeepSeekLayer checks one DeepSeek-V3 layer of 4096 tokens against figures of memory-model.md 3.2 and 3.4,
// which the SimuMax slices and the table of arXiv 2603.07685 confirm.
func TestDeepSeekLayer(t *testing.T) {
	m, err := arch.Lookup("deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	l := layout.Layout{
		Degrees: folding.Degrees{World: 256, TP: 1, CP: 1, PP: 4, EP: 64, ETP: 1},
		VPP:     4, MicroBatchSize: 1, GlobalBatchSize: 1024, SeqLength: 4096,
	}
	run := DefaultRun(100)
	kinds := kindsOf(m)
	moe := kindOf(arch.Layer{Mixer: arch.MLAttention, Feedforward: arch.MoEMLP})
	s := newShape(m, &run, kinds, &l)
	a := s.activations()
	recomputed := func(mod layout.Modules) float64 {
		l := l
		l.Recompute = layout.Recompute{Granularity: layout.Selective, Modules: mod}
		s := newShape(m, &run, kinds, &l)
		b := s.activations()
		return float64(a.kept(moe)-b.kept(moe)) / float64(mib)
	}
	for _, c := range []struct {
		what      string
		got, want float64
		within    float64
		reason    string
	}{
		{"whole MoE layer", float64(a.kept(moe)) / float64(mib), 1801.6, 0.002, "memory-model.md 3.4; the residue is the sort maps, absent with one expert sorted"},
		{"attention with residual", float64(a.mixers[arch.MLAttention].kept+s.w*s.ts*s.h) / float64(mib), 842.5, 0.001, "memory-model.md 3.2"},
		{"mla_up_proj drops", recomputed(layout.MLAUpProj), 528, 0.001, "q, k 192 MiB each, v 128, latent norm outputs 16: memory-model.md 4, in bf16"},
		{"moe_act drops", recomputed(layout.MoEAct), 128, 0.001, "half of fc1's 256 MiB: 4096 tokens x 8 x 2048 x 2 bytes"},
		{"layernorm drops", recomputed(layout.LayerNorm), 112, 0.001, "two norm outputs of 56 MiB"},
	} {
		if math.Abs(c.got-c.want) > c.within*c.want {
			t.Errorf("%s: %.1f MiB, want %.1f (%s)", c.what, c.got, c.want, c.reason)
		}
	}
}

// TestBytesPerParameter: the table of memory-model.md 2.2.
func TestBytesPerParameter(t *testing.T) {
	m, err := arch.Lookup("llama3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	const p = 1 << 20
	for _, c := range []struct {
		reason      string
		dp          int
		distributed bool
		gradient    int
		fp16        bool
		want        float64 // bytes per parameter
	}{
		{"bf16, fp32 gradients, no distributed optimizer: 2+4+12", 8, false, 4, false, 18},
		{"bf16, fp32 gradients, sharded over 8: 6+12/8", 8, true, 4, false, 7.5},
		{"bf16 gradients keep an fp32 copy of the shard until zero_grad: 4+16/8", 8, true, 2, false, 6},
		{"fp16: 4+16/8", 8, true, 4, true, 6},
	} {
		run := DefaultRun(90)
		run.DistributedOptimizer, run.GradientBytes = c.distributed, c.gradient
		l := layout.Layout{Degrees: folding.Degrees{World: c.dp, TP: 1, CP: 1, PP: 1, EP: 1, ETP: 1}, VPP: 1, MicroBatchSize: 1, SeqLength: 4096}
		if c.fp16 {
			l.Precision = layout.FP16
		}
		s := newShape(m, &run, kindsOf(m), &l)
		st := s.stateOf(&held{e: Elements{Dense: p}, dense: p, denseShare: p / s.denseShards})
		if got := float64(st.weights+st.gradients+st.optimizer) / p; got != c.want {
			t.Errorf("%s: %g bytes a parameter, want %g", c.reason, got, c.want)
		}
	}
}
