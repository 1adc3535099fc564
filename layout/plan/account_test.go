package plan

import (
	"context"
	"math"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology"
)

func accountOf(t *testing.T, model, gpu, text string, change func(*Request)) *Account {
	t.Helper()
	m, err := arch.Lookup(model)
	if err != nil {
		t.Fatal(err)
	}
	p, err := topology.LookupPlatform(gpu)
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Model: m, Platform: p, GPUs: 64}
	if change != nil {
		change(&r)
	}
	filled, _ := r.filled()
	l, err := layout.Parse(text, layout.Defaults{World: r.GPUs, Model: m,
		Run: layout.Run{SeqLength: filled.SeqLength, GlobalBatchSize: filled.GlobalBatchSize, Precision: r.Precision}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := AccountOf(context.Background(), r, l)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Parts add up to the peak, shares to one, each kind's tensors to what it keeps and drops, and all layers have a kind.
func TestAccountAddsUp(t *testing.T) {
	for _, c := range []struct {
		model, gpu, text string
		change           func(*Request)
		reason           string
	}{
		{"qwen3-30b-a3b", "h100", "tp2 pp2 vpp3 ep8 mbs2 recompute=moe_act", nil, "experts with interleaving"},
		{"deepseek-v3", "gb200", "tp1 pp4 vpp4 ep16 recompute=mla_up_proj", nil, "MLA, dense first layers, MTP: three kinds of layer"},
		{"llama3-70b", "h100", "tp8 pp4 recompute=full", nil, "dense, full recompute"},
		{"qwen3-30b-a3b", "h100", "tp1 pp1 ep64 mbs1", func(r *Request) { r.BF16Gradients = true }, "the step's fp32 copies are not there in a pass"},
		{"qwen3-30b-a3b", "h100", "tp1 pp1 ep64 mbs1", func(r *Request) { r.LowPrecisionMoments = true }, "precision-aware optimizer"},
		{"llama3-8b", "h100", "tp8 pp8 mbs1", func(r *Request) { r.GlobalBatchSize, r.SeqLength, r.BF16Gradients = 8, 128, true }, "hardly any activations: the optimizer's step is the peak"},
	} {
		a := accountOf(t, c.model, c.gpu, c.text, c.change)
		for i := range a.Stages {
			s := &a.Stages[i]
			var sum int64
			for j, part := range s.Parts {
				sum += part.Bytes
				if j > 0 && part.Bytes > s.Parts[j-1].Bytes || part.Bytes < 0 || part.Source == "" || part.Formula == "" {
					t.Errorf("%s: stage %d, part %+v", c.reason, i, part)
				}
			}
			if sum != s.Stage.Memory.PeakAllocated {
				t.Errorf("%s: stage %d: parts are %d, the peak %d", c.reason, i, sum, s.Stage.Memory.PeakAllocated)
			}
		}
		var all float64
		for _, x := range a.Shares {
			all += x
		}
		if math.Abs(all-1) > 1e-9 {
			t.Errorf("%s: shares %v are %g", c.reason, a.Shares, all)
		}
		layers := 0
		for _, k := range a.Kinds {
			var sum int64
			for _, tensor := range k.Tensors {
				sum += tensor.Bytes
			}
			if sum != k.Kept+k.Dropped {
				t.Errorf("%s: %s: tensors are %d, kept %d and recomputed %d", c.reason, k.Name, sum, k.Kept, k.Dropped)
			}
			for _, n := range k.Layers {
				layers += n
			}
		}
		if m, _ := arch.Lookup(c.model); layers != m.NumLayers {
			t.Errorf("%s: %d layers of %d", c.reason, layers, m.NumLayers)
		}
		for _, choice := range a.Choices {
			if choice.SavedBytes != a.Fit.PeakBytes-choice.PeakBytes {
				t.Errorf("%s: %s saves %d of %d, %d is left", c.reason, choice.Name, choice.SavedBytes, a.Fit.PeakBytes, choice.PeakBytes)
			}
		}
	}
	if a := accountOf(t, "llama3-8b", "h100", "tp8 pp8 mbs1", func(r *Request) { r.GlobalBatchSize, r.SeqLength, r.BF16Gradients = 8, 128, true }); !a.Stages[a.Worst].AtStep {
		t.Error("the peak is not at the optimizer's step: the last row above tests nothing")
	}
}

// What a choice says it saves is what the layout that makes it has: the price of one equals the account of the other.
func TestChoiceEqualsItsLayout(t *testing.T) {
	before := accountOf(t, "qwen3-30b-a3b", "h100", "tp2 pp2 vpp3 ep8 mbs2 recompute=moe_act", nil)
	after := accountOf(t, "qwen3-30b-a3b", "h100", "tp2 pp2 vpp3 ep8 mbs2 recompute=moe_act,layernorm", nil)
	narrow := accountOf(t, "qwen3-30b-a3b", "h100", "tp2 pp2 vpp3 ep8 mbs2 recompute=moe_act", func(r *Request) { r.LowPrecisionMoments = true })
	found := 0
	for _, c := range before.Choices {
		switch c.Name {
		case "recompute layernorm":
			found++
			if c.PeakBytes != after.Fit.PeakBytes || c.TimeMS == nil || *c.TimeMS <= 0 || len(c.Flags) == 0 {
				t.Errorf("%+v, the layout's peak is %d", c, after.Fit.PeakBytes)
			}
		case "Adam's moments in bf16":
			found++
			if c.PeakBytes != narrow.Fit.PeakBytes {
				t.Errorf("%+v, the run's peak is %d", c, narrow.Fit.PeakBytes)
			}
		case "offload of every module":
			found++
			if c.HostBytes == 0 || c.SavedBytes <= 0 || c.Note == "" {
				t.Errorf("%+v: nothing on the host", c)
			}
		}
	}
	if found != 3 {
		t.Errorf("found %d of 3 choices: %+v", found, before.Choices)
	}
}

// A frozen parameter keeps its weight and nothing else: gradients and optimizer shrink to the trained share, weights and
// activations stay.
func TestTrainableFraction(t *testing.T) {
	const text = "tp2 pp2 vpp3 ep8 mbs2 recompute=moe_act"
	for _, bf16 := range []bool{false, true} {
		all := accountOf(t, "qwen3-30b-a3b", "h100", text, func(r *Request) { r.BF16Gradients = bf16 })
		some := accountOf(t, "qwen3-30b-a3b", "h100", text, func(r *Request) { r.BF16Gradients, r.TrainableFraction = bf16, 0.25 })
		for i := range all.Stages {
			a, b := all.Stages[i].Stage.Memory, some.Stages[i].Stage.Memory
			if b.Weights != a.Weights || b.Activations != a.Activations || b.Transient != a.Transient || b.Workspace != a.Workspace {
				t.Errorf("stage %d: what every parameter needs differs: %+v %+v", i, a, b)
			}
			for _, x := range [][2]int64{{a.Gradients, b.Gradients}, {a.Optimizer, b.Optimizer}} {
				if off := x[0]/4 - x[1]; off < -2 || off > 2 {
					t.Errorf("stage %d: %d of %d is not a quarter", i, x[1], x[0])
				}
			}
			if b.DenseState+b.ExpertState != b.Weights+b.Gradients+b.Optimizer {
				t.Errorf("stage %d: state does not add up: %+v", i, b)
			}
		}
	}
}
