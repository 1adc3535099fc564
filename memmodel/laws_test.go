package memmodel

import (
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"pgregory.net/rapid"
)

// plannable are the catalogue's models that this package prices.
func plannable() []*arch.Model {
	var out []*arch.Model
	for _, m := range arch.All() {
		if Supported(m) == nil {
			out = append(out, m)
		}
	}
	return out
}

// raggedSplit spreads a model's layers over pp*vpp cells as evenly as integers allow, MTP and loss last.
func raggedSplit(m *arch.Model, pp, vpp int) *layout.Split {
	n := pp * vpp
	s := &layout.Split{PP: pp, VPP: vpp, Cells: make([]layout.Cell, n)}
	first := 0
	for i := range s.Cells {
		count := m.NumLayers/n + b2i(i < m.NumLayers%n)
		s.Cells[i] = layout.Cell{Embedding: i == 0, First: first, Decoders: count, Loss: i == n-1}
		first += count
	}
	s.Cells[n-1].MTP = m.MTPNumLayers
	return s
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// drawLayout draws a layout with sizes that divide; legality beyond that does not matter to arithmetic.
func drawLayout(t *rapid.T, m *arch.Model) layout.Layout {
	l := layout.Layout{
		Degrees: folding.Degrees{
			TP:  rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "tp"),
			CP:  rapid.SampledFrom([]int{1, 2}).Draw(t, "cp"),
			PP:  rapid.SampledFrom([]int{1, 2, 3, 4, 8}).Draw(t, "pp"),
			EP:  1,
			ETP: 1,
		},
		VPP:            1,
		MicroBatchSize: rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "mbs"),
		SeqLength:      4096,
	}
	if m.MoE != nil {
		for l.EP = rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "ep"); m.MoE.NumExperts%l.EP != 0; {
			l.EP /= 2
		}
	} else {
		l.ETP = l.TP
	}
	if l.PP > 1 {
		l.VPP = rapid.SampledFrom([]int{1, 2, 3}).Draw(t, "vpp")
	}
	l.SequenceParallel = l.TP > 1
	l.World = l.PP * 32
	l.GlobalBatchSize = l.DP() * l.MicroBatchSize * l.PP * rapid.IntRange(1, 8).Draw(t, "groups")
	l.Split = raggedSplit(m, l.PP, l.VPP)
	l.Recompute = rapid.SampledFrom(recomputes(m)).Draw(t, "recompute")
	return l
}

func recomputes(m *arch.Model) []layout.Recompute {
	out := []layout.Recompute{
		{},
		{Granularity: layout.Full, NumLayers: 1},
		{Granularity: layout.Full, NumLayers: 2, Block: true},
		{Granularity: layout.Selective, Modules: layout.LayerNorm | layout.MLP},
	}
	if m.MoE != nil {
		out = append(out,
			layout.Recompute{Granularity: layout.Selective, Modules: layout.MoEAct},
			layout.Recompute{Granularity: layout.Selective, Modules: layout.MoE | layout.LayerNorm})
	}
	if m.MLA != nil {
		out = append(out, layout.Recompute{Granularity: layout.Selective, Modules: layout.MLAUpProj})
	}
	return out
}

