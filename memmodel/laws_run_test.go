package memmodel

import (
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"pgregory.net/rapid"
)

// drawRun draws software and optimizer settings, also such as nobody would combine: the arithmetic must hold for all.
func drawRun(t *rapid.T) Run {
	r := DefaultRun(rapid.SampledFrom([]int{80, 90, 100}).Draw(t, "sm"))
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	r.Attention = rapid.SampledFrom([]AttentionKernel{KernelAuto, FlashAttention2, CuDNNAttention, UnfusedAttention}).Draw(t, "kernel")
	r.CrossEntropy = rapid.SampledFrom([]CrossEntropy{NativeFusedCE, UnfusedCE, TEFusedBF16CE, TEFusedCE}).Draw(t, "cross entropy")
	r.Local, r.Deterministic, r.HiddenDropout, r.AttentionDropout = flag("local"), flag("deterministic"), flag("dropout"), flag("attention dropout")
	r.NoGradientFusion, r.NoActivationFusion, r.CausalMask, r.SequentialExperts = flag("no gradient fusion"), flag("no fusion"), flag("mask"), flag("sequential")
	r.DistributedOptimizer = flag("distributed")
	r.GradientBytes = rapid.SampledFrom([]int{2, 4}).Draw(t, "gradients")
	r.MomentBytes = rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "moments")
	r.PrecisionAware = flag("precision-aware")
	r.OptimizerInstances = rapid.SampledFrom([]int{0, 2}).Draw(t, "instances")
	r.DeferEmbeddingGradient, r.NoP2POverlap = flag("defer"), flag("no p2p overlap")
	if flag("muon") {
		r.Optimizer, r.LayerWise, r.LayerWiseLayout, r.DistributedOptimizer = Muon, flag("layer-wise"), flag("layer-wise layout"), false
	}
	r.FSDP = rapid.SampledFrom([]Sharding{NoFSDP, NoFSDP, ShardOptimizer, ShardOptimizerGradients, ShardAll}).Draw(t, "FSDP")
	r.DoubleBuffer = flag("double buffer")
	r.Offload.Modules = OffloadModules(rapid.IntRange(0, 127).Draw(t, "offload"))
	r.Offload.OptimizerFraction = rapid.SampledFrom([]float64{0, 0, 0.5, 1}).Draw(t, "optimizer offload")
	r.Imbalance = rapid.SampledFrom([]float64{1, 1.5}).Draw(t, "imbalance")
	return r
}

// The laws of stages hold whatever runs: the search's peak is the worst stage's, parts add up, ranges have an order.
func propAnyRun(t *rapid.T) {
	m := rapid.SampledFrom(plannable()).Draw(t, "model")
	l := drawLayout(t, m)
	l.Precision = rapid.SampledFrom([]layout.Precision{layout.BF16, layout.FP16, layout.FP8Tensorwise, layout.FP8Blockwise, layout.MXFP8, layout.NVFP4}).Draw(t, "precision")
	l.Dispatcher = rapid.SampledFrom([]layout.Dispatcher{layout.AllToAll, layout.AllGather, layout.DeepEP, layout.HybridEP}).Draw(t, "dispatcher")
	l.EPOverlap = m.MoE != nil && rapid.Bool().Draw(t, "overlap")
	e, err := New(m, drawRun(t))
	if err != nil {
		t.Fatal(err)
	}
	stages, err := e.Estimate(&l)
	if err != nil {
		t.Fatal(err)
	}
	var worst int64
	for _, s := range stages {
		worst = max(worst, s.PeakAllocated)
		if s.Weights+s.Gradients+s.Optimizer-s.StepCopies != s.DenseState+s.ExpertState {
			t.Fatalf("stage %d: dense and expert state do not add up", s.PipelineRank)
		}
		running := s.Weights + s.Gradients + s.Optimizer - s.StepCopies + s.Workspace + s.Activations + s.Transient
		if s.PeakAllocated != max(running, s.AllocatedAfterStep+s.StepTemporary) {
			t.Fatalf("stage %d: parts do not add up to the peak", s.PipelineRank)
		}
		if p := s.Provenance; p.Exact+p.Fitted+p.Assumed != s.PeakAllocated || p.Exact < 0 || p.Fitted < 0 || p.Assumed < 0 {
			t.Fatalf("stage %d: %+v of a peak of %d", s.PipelineRank, p, s.PeakAllocated)
		}
		for _, n := range []int64{s.Weights, s.Gradients, s.Optimizer - s.StepCopies, s.DenseState, s.ExpertState, s.Workspace, s.Activations, s.Host.Activations, s.Host.Optimizer} {
			if n < 0 {
				t.Fatalf("stage %d has negative bytes: %+v", s.PipelineRank, s)
			}
		}
		if d := s.Device; d.Low < s.PeakAllocated || d.High < d.Low || d.Reserved < s.PeakAllocated {
			t.Fatalf("stage %d: peak %d, device %+v", s.PipelineRank, s.PeakAllocated, d)
		}
	}
	if got, _ := e.Peak(&l); got != worst {
		t.Fatalf("Peak %d, worst stage %d", got, worst)
	}
	if static := e.Static(&l); static > worst {
		t.Fatalf("Static %d exceeds the peak %d", static, worst)
	}
}

func TestAnyRun(t *testing.T) { rapid.Check(t, propAnyRun) }
func FuzzAnyRun(f *testing.F) { f.Fuzz(rapid.MakeFuzz(propAnyRun)) }

// Offload only moves: what a layer keeps on the GPU and on the host together is what it kept before.
func TestOffloadMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(plannable()).Draw(t, "model")
		l := drawLayout(t, m)
		run := drawRun(t)
		total := func(modules OffloadModules) (kept, moved int64) {
			run := run
			run.Offload.Modules = modules
			s := newShape(m, &run, kindsOf(m), &l)
			a := s.activations()
			for _, k := range s.kinds.present {
				kept += a.kept(k)
				moved += a.offloaded(k)
			}
			return kept, moved
		}
		before, _ := total(0)
		kept, moved := total(run.Offload.Modules)
		if kept+moved != before {
			t.Fatalf("%d kept and %d moved, %d before", kept, moved, before)
		}
	})
}

// Fewer experts a rank never hold more, in state and in what a layer saves: from EP to 2 EP.
func TestExpertParallelismNeverRaisesExperts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(plannable()).Draw(t, "model")
		l := drawLayout(t, m)
		if m.MoE == nil || m.MoE.NumExperts%(2*l.EP) != 0 {
			t.Skip()
		}
		run := drawRun(t)
		bytes := func(l layout.Layout) (parameters, stored int64) {
			s := newShape(m, &run, kindsOf(m), &l)
			p, a := s.parts(), s.activations()
			for _, k := range s.kinds.present {
				if k.moe() {
					parameters += p.kinds[k].Expert
				}
			}
			return parameters, a.feedforwards[arch.MoEMLP].kept
		}
		wider := l
		wider.EP *= 2
		if l.EP == 1 && l.ETP == l.TP {
			return // at EP 1 experts belong to the dense set
		}
		before, _ := bytes(l)
		after, _ := bytes(wider)
		if after > before {
			t.Fatalf("EP %d holds %d expert elements, EP %d %d", l.EP, before, wider.EP, after)
		}
	})
}
