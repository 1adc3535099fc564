package memmodel

import (
	"testing"

	"github.com/moeplan/moeplan/folding"
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
	if flag("ends in bf16") { // as many as reach beyond the first and the last stage
		r.BF16LayersAtStart, r.BF16LayersAtEnd = rapid.IntRange(0, 30).Draw(t, "at start"), rapid.IntRange(0, 30).Draw(t, "at end")
	}
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

// TestEmbeddingDropout: with hidden dropout the embedding keeps a mask of a byte an element, in every micro-batch in flight, on
// the first stage alone (memory-findings.md C7, memory-model.md 3.5).
func TestEmbeddingDropout(t *testing.T) {
	m, err := arch.Lookup("deepseek-v3") // an MTP layer has an embedding of its own, on the last stage
	if err != nil {
		t.Fatal(err)
	}
	l := layout.Layout{Degrees: folding.Degrees{World: 64, TP: 2, CP: 1, PP: 4, EP: 8, ETP: 1}, VPP: 1, MicroBatchSize: 1,
		GlobalBatchSize: 64, SeqLength: 4096, SequenceParallel: true, Split: raggedSplit(m, 4, 1),
		Recompute: layout.Recompute{Granularity: layout.Full, NumLayers: 1}} // so that no layer keeps a mask beside it
	activations := func(dropout bool) []int64 {
		run := DefaultRun(90)
		run.HiddenDropout = dropout
		e, err := New(m, run)
		if err != nil {
			t.Fatal(err)
		}
		stages, err := e.Estimate(&l)
		if err != nil {
			t.Fatal(err)
		}
		out := make([]int64, len(stages))
		for i := range stages {
			out[i] = stages[i].Activations
		}
		return out
	}
	without, with := activations(false), activations(true)
	const mask = 4096 / 2 * 7168 // the tokens of a sequence parallel shard, of the hidden size
	for stage, want := range []int64{4 * mask, 0, 0} {
		if got := with[stage] - without[stage]; got != want {
			t.Errorf("stage %d: %d bytes more with dropout, want %d", stage, got, want)
		}
	}
}

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

// Fewer experts a rank never hold more parameters: from EP to 2 EP.
func TestExpertParallelismNeverRaisesExperts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(plannable()).Draw(t, "model")
		l := drawLayout(t, m)
		if m.MoE == nil || m.MoE.NumExperts%(2*l.EP) != 0 {
			t.Skip()
		}
		if l.EP == 1 && l.ETP == l.TP {
			t.Skip() // experts belong to the dense set there
		}
		run := drawRun(t)
		experts := func(l layout.Layout) (n int64) {
			s := newShape(m, &run, kindsOf(m), &l)
			p := s.parts()
			for _, k := range s.kinds.present {
				n += p.kinds[k].Expert
			}
			return n
		}
		wider := l
		wider.EP *= 2
		before, after := experts(l), experts(wider)
		if after > before {
			t.Fatalf("EP %d holds %d expert elements, EP %d %d", l.EP, before, wider.EP, after)
		}
	})
}

// TestLayersInBF16: ranks with equal layers are priced once, and layers that --first-last-layers-bf16 leaves in bf16 are not
// equal to the others, because they keep no quantized copy of their weights. Here it spares the first two and the last two of
// eight stages, so that the fullest one is the first of those between.
func TestLayersInBF16(t *testing.T) {
	m, err := arch.Lookup("llama3.1-70b")
	if err != nil {
		t.Fatal(err)
	}
	run := DefaultRun(90)
	run.BF16LayersAtStart, run.BF16LayersAtEnd = 20, 20
	e, err := New(m, run)
	if err != nil {
		t.Fatal(err)
	}
	l := layout.Layout{Degrees: folding.Degrees{World: 64, TP: 1, CP: 1, PP: 8, EP: 1, ETP: 1}, VPP: 1, MicroBatchSize: 1,
		GlobalBatchSize: 64, SeqLength: 256, Precision: layout.FP8Tensorwise, Split: raggedSplit(m, 8, 1),
		Recompute: layout.Recompute{Granularity: layout.Full, NumLayers: 1}}
	stages, err := e.Estimate(&l)
	if err != nil {
		t.Fatal(err)
	}
	worst := 0
	for i := range stages {
		if stages[i].PeakAllocated > stages[worst].PeakAllocated {
			worst = i
		}
	}
	if got, rank := e.Peak(&l); worst != 2 || got != stages[worst].PeakAllocated || rank != worst {
		t.Errorf("Peak says %d on stage %d, the fullest stage is %d with %d", got, rank, worst, stages[worst].PeakAllocated)
	}
	const copies = 2 * 10 * 855_638_016 // FP8 in both directions of ten layers' linears: 8192 * (10240 + 8192 + 3*28672)
	if extra := stages[2].Weights - stages[1].Weights; extra != copies {
		t.Errorf("stage 2 holds %d bytes more weights than stage 1, want the %d of its quantized copies", extra, copies)
	}
}