func newEstimator(t interface{ Fatal(...any) }, m *arch.Model) *Estimator {
	e, err := New(m, DefaultRun(90))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// One replica without tensor parallelism holds each parameter once: its stages add up to the model's total,
// which arch computes in another way, with the padding of the vocabulary on both embeddings.
func TestReplicaHoldsTheModel(t *testing.T) {
	for _, m := range plannable() {
		base := *m
		base.MTPNumLayers = 0
		total, _ := base.Parameters()
		for _, pp := range []int{1, 2, 5} {
			for _, ep := range []int{1, 2, 4, 8} {
				if m.MoE == nil && ep > 1 {
					continue
				}
				l := layout.Layout{
					Degrees: folding.Degrees{World: pp * ep, TP: 1, CP: 1, PP: pp, EP: ep, ETP: 1},
					VPP:     1, MicroBatchSize: 1, GlobalBatchSize: 64, SeqLength: 4096, Split: raggedSplit(&base, pp, 1),
				}
				stages, err := newEstimator(t, &base).Estimate(&l)
				if err != nil {
					t.Fatal(err)
				}
				var got int64
				for _, s := range stages {
					got += s.Parameters.Dense + s.Parameters.Expert*int64(ep)
				}
				copies := int64(2) // embedding and output layer
				if m.TiedEmbeddings && pp == 1 {
					copies = 1
				}
				padding := copies * int64(base.PaddedVocab(1)-base.VocabSize) * int64(base.HiddenSize)
				if m.TiedEmbeddings && pp > 1 {
					padding += int64(base.VocabSize) * int64(base.HiddenSize)
				}
				if want := total + padding; got != want {
					t.Errorf("%s pp%d ep%d: stages hold %d parameters, the model has %d (%+d)", m.ID, pp, ep, got, want, got-want)
				}
			}
		}
	}
}

// Peak, which a search calls, prices one rank per class of stage; it must find what the full account finds.
func propPeakIsWorstStage(t *rapid.T) {
	m := rapid.SampledFrom(plannable()).Draw(t, "model")
	l := drawLayout(t, m)
	e := newEstimator(t, m)
	stages, err := e.Estimate(&l)
	if err != nil {
		t.Fatal(err)
	}
	var worst int64
	for _, s := range stages {
		worst = max(worst, s.PeakAllocated)
		if sum := s.Weights + s.Gradients + s.Optimizer - s.StepCopies; sum != s.DenseState+s.ExpertState {
			t.Fatalf("stage %d: state %d is not dense %d + expert %d", s.PipelineRank, sum, s.DenseState, s.ExpertState)
		}
		if sum := s.Weights + s.Gradients + s.Optimizer - s.StepCopies + s.Workspace + s.Activations + s.Transient; s.PeakAllocated != max(sum, s.AllocatedAfterStep+s.StepTemporary) {
			t.Fatalf("stage %d: parts add up to %d, peak is %d", s.PipelineRank, sum, s.PeakAllocated)
		}
	}
	if got, _ := e.Peak(&l); got != worst {
		t.Fatalf("Peak %d, worst stage %d", got, worst)
	}
	if static := e.Static(&l); static > worst {
		t.Fatalf("Static %d exceeds the peak %d", static, worst)
	}
}

func TestPeakIsWorstStage(t *testing.T)     { rapid.Check(t, propPeakIsWorstStage) }
func FuzzPeakIsWorstStage(f *testing.F)     { f.Fuzz(rapid.MakeFuzz(propPeakIsWorstStage)) }
func TestRecomputeNeverStores(t *testing.T) { rapid.Check(t, propRecomputeNeverStores) }

// Dropping tensors for recompute never raises what one micro-batch leaves stored, and full recompute stores least.
func propRecomputeNeverStores(t *rapid.T) {
	m := rapid.SampledFrom(plannable()).Draw(t, "model")
	l := drawLayout(t, m)
	stored := func(r layout.Recompute) int64 {
		l := l
		l.Recompute = r
		run := DefaultRun(90)
		kinds := kindsOf(m)
		s := newShape(m, &run, kinds, &l)
		a := s.activations()
		var total int64
		c := classify(m, &run, kinds, l.Split)
		for i := range c.classes {
			for j := range c.classes[i].chunks {
				var b chunkBytes
				s.chunk(&b, &c.classes[i].chunks[j], &a)
				total += b.saved
			}
		}
		return total
	}
	none := stored(layout.Recompute{})
	some := stored(l.Recompute)
	full := stored(layout.Recompute{Granularity: layout.Full, NumLayers: 1})
	if some > none || full > some {
		t.Fatalf("stored: none %d, %+v %d, full %d", none, l.Recompute, some, full)
	}
}

// Sharding over more ranks never raises a stage's state: more data parallelism, more experts parallelism.
func TestShardingNeverRaisesState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(plannable()).Draw(t, "model")
		l := drawLayout(t, m)
		wider := l
		wider.World *= 2
		if m.MoE != nil && rapid.Bool().Draw(t, "raise EP") && m.MoE.NumExperts%(2*l.EP) == 0 {
			wider.EP *= 2
		}
		e := newEstimator(t, m)
		a, err := e.Estimate(&l)
		if err != nil {
			t.Fatal(err)
		}
		b, err := e.Estimate(&wider)
		if err != nil {
			t.Fatal(err)
		}
		for r := range a {
			before, after := a[r].Weights+a[r].Gradients+a[r].Optimizer, b[r].Weights+b[r].Gradients+b[r].Optimizer
			// The end of each buffer is padded to a multiple of the ranks that share it, once per chunk and set.
			run := DefaultRun(90)
			s := newShape(m, &run, kindsOf(m), &wider)
			padding := 6 * int64(l.VPP) * (s.bucketUnit(s.denseShards) + s.bucketUnit(s.expertShards))
			if after > before+padding {
				t.Fatalf("stage %d: %d bytes on %d ranks, %d on %d", r, before, l.World, after, wider.World)
			}
		}
	})
}

