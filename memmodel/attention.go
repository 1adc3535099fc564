package memmodel

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// attention tallies what one attention block saves for backward (memory-model.md 3.1 and 3.2), from the
// layer's input to the input of the output projection.
func (s *shape) attention(t *tally) {
	if s.m.MLA != nil {
		s.latentAttention(t)
	} else {
		s.groupedQueryAttention(t)
	}
	t.save("attention dropout-add mask", s.dropoutMask(), 0)
}

// separateNorm is the recompute module that drops a norm's output before attention or a dense MLP: none in Transformer
// Engine's layers, whose norm is fused into the linear that follows and whose module saves both its input and its output
// (NVIDIA/TransformerEngine@d0067d0da transformer_engine/pytorch/module/layernorm_linear.py); layernorm in local ones.
func (s *shape) separateNorm() layout.Modules {
	if s.run.Local {
		return layout.LayerNorm
	}
	return 0
}

// groupedQueryAttention is MHA and GQA.
func (s *shape) groupedQueryAttention(t *tally) {
	m := s.m
	heads, headDim := int64(m.NumAttentionHeads), int64(m.KVChannels)
	q := heads * headDim / s.tp
	kvHeads := kvHeadsPerRank(m, s.l.TP)
	kv := kvHeads * headDim // of K, and again of V

	t.saveOr("layer input", s.w*s.ts*s.h, 0, OffloadQKVLinear)
	t.saveOr("linear_qkv input (norm output)", s.linearInput(s.ts*s.h), s.separateNorm(), OffloadQKVLinear)
	t.save("input norm statistics", s.normStats(s.ts), 0)
	if m.QKNorm != arch.NoQKNorm {
		t.saveOr("query and key before their norm", s.w*s.t*(q+kv), 0, OffloadQKVLinear)
		t.save("query and key norm statistics", s.normStats(s.t*(heads/s.tp+kvHeads)), 0)
	}
	t.saveOr("query", s.w*s.t*q, 0, OffloadCoreAttn)
	t.saveOr("key and value", s.keyValue(q, kv), 0, OffloadCoreAttn)
	t.saveOr("attention output", s.w*s.t*q, 0, OffloadAttnProj)
	s.attentionKernel(t, q, heads/s.tp)
	if m.AttentionOutputGate {
		t.save("output gate and gated output", 2*s.w*s.t*q, 0)
	}
}

// keyValue is what the kernel keeps of K and V. Unfused attention works on one copy of them per query head; where there
// are as many already, V is a view that keeps the whole output of linear_qkv, unless no rotary embedding has made
// copies of Q and K (recorded: testdata/activations.json.gz of package launch).
//
// A checkpoint of core attention keeps its inputs as they come: K, and that view.
func (s *shape) keyValue(q, kv int64) int64 {
	switch {
	case s.kernel != UnfusedAttention:
		return 2 * s.w * s.t * kv
	case s.modules.Has(layout.CoreAttn):
		return s.w * s.t * (kv + q + 2*kv)
	case q > kv:
		return 2 * s.w * s.t * q
	case s.m.LearnedPositions:
		return 2 * s.w * s.t * kv
	}
	return s.w * s.t * (kv + q + 2*kv)
}

