package steptime

import (
	"errors"
	"math"
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology"
)

// layoutSpec names what a test layout has besides 1, BF16, sequence 4096 and an even split.
type layoutSpec struct {
	world, tp, cp, pp, vpp, ep, etp, mbs, gbs, seq int
}

func testLayout(m *arch.Model, s layoutSpec) layout.Layout {
	one := func(n, fallback int) int {
		if n == 0 {
			return fallback
		}
		return n
	}
	l := layout.Layout{
		Degrees: folding.Degrees{World: one(s.world, 1), TP: one(s.tp, 1), CP: one(s.cp, 1), PP: one(s.pp, 1),
			EP: one(s.ep, 1), ETP: one(s.etp, 1)},
		VPP: one(s.vpp, 1), MicroBatchSize: one(s.mbs, 1), GlobalBatchSize: one(s.gbs, 1), SeqLength: one(s.seq, 4096),
		SequenceParallel: s.tp > 1,
	}
	l.Split = evenLayers(m, l.PP, l.VPP)
	return l
}

func newEstimator(t testing.TB, m *arch.Model, gpu string, run Run) *Estimator {
	t.Helper()
	e, err := New(m, platform(t, gpu, 0), run)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func known(t testing.TB, e *Estimator, l *layout.Layout, sw Software) Price {
	t.Helper()
	p := e.Price(l, sw)
	if !p.Known || !(p.Step > 0) || math.IsInf(p.Step, 0) {
		t.Fatalf("%v: price %+v, notes %v", l.Degrees, p, p.Notes.Texts())
	}
	return p
}

// DSV3 on 256 H100 with the layout of NVIDIA's card: what must hold of one full price.
func TestPriceOfKnownLayout(t *testing.T) {
	m := testModel(t, "DeepSeek-V3")
	e := newEstimator(t, m, "h100", DefaultRun())
	l := testLayout(m, layoutSpec{world: 256, tp: 2, pp: 8, vpp: 4, ep: 32, gbs: 2048})
	p := known(t, e, &l, e.Tuned(&l))
	if p.Notes != 0 {
		t.Errorf("notes %v, want none: the layout lies inside the measured domain", p.Notes.Texts())
	}
	if p.Microbatches != 128 {
		t.Errorf("%d micro-batches, want 2048/(1*16) = 128", p.Microbatches)
	}
	if want := 7.0 / 4 / 128; p.BubbleFraction != want {
		t.Errorf("bubble fraction %g, want %g", p.BubbleFraction, want)
	}
	if c := p.Communication[TP]; c.Bytes == 0 || c.Crossing != 0 {
		t.Errorf("TP 2: %+v, want bytes and none of them out of the domain", c)
	}
	if c := p.Communication[EP]; c.Crossing == 0 || c.Crossing >= c.Bytes {
		t.Errorf("EP 32 over 4 domains: %+v, want some of its bytes out of the domain", c)
	}
	if c := p.Communication[EDP]; c.Bytes != 0 || c.Exposed != 0 {
		t.Errorf("EDP 1: %+v, want nothing", c)
	}
	if p.HotInNVLink() <= 0.5 || p.HotInNVLink() >= 1 {
		t.Errorf("hot bytes in NVLink %g, want most but not all", p.HotInNVLink())
	}
	tokens := 2048 * 4096 / p.Step / 256
	if math.Abs(p.Tokens/tokens-1) > 1e-12 || math.Abs(p.TFLOPS/(tokens*ModelFLOPs(m, 4096)/1e12)-1) > 1e-9 {
		t.Errorf("%g tokens/s, %g TFLOPS do not follow from a step of %g s", p.Tokens, p.TFLOPS, p.Step)
	}
	if lo, hi := p.Band(); math.Abs(lo/p.Step-0.85) > 1e-12 || math.Abs(hi/p.Step-1.15) > 1e-12 {
		t.Errorf("band %g to %g of %g, want 15 %%", lo, hi, p.Step)
	}
}

// The order tp-cp-ep-pp-dp moves pipeline hops inside: on NVL72 the 16 stages of 4 ranks each share one domain of
// 64, and DP leaves it instead (comm-model 2.5).
func TestRankOrder(t *testing.T) {
	m := testModel(t, "Qwen3-235B-A22B")
	e := newEstimator(t, m, "gb200", DefaultRun())
	l := testLayout(m, layoutSpec{world: 256, pp: 16, ep: 4, gbs: 256})
	outer := known(t, e, &l, BringUp())
	l.Order = folding.TPPPDPOrder
	l.EP, l.TP = 4, 4 // both meshes must give the same pipelines
	inner := known(t, e, &l, BringUp())
	if outer.Communication[PP].Crossing == 0 || inner.Communication[PP].Crossing != 0 {
		t.Errorf("%d bytes of PP leave the domain in the default order, %d with PP inside DP; want some and none",
			outer.Communication[PP].Crossing, inner.Communication[PP].Crossing)
	}
	if c := inner.Communication[DP]; c.Crossing == 0 {
		t.Errorf("DP outside PP: %+v, want bytes out of the domain", c)
	}
}

func TestUnknownPrices(t *testing.T) {
	m := testModel(t, "Qwen3-30B-A3B")
	for _, c := range []struct {
		reason string
		gpu    string
		change func(*layout.Layout)
		notes  Notes
		known  bool
	}{
		{"H20's NIC rate is unknown and 16 GPUs need it", "h20", func(l *layout.Layout) {}, NoteGPU | NoteDispatcher | NoteNoNIC, false},
		{"8 GPUs do not", "h20", func(l *layout.Layout) { l.World = 8 }, NoteGPU | NoteDispatcher, true},
		{"no FP8 on Ampere", "a100-80", func(l *layout.Layout) { l.Precision = layout.FP8Tensorwise }, NoteGPU | NoteDispatcher | NoteNoFormat, false},
		{"BF16 on Ampere, with borrowed constants", "a100-80", func(l *layout.Layout) {}, NoteGPU | NoteDispatcher, true},
		{"no NVFP4 on Hopper", "h100", func(l *layout.Layout) { l.Precision = layout.NVFP4 }, NoteFP4 | NoteDispatcher | NoteNoFormat, false},
		{"NVFP4 is timed as FP8", "gb200", func(l *layout.Layout) { l.Precision = layout.NVFP4 }, NoteFP4 | NoteDispatcher, true},
		{"no NVLink", "l40s", func(l *layout.Layout) {}, NoteGPU | NoteNoNVLink, true},
		{"ETP has no measured point", "h100", func(l *layout.Layout) { l.ETP, l.EP = 2, 8 }, NoteETP, true},
		{"TP over two boxes", "h100", func(l *layout.Layout) { l.TP, l.EP = 16, 8 }, NoteTPAcross | NoteDispatcher, true},
		{"8 ranks of a domain: no dispatcher is known to be faster", "h100", func(l *layout.Layout) {}, NoteDispatcher, true},
		{"16 ranks over two boxes: flex is", "h100", func(l *layout.Layout) { l.EP = 16 }, 0, true},
		{"one rank dispatches nothing", "h100", func(l *layout.Layout) { l.EP = 1 }, 0, true},
		{"half a micro-batch", "h100", func(l *layout.Layout) { l.GlobalBatchSize = 8 }, NoteLayout, false},
		{"degrees that need more ranks", "h100", func(l *layout.Layout) { l.EP = 32 }, NoteLayout, false},
		{"a zero degree", "h100", func(l *layout.Layout) { l.TP = 0 }, NoteLayout, false},
		{"no split", "h100", func(l *layout.Layout) { l.Split = nil }, NoteLayout, false},
		{"split of another pipeline", "h100", func(l *layout.Layout) { l.PP = 2 }, NoteLayout, false},
		{"layers that the model does not have", "h100", func(l *layout.Layout) {
			l.Split = &layout.Split{PP: 1, VPP: 1, Cells: []layout.Cell{{Decoders: 49}}}
		}, NoteLayout, false},
		{"an order without closed form", "h100", func(l *layout.Layout) { l.Order = "tp-dp-cp-ep-pp" }, NoteDispatcher | NoteOrder, false},
	} {
		l := testLayout(m, layoutSpec{world: 16, ep: 8, gbs: 64})
		c.change(&l)
		p := newEstimator(t, m, c.gpu, DefaultRun()).Price(&l, BringUp())
		if p.Known != c.known || p.Notes != c.notes {
			t.Errorf("%s: known %t with notes %q, want %t with %q", c.reason, p.Known, p.Notes.Texts(), c.known, c.notes.Texts())
		}
		if !p.Known && (p.Step != 0 || p.Tokens != 0) {
			t.Errorf("%s: an unknown price has numbers: %+v", c.reason, p)
		}
	}
	if n := len((NoteOrder<<1 - 1).Texts()); n != len(noteTexts) {
		t.Errorf("%d notes, %d texts", n, len(noteTexts))
	}
}

func TestNewErrors(t *testing.T) {
	get := func(id string) *arch.Model {
		m, err := arch.Lookup(id)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, c := range []struct {
		reason string
		change func(*arch.Model)
	}{
		{"two kinds of linear mixers", func(m *arch.Model) { m.HybridLayerPattern = "MG*E" }},
		{"Mamba layers without sizes", func(m *arch.Model) { m.Mamba = nil }},
	} {
		m := *get("nemotron-3-nano")
		c.change(&m)
		var unsupported *UnsupportedError
		if _, err := New(&m, platform(t, "h100", 0), DefaultRun()); !errors.As(err, &unsupported) {
			t.Errorf("%s: error %v, want an UnsupportedError", c.reason, err)
		}
		if got := ModelFLOPs(&m, 4096); got != 0 {
			t.Errorf("%s: %g FLOPs, want 0 for unknown", c.reason, got)
		}
	}
	var unknown *topology.UnknownFigureError
	_, err := New(get("qwen3-8b"), platform(t, "mi355x", 0), DefaultRun())
	if !errors.As(err, &unknown) || unknown.Figure != topology.FigureBF16 {
		t.Errorf("mi355x: error %v, want its unknown BF16 peak", err)
	}
	for _, change := range []func(*Run){
		func(r *Run) { r.Imbalance = 0.5 }, func(r *Run) { r.Imbalance = math.NaN() },
		func(r *Run) { r.GradBytes = 0 }, func(r *Run) { r.ParamBytes = -1 }, func(r *Run) { r.OptimizerBytes = 0 },
	} {
		run := DefaultRun()
		change(&run)
		if _, err := New(get("qwen3-8b"), platform(t, "h100", 0), run); err == nil {
			t.Errorf("run %+v accepted", run)
		}
	}
	e := newEstimator(t, get("qwen3-8b"), "h20", DefaultRun())
	if err := e.Need(8); err != nil {
		t.Errorf("8 GPUs of one domain need %v", err)
	}
	if err := e.Need(16); !errors.As(err, &unknown) || unknown.Figure != topology.FigureNIC {
		t.Errorf("two domains: error %v, want the NIC rate", err)
	}
}

// All models of the catalogue that are not refused have a price on every platform that has one.
func TestCatalogue(t *testing.T) {
	for _, m := range arch.All() {
		e, err := New(m, platform(t, "h100", 0), DefaultRun())
		if unsupported := (*UnsupportedError)(nil); errors.As(err, &unsupported) {
			continue
		} else if err != nil {
			t.Errorf("%s: %v", m.ID, err)
			continue
		}
		l := testLayout(m, layoutSpec{world: 8, gbs: 16})
		known(t, e, &l, BringUp())
	}
}