func TestPeakAllocatesNothing(t *testing.T) {
	m, err := arch.Lookup("deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	e := newEstimator(t, m)
	l := benchLayout(m)
	e.Peak(&l) // learns the split and the schedule
	if n := testing.AllocsPerRun(100, func() { e.Peak(&l) }); n != 0 {
		t.Errorf("Peak allocates %.1f times a layout, want 0", n)
	}
}

func benchLayout(m *arch.Model) layout.Layout {
	return layout.Layout{
		Degrees: folding.Degrees{World: 1024, TP: 2, CP: 1, PP: 8, EP: 64, ETP: 1},
		VPP:     4, MicroBatchSize: 1, GlobalBatchSize: 8192, SeqLength: 4096, SequenceParallel: true,
		Split: raggedSplit(m, 8, 4),
	}
}

func BenchmarkPeak(b *testing.B) {
	m, err := arch.Lookup("deepseek-v3")
	if err != nil {
		b.Fatal(err)
	}
	e, err := New(m, DefaultRun(90))
	if err != nil {
		b.Fatal(err)
	}
	l := benchLayout(m)
	b.ReportAllocs()
	for b.Loop() {
		e.Peak(&l)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "layouts/s")
}

// Whatever was priced before, Peak and Need say what an estimator that has seen nothing says, and what Estimate says.
func TestNeedRemembersNothingWrong(t *testing.T) {
	m, err := arch.Lookup("deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	used := mustEstimator(t, m)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"tp1 pp4 vpp4 ep64", "tp2 pp4 vpp4 ep64", "tp2 pp8 vpp3 ep32 mbs2", "tp2 pp4 vpp1 ep32"}).Draw(t, "mesh") + " recompute=" +
			rapid.SampledFrom([]string{"none", "full", "moe_act", "mla_up_proj", "moe,layernorm", "mlp"}).Draw(t, "recompute")
		l, err := layout.Parse(text, layout.Defaults{World: 256, Model: m, Run: layout.Run{SeqLength: rapid.SampledFrom([]int{4096, 8192}).Draw(t, "seq"), GlobalBatchSize: 2048}})
		if err != nil {
			t.Fatal(err)
		}
		got := used.Need(&l)
		fresh, err := New(m, DefaultRun(90))
		if err != nil {
			t.Fatal(err)
		}
		if want := fresh.Need(&l); got != want {
			t.Fatalf("%s: %+v, a fresh estimator says %+v", text, got, want)
		}
		if peak, _ := used.Peak(&l); peak != got.Allocated {
			t.Fatalf("%s: Peak %d, Need %d", text, peak, got.Allocated)
		}
		stages, err := fresh.Estimate(&l)
		if err != nil {
			t.Fatal(err)
		}
		var want Need
		for i := range stages {
			want = want.Max(stages[i].Need())
		}
		if want != got {
			t.Fatalf("%s: Need %+v, the stages say %+v", text, got, want)
		}
	})
}

func mustEstimator(t *testing.T, m *arch.Model) *Estimator {
	e, err := New(m, DefaultRun(90))
	if err != nil {
		t.Fatal(err)
	}
	return e
}