// latentAttention is MLA with its up-projections materialised, as Megatron trains it: mla_up_proj recompute
// drops what the up-projections make, layernorm recompute the output of the separate input norm.
func (s *shape) latentAttention(t *tally) {
	a := s.m.MLA
	heads := int64(s.m.NumAttentionHeads) / s.tp
	qkDim, vDim := int64(a.QKHeadDim+a.QKPosEmbHeadDim), int64(a.VHeadDim)
	ql, kl, rope := int64(a.QLoraRank), int64(a.KVLoraRank), int64(a.QKPosEmbHeadDim)
	normed := s.m.QKNorm == arch.MLALatentNorm

	t.saveOr("layer input", s.w*s.ts*s.h, 0, OffloadAttnNorm)
	t.saveOr("down projections' input (norm output)", s.downProjectionInput(), layout.LayerNorm, OffloadQKVLinear)
	t.save("input norm statistics", s.normStats(s.ts), 0)
	if ql > 0 {
		t.saveOr("query latent", s.w*s.ts*ql, 0, OffloadQKVLinear)
		if normed {
			t.saveOr("query up-projection input (norm output)", s.linearInput(s.ts*ql), layout.MLAUpProj, OffloadQKVLinear)
			t.save("query latent norm statistics", s.normStats(s.ts), 0)
		}
	}
	t.saveOr("key-value latent with rotary key", s.w*s.ts*(kl+rope), 0, OffloadQKVLinear)
	if normed { // without norms the up-projections keep the latents themselves
		t.saveOr("key-value up-projection input (norm output)", s.linearInput(s.ts*kl), layout.MLAUpProj, OffloadQKVLinear)
		t.save("key-value latent norm statistics", s.normStats(s.ts), 0)
	}
	if s.l.SequenceParallel {
		t.save("rotary key gathered over TP", s.w*s.t*rope, 0)
	}
	t.saveOr("query", s.w*s.t*heads*qkDim, layout.MLAUpProj, OffloadCoreAttn)
	keys := layout.MLAUpProj
	if s.l.CP > 1 && !s.cpAllToAll {
		keys = 0 // a ring saves the keys and values that it received last, which are not the layer's own
	}
	t.saveOr("key", s.w*s.t*heads*qkDim, keys, OffloadCoreAttn)
	t.saveOr("value", s.w*s.t*heads*vDim, keys, OffloadCoreAttn)
	t.saveOr("attention output", s.w*s.t*heads*vDim, 0, OffloadAttnProj)
	s.attentionKernel(t, heads*vDim, heads)
}

// downProjectionInput is the input norm's output. In FP8 the query and the key-value down projections keep a
// quantized copy each (memory-model.md 3.8).
func (s *shape) downProjectionInput() int64 {
	n := s.linearInput(s.ts * s.h)
	if s.quantized() && s.m.MLA.QLoraRank > 0 {
		n *= 2
	}
	return n
}

// attentionKernel is what the attention kernel keeps besides q, k, v and its output: softmax statistics and a second
// output for FlashAttention 2 and for all-to-all context parallelism; or the scores' softmax, and its dropout, where
// no fused kernel runs (memory-findings.md C4 and C5).
func (s *shape) attentionKernel(t *tally, outputWidth, heads int64) {
	switch s.kernel {
	case UnfusedAttention:
		s.unfusedKernel(t)
		return
	case FlashAttention2:
		t.save("FlashAttention 2 output copy", s.w*s.t*outputWidth, layout.CoreAttn)
	}
	t.save("softmax statistics", 4*s.t*heads, layout.CoreAttn)
	if s.cpAllToAll {
		t.save("attention output before the CP all-to-all", s.w*s.t*outputWidth, 0)
	}
}

// unfusedKernel: with the fused scale-mask-softmax the probabilities, and with dropout their mask and what is left of
// them; without it an fp32 softmax beside what the product with V reads (memory-findings.md C4).
func (s *shape) unfusedKernel(t *tally) {
	a := s.scores()
	if s.run.UnfusedSoftmax {
		t.saveOr("fp32 attention softmax", 4*a, layout.CoreAttn, OffloadCoreAttn)
		t.saveOr("attention probabilities", s.w*a, layout.CoreAttn, OffloadCoreAttn)
		if s.run.AttentionDropout {
			t.saveOr("attention dropout mask", a, layout.CoreAttn, OffloadCoreAttn)
		}
		return
	}
	t.saveOr("attention softmax", s.w*a, layout.CoreAttn, OffloadCoreAttn)
	if s.run.AttentionDropout {
		t.saveOr("attention dropout mask", a, layout.CoreAttn, OffloadCoreAttn)
		t.saveOr("attention probabilities after dropout", s.w*a, layout.CoreAttn, OffloadCoreAttn)
	}
}

// kvHeadsPerRank is the KV heads one rank works on: with fewer groups than TP each rank keeps one
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/transformer/attention.py:352-385).
func kvHeadsPerRank(m *arch.Model, tp int) int64 {
	if m.NumQueryGroups < tp {
		return 1
	}
	return int64(m.NumQueryGroups / tp)
}
