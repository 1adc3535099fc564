package memmodel

import (
	"math"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// TestNewRefusesRuns: what would make arithmetic overflow, count backwards or never end is refused by name.
func TestNewRefusesRuns(t *testing.T) {
	m, err := arch.Lookup("qwen3-30b-a3b")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reason, names string
		set           func(*Run)
	}{
		{"less than perfect balance", "imbalance 0.5", func(r *Run) { r.Imbalance = 0.5 }},
		{"no number: a comparison with it is never true", "imbalance NaN", func(r *Run) { r.Imbalance = math.NaN() }},
		{"more rows than an int64 counts", "imbalance 1e+300", func(r *Run) { r.Imbalance = 1e300 }},
		{"more of the parameters than there are", "trainable fraction 2", func(r *Run) { r.TrainableFraction = 2 }},
		{"no number", "trainable fraction NaN", func(r *Run) { r.TrainableFraction = math.NaN() }},
		{"as --moe-expert-capacity-factor inf", "capacity factor +Inf", func(r *Run) { r.CapacityFactor = math.Inf(1) }},
		{"as --moe-expert-capacity-factor nan", "capacity factor NaN", func(r *Run) { r.CapacityFactor = math.NaN() }},
		{"none is 0", "capacity factor -1", func(r *Run) { r.CapacityFactor = -1 }},
		{"more state than there is cannot leave", "optimizer offload fraction 5", func(r *Run) { r.Offload.OptimizerFraction = 5 }},
		{"no number", "optimizer offload fraction NaN", func(r *Run) { r.Offload.OptimizerFraction = math.NaN() }},
		{"a slice up to it panicked", "-1 layers on the host", func(r *Run) { r.Offload.Layers = -1 }},
		{"the table of forwards would never end", "groups of -1 micro-batches", func(r *Run) { r.GroupSize = -1 }},
		{"its products overflow", "groups of 4611686018427387904 micro-batches", func(r *Run) { r.GroupSize = 1 << 62 }},
	} {
		run := DefaultRun(90)
		c.set(&run)
		if _, err := New(m, run); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v does not name %q", c.reason, err, c.names)
		}
	}
}

// TestOddSizes: sizes at which upstream has nothing to do are priced as nothing.
func TestOddSizes(t *testing.T) {
	m, err := arch.Lookup("qwen3-30b-a3b")
	if err != nil {
		t.Fatal(err)
	}
	priced := func(m *arch.Model, change func(*layout.Layout)) Stage {
		l := layout.Layout{Degrees: folding.Degrees{World: 8, TP: 1, CP: 1, PP: 1, EP: 8, ETP: 1}, VPP: 1, MicroBatchSize: 1,
			GlobalBatchSize: 16, SeqLength: 4096, Dispatcher: layout.DeepEP, Split: raggedSplit(m, 1, 1)}
		change(&l)
		e, err := New(m, DefaultRun(90))
		if err != nil {
			t.Fatal(err)
		}
		stages, err := e.Estimate(&l)
		if err != nil {
			t.Fatal(err)
		}
		return stages[0]
	}
	nothing := priced(m, func(*layout.Layout) {})
	for _, n := range []int{0, -1} { // the block method compares each layer's number with it
		got := priced(m, func(l *layout.Layout) {
			l.Recompute = layout.Recompute{Granularity: layout.Full, Block: true, NumLayers: n}
		})
		if got.PeakAllocated != nothing.PeakAllocated {
			t.Errorf("block recompute of %d layers: peak %d, without recompute %d", n, got.PeakAllocated, nothing.PeakAllocated)
		}
	}

	all, more := *m, *m
	a, b := *m.MoE, *m.MoE
	a.TopK, b.TopK = a.NumExperts, a.NumExperts+1
	all.MoE, more.MoE = &a, &b
	one := func(*layout.Layout) {}
	if x, y := priced(&all, one), priced(&more, one); y.Transient < x.Transient || y.Activations < x.Activations {
		t.Errorf("one expert more a token than there are: transient %d and activations %d, with all of them %d and %d",
			y.Transient, y.Activations, x.Transient, x.Activations)
	}
}
