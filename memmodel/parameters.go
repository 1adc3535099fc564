package memmodel

import "github.com/moeplan/moeplan/layout/arch"

// Elements counts the parameters of one rank, split as the optimizer splits them.
type Elements struct {
	// Dense parameters are sharded by the distributed optimizer over DP*CP, Expert ones over EDP.
	// A routed expert is in the expert set only if EP > 1 or ETP != TP
	// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/tensor_parallel/layers.py:1033-1037).
	Dense  int64 `json:"dense"`
	Expert int64 `json:"expert"`
	// linear counts the weights of TE linears in both sets: what FP8 quantizes.
	linear int64
}

// Total is Dense + Expert.
func (e Elements) Total() int64 { return e.Dense + e.Expert }

func (e Elements) plus(o Elements, times int64) Elements {
	return Elements{e.Dense + o.Dense*times, e.Expert + o.Expert*times, e.linear + o.linear*times}
}

// kindElements are the parameters of each kind of layer and of the parts around them, on one rank.
type kindElements struct {
	dense, moe, mtp        Elements // one decoder layer of each kind, one MTP depth
	embedding, head, norm1 Elements // word embedding, output layer, one final norm
	positions              Elements // learned positions, whole on every TP rank, with each embedding
}

// parameters counts elements by the table of memory-model.md 1.1 (TE layer spec).
func (s *shape) parameters() kindElements {
	m := s.m
	norm := s.normElements(s.h)
	attention := s.attentionElements()

	var k kindElements
	k.norm1 = Elements{Dense: norm}
	k.head = Elements{Dense: s.vocab * s.h}
	k.embedding = k.head
	if m.LearnedPositions {
		k.positions = Elements{Dense: int64(m.MaxPositionEmbeddings) * s.h}
	}

	f := int64(m.FFNHiddenSize) / s.tp
	mlp := Elements{Dense: (s.gate()+1)*f*s.h + norm, linear: (s.gate() + 1) * f * s.h}
	if m.LinearBias {
		mlp.Dense += s.gate()*f + s.h
	}
	k.dense = attention.plus(mlp, 1)
	last := k.dense
	if m.MoE != nil {
		k.moe = attention.plus(s.moeElements(), 1)
		if s.mtpMoE {
			last = k.moe
		}
	}
	if m.MTPNumLayers > 0 {
		// enorm, hnorm, the column-parallel projection of both halves, one layer, a final norm.
		projection := 2 * s.h * s.h / s.tp
		k.mtp = last.plus(Elements{Dense: 3*norm + projection, linear: projection}, 1)
	}
	return k
}

// mtpIsMoE reports whether an MTP layer holds experts: it follows the last decoder layer
// (NVIDIA/Megatron-LM@d98e8a64dd gpt_builders.py:56-64).
func mtpIsMoE(m *arch.Model) bool {
	layers := m.Layers()
	return len(layers) > 0 && layers[len(layers)-1].Feedforward == arch.MoEMLP
}

func (s *shape) normElements(width int64) int64 {
	if s.m.Normalization == arch.LayerNorm {
		return 2 * width
	}
	return width
}

func (s *shape) attentionElements() Elements {
	m := s.m
	if m.MLA != nil {
		return s.latentAttentionElements()
	}
	heads, groups, d := int64(m.NumAttentionHeads), int64(m.NumQueryGroups), int64(m.KVChannels)
	q, kv := heads*d, groups*d
	qkv := q + 2*kv
	if m.AttentionOutputGate {
		qkv += q
	}
	linear := (qkv*s.h + q*s.h) / s.tp
	e := Elements{Dense: linear + s.normElements(s.h), linear: linear}
	if m.QKVBias || m.LinearBias {
		e.Dense += qkv / s.tp
	}
	if m.LinearBias {
		e.Dense += s.h
	}
	switch m.QKNorm {
	case arch.PerHeadQKNorm, arch.FullDimQKNorm, arch.FullDimQKNormPerLayer:
		// Megatron's own spec norms per head also where a model's weights norm the whole projection.
		e.Dense += 2 * s.normElements(d)
	}
	if m.SoftmaxType == "learnable" {
		e.Dense += heads / s.tp
	}
	return e
}

// latentAttentionElements: the down projections are whole on every TP rank
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/transformer/multi_latent_attention.py, MLASelfAttention).
func (s *shape) latentAttentionElements() Elements {
	a, heads := s.m.MLA, int64(s.m.NumAttentionHeads)
	ql, kl, rope := int64(a.QLoraRank), int64(a.KVLoraRank), int64(a.QKPosEmbHeadDim)
	qk, v := int64(a.QKHeadDim), int64(a.VHeadDim)

	linear := s.h*(kl+rope) + (kl*heads*(qk+v)+heads*v*s.h)/s.tp
	if ql > 0 {
		linear += s.h*ql + ql*heads*(qk+rope)/s.tp
	} else {
		linear += s.h * heads * (qk + rope) / s.tp
	}
	e := Elements{Dense: linear + s.normElements(s.h), linear: linear}
	if s.m.QKNorm == arch.MLALatentNorm {
		e.Dense += s.normElements(kl) + s.normElements(ql)
	}
	return e
}

func (s *shape) moeElements() Elements {
	m, moe := s.m, s.m.MoE
	experts, fm := int64(moe.NumExperts), int64(moe.FFNHiddenSize)/s.etp
	expert := (s.gate() + 1) * fm * s.hl
	var e Elements
	e.Dense = s.normElements(s.h) + experts*s.h
	e.linear = s.local * expert
	if m.LinearBias {
		e.Dense += experts
		expert += s.gate()*fm + s.hl
	}
	if moe.LatentSize > 0 {
		e.Dense += 2 * s.h * s.hl
		e.linear += 2 * s.h * s.hl
	}
	if moe.SharedFFNSize > 0 {
		shared := (s.gate() + 1) * int64(moe.SharedFFNSize) * s.h / s.tp
		e.Dense += shared
		e.linear += shared
		if moe.SharedExpertGate {
			e.Dense += s.h
		}
	}
	if s.l.EP > 1 || s.l.ETP != s.l.TP {
		e.Expert = s.local * expert
	} else {
		e.Dense += s.local * expert
	}
	return e
}
