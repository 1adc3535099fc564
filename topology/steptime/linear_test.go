package steptime

import (
	"math"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

func catalogueModel(t testing.TB, id string, mtp int) *arch.Model {
	t.Helper()
	m, err := arch.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	other := *m
	other.MTPNumLayers = mtp
	return &other
}

// Published throughput over published tokens, GFLOP per token at sequence 8192, of models with linear layers.
func TestLinearFLOPs(t *testing.T) {
	for _, c := range []struct {
		model, reason string
		mtp           int
		published     float64
	}{
		{"nemotron-3-super", "latent experts, Mamba as wide as twice the hidden size, the recipe's 2 MTP layers (Megatron-Bridge 26.04: 475/5606)", 2, 84.73},
		{"nemotron-3-ultra", "the same, 2 MTP layers (26.08: 1281/3552)", 2, 360.64},
	} {
		got := ModelFLOPs(catalogueModel(t, c.model, c.mtp), 8192) / 1e9
		if math.Abs(got/c.published-1) > 0.005 {
			t.Errorf("%s (%s): %.2f GFLOP per token, published %.2f", c.model, c.reason, got, c.published)
		}
	}
	// Nano's published figures count a Mamba mixer of twice the hidden size, 5376; its 64 heads of 64 make 4096.
	nano := catalogueModel(t, "nemotron-3-nano", 0)
	if got := ModelFLOPs(nano, 8192) / 1e9; math.Abs(got-20.77) > 0.01 {
		t.Errorf("nemotron-3-nano: %.2f GFLOP per token, counted by hand 20.77", got)
	}
	wide, mamba := *nano, *nano.Mamba
	mamba.NumHeads = 84
	wide.Mamba = &mamba
	if got := ModelFLOPs(&wide, 8192) / 1e9; math.Abs(got/22.28-1) > 0.005 {
		t.Errorf("with 84 heads %.2f GFLOP per token, published 22.28", got)
	}
}

// Steps that were published for models with linear layers: none was fitted but by the scan's one constant.
func TestLinearMeasured(t *testing.T) {
	for _, c := range []struct {
		model, gpu string
		spec       layoutSpec
		precision  layout.Precision
		graph      Graph
		tokens     float64 // per second and GPU
		source     string
	}{
		{"nemotron-3-nano", "gb300", layoutSpec{world: 8, ep: 8, mbs: 4, gbs: 512, seq: 8192}, layout.MXFP8, AttnGraph, 37888, "26.04.01"},
		{"nemotron-3-nano", "b200", layoutSpec{world: 8, ep: 8, mbs: 2, gbs: 512, seq: 8192}, layout.MXFP8, AttnGraph, 32768, "26.04.01"},
		{"nemotron-3-super", "gb300", layoutSpec{world: 64, ep: 64, mbs: 1, gbs: 512, seq: 8192}, layout.BF16, AttnGraph, 9856, "26.08"},
	} {
		m := catalogueModel(t, c.model, map[string]int{"nemotron-3-nano": 0, "nemotron-3-super": 2}[c.model])
		l := testLayout(m, c.spec)
		l.Precision = c.precision
		sw := BringUp()
		sw.Dispatcher, sw.Graph = layout.HybridEP, c.graph
		p := known(t, newEstimator(t, m, c.gpu, DefaultRun()), &l, sw)
		if !p.Notes.Has(NoteLinear) {
			t.Errorf("%s: notes %v do not say that linear layers were not measured", c.model, p.Notes.Texts())
		}
		if r := p.Tokens / c.tokens; r < 0.8 || r > 1.4 {
			t.Errorf("%s on %s (%s): %.0f tokens/s, published %.0f", c.model, c.gpu, c.source, p.Tokens, c.tokens)
		}
	}
}

// A layer whose mixer is linear costs no ring of keys and values, but trades shards under CP; all its parts add up over a
// pipeline, whatever the split.
func TestLinearLayers(t *testing.T) {
	m := catalogueModel(t, "nemotron-3-nano", 0)
	e := newEstimator(t, m, "h100", DefaultRun())
	sum := 0
	for _, kind := range e.kinds {
		sum += int(e.count(kind, 0, m.NumLayers))
	}
	if sum != 52 || int(e.count(linearOnly, 0, 52)) != 23 || int(e.count(moeAlone, 0, 52)) != 23 || int(e.count(attnAlone, 0, 52)) != 6 {
		t.Errorf("52 letters count as %d layers", sum)
	}
	one := testLayout(m, layoutSpec{world: 16, ep: 8, gbs: 64})
	cp := testLayout(m, layoutSpec{world: 16, cp: 2, ep: 8, gbs: 64})
	a, b := known(t, e, &one, BringUp()), known(t, e, &cp, BringUp())
	if a.Communication[CP].Bytes != 0 || b.Communication[CP].Bytes == 0 {
		t.Errorf("CP moves %d and %d bytes", a.Communication[CP].Bytes, b.Communication[CP].Bytes)
	}
	if e.OverlapLegal(&one) {
		t.Error("EP overlap is legal for a hybrid, whose schedule has none")
	}
	next := newEstimator(t, catalogueModel(t, "qwen3-next-80b-a3b", 0), "h100", DefaultRun())
	if int(next.count(linearMoE, 0, 48)) != 36 || int(next.count(moeKind, 0, 48)) != 12 {
		t.Errorf("Qwen3-Next: %v", next.kinds)
	}
}

// Of context parallelism a linear mixer's forward pass has one exchange of two, with full recompute one of three; attention
// one round of three or four.
func TestForwardShareOfCP(t *testing.T) {
	e := newEstimator(t, catalogueModel(t, "qwen3-next-80b-a3b", 0), "h100", DefaultRun())
	l := testLayout(e.model, layoutSpec{world: 16, cp: 2, ep: 8, gbs: 64})
	place, ok := e.place(&l)
	if !ok {
		t.Fatal("no place")
	}
	k := e.task(&l, BringUp(), place)
	for _, c := range []struct {
		kind int
		full bool
		want float64
	}{
		{linearMLP, false, 1.0 / 2}, {linearMLP, true, 1.0 / 3}, {denseKind, false, 1.0 / 3}, {denseKind, true, 1.0 / 4},
	} {
		var lt layerTime
		e.layer(&k, &lt, &contents[c.kind], c.full)
		if _, exposed := lt.forward(&k, c.full); lt.exposed[CP] == 0 || math.Abs(exposed/lt.exposed[CP]-c.want) > 1e-12 {
			t.Errorf("kind %d, full %v: forward has %g of %g s, want %g of it", c.kind, c.full, exposed, lt.exposed[CP], c.want)
		}
	}
}
