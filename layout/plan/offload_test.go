package plan

import (
	"testing"

	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
)

// What the host does not have does not fit, whatever the card has; a host of unknown size is not held against anything.
func TestHostMemoryFits(t *testing.T) {
	p, err := topology.LookupPlatform("h100")
	if err != nil {
		t.Fatal(err)
	}
	need := memmodel.Need{Allocated: 10 * gib, Low: 11 * gib, High: 12 * gib, Host: 300e9}
	for _, c := range []struct {
		host   topology.Figure
		want   Grade
		reason string
	}{
		{topology.Figure{}, Fits, "unknown"},
		{topology.Figure{Value: 400, Known: true}, Fits, "more than enough"},
		{topology.Figure{Value: 300, Known: true}, Fits, "just enough"},
		{topology.Figure{Value: 299, Known: true}, No, "1 GB too little"},
	} {
		q := *p
		q.HostMemoryGB = c.host
		for _, headroom := range []float64{-1, 0} {
			b := newBudget(&q, q.MemoryGiB.Value, headroom, 0)
			if g := b.grade(need); g != c.want || (b.over(need) <= 0) != (c.want == Fits) {
				t.Errorf("host %s, headroom %g: %s, over %d", c.reason, headroom, g, b.over(need))
			}
		}
	}
}

// Activations and optimizer state that are moved are gone from the card and counted on the host.
func TestOffloadMoves(t *testing.T) {
	const text = "tp2 pp2 vpp3 ep8 mbs2 recompute=layernorm"
	plain := accountOf(t, "qwen3-30b-a3b", "h100", text, nil)
	for _, o := range []Offload{OffloadActivations, OffloadOptimizer, OffloadBoth} {
		a := accountOf(t, "qwen3-30b-a3b", "h100", text, func(r *Request) { r.Offload = o })
		for i := range a.Stages {
			got, want := &a.Stages[i], &plain.Stages[i]
			if o.Optimizer() != (got.Host.Optimizer > 0) || o.Activations() != (got.Host.Activations > 0) {
				t.Errorf("%s, stage %d: host %+v", o, i, got.Host)
			}
			if o.Optimizer() && got.Stage.Memory.Optimizer != 0 {
				t.Errorf("%s, stage %d: %d of optimizer state stay", o, i, got.Stage.Memory.Optimizer)
			}
			if o.Activations() && got.Stage.Memory.Activations >= want.Stage.Memory.Activations {
				t.Errorf("%s, stage %d: activations %d, without offload %d", o, i, got.Stage.Memory.Activations, want.Stage.Memory.Activations)
			}
			if got.Stage.Memory.Weights != want.Stage.Memory.Weights || got.Stage.Memory.Gradients != want.Stage.Memory.Gradients {
				t.Errorf("%s, stage %d: weights or gradients move", o, i)
			}
		}
	}
}

// The fit of an account is that of the plan: what the host does not have does not fit.
func TestAccountHostFits(t *testing.T) {
	const text = "tp2 pp2 vpp3 ep8 mbs2 recompute=layernorm"
	for _, c := range []struct {
		host   float64 // GB a GPU
		want   Grade
		reason string
	}{
		{1000, Fits, "more than is moved"},
		{0.5, No, "less than is moved"},
	} {
		a := accountOf(t, "qwen3-30b-a3b", "h100", text, func(r *Request) {
			q := *r.Platform
			q.HostMemoryGB = topology.Figure{Value: c.host, Known: true}
			r.Platform, r.Offload = &q, OffloadOptimizer
		})
		if a.Fit.Grade != c.want || (a.Fit.OverBytes <= 0) != (c.want == Fits) {
			t.Errorf("%s: %s, %d over", c.reason, a.Fit.Grade, a.Fit.OverBytes)
		}
	}
}
