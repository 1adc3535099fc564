package steptime

import (
	"fmt"

	"github.com/moeplan/moeplan/layout/arch"
)

// shape is what the time of a model's layers depends on: sizes as floats, multiply-accumulates per token.
type shape struct {
	h, vocab, ffn float64
	heads         float64
	headDim       float64 // of the values, for the size of the attention output
	smallHead     bool    // head dimension <= 64
	mla           bool

	experts, topK, f, shared float64 // f, shared: FFN widths
	expertWidth              float64 // that routed experts work on: h, or the latent size
	mlp                      float64 // matrices of an MLP: 3 gated, 2 not

	projMAC float64 // attention projections, per token
	upMAC   float64 // of them, the MLA up-projections that mla_up_proj repeats
	coreMAC float64 // attention core, per token and token of context
	qkv     float64 // elements per token written between projections and core
	kv      float64 // elements per token of keys and values that context parallelism sends

	linear linearShape
}

// shapeOf reads a model's sizes. MAC counts are those of comm-model 4.1.
func shapeOf(m *arch.Model) shape {
	s := shape{
		h: float64(m.HiddenSize), vocab: float64(m.VocabSize), ffn: float64(m.FFNHiddenSize),
		heads: float64(m.NumAttentionHeads), mlp: 2,
	}
	if m.Activation.Gated() {
		s.mlp = 3
	}
	if a := m.MLA; a != nil {
		q, kv := float64(a.QLoraRank), float64(a.KVLoraRank)
		nope, rope, v := float64(a.QKHeadDim), float64(a.QKPosEmbHeadDim), float64(a.VHeadDim)
		s.mla, s.headDim = true, v
		s.upMAC = kv * s.heads * (nope + v)
		s.projMAC = kv*(s.h+1) + s.h*rope + s.heads*v*s.h
		if q > 0 {
			s.upMAC += q * s.heads * (nope + rope)
			s.projMAC += q * (s.h + 1)
		} else {
			s.projMAC += s.h * s.heads * (nope + rope)
		}
		s.projMAC += s.upMAC
		s.coreMAC = s.heads * (nope + rope + v)
		s.qkv = s.heads * (2*nope + rope + v)
		s.kv = s.coreMAC // expanded keys and values
	} else {
		d, groups := float64(m.KVChannels), float64(m.NumQueryGroups)
		s.headDim, s.smallHead = d, d <= 64
		s.qkv = s.heads*d + 2*groups*d
		s.projMAC = s.h*s.qkv + s.heads*d*s.h
		if m.AttentionOutputGate {
			s.projMAC += s.h * s.heads * d
		}
		s.coreMAC = 2 * s.heads * d
		s.kv = 2 * groups * d
	}
	if e := m.MoE; e != nil {
		s.experts, s.topK = float64(e.NumExperts), float64(e.TopK)
		s.f, s.shared = float64(e.FFNHiddenSize), float64(e.SharedFFNSize)
		if s.expertWidth = s.h; e.LatentSize > 0 {
			s.expertWidth = float64(e.LatentSize)
		}
	}
	s.linear = linearShapeOf(m, s.h)
	return s
}

// latent reports whether routed experts work on another width than the model's.
func (s *shape) latent() bool { return s.expertWidth != s.h }

// UnsupportedError says that a model has parts whose time this package does not model.
type UnsupportedError struct {
	Model string
	Part  string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("step time of %s: %s are not modelled", e.Model, e.Part)
}

func supported(m *arch.Model) error {
	mamba, delta := false, false
	for _, list := range [][]arch.Layer{m.Layers(), m.MTPLayers()} {
		for _, l := range list {
			mamba, delta = mamba || l.Mixer == arch.MambaMixer, delta || l.Mixer == arch.GatedDeltaNet
		}
	}
	switch {
	case mamba && delta:
		return &UnsupportedError{m.ID, "Mamba and gated delta net layers side by side"}
	case mamba && m.Mamba == nil:
		return &UnsupportedError{m.ID, "Mamba layers without sizes"}
	case delta && m.LinearAttention == nil:
		return &UnsupportedError{m.ID, "gated delta net layers without sizes"}
	}
	return nil
}
