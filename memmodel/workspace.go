package memmodel

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// workspace is what stays allocated on a stage besides the model's state: weight gradient placeholders, cuBLAS
// workspaces and the shared gather buffer (memory-model.md 7.1, memory-findings.md C1, C10, C23).
func (s *shape) workspace(c *class) int64 {
	te := teWorkspace(s.run.SM)
	moe := c.hasFeedforward(arch.MoEMLP)
	attends := c.hasMixer(arch.GQA) || c.hasMixer(arch.MLAttention)
	total := int64(0)
	if !s.run.NoGradientFusion {
		total += s.dummyGradients(c)
	}
	if !s.run.Local || moe { // the router's GEMM is TE's also in local layers
		total += te
	}
	if moe && !s.run.SequentialExperts && !s.run.Local {
		total += groupedGEMMStreams * te
	}
	if c.loss || s.run.Local || attends && s.kernel == UnfusedAttention {
		z := s.run.TorchWorkspace
		if z == 0 {
			z = torchWorkspace(s.run.SM)
		}
		total += 2 * z // the main thread's and the autograd thread's
	}
	return total + s.gatherBuffer(c, moe, attends) + s.rotaryTables(c)
}

// rotaryTables are cached angles: latent attention has an embedding of its own in each layer, which keeps cosines and sines
// for its original context beside the fp32 angles of the sequence; other layers share the model's angles
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/models/common/embeddings/yarn_rotary_pos_embedding.py and
// megatron/core/transformer/multi_latent_attention.py:180).
func (s *shape) rotaryTables(c *class) int64 {
	if a := s.m.MLA; a != nil {
		layers := int64(0)
		for k, n := range c.count {
			if layerKind(k).mixer() == arch.MLAttention {
				layers += int64(n)
			}
		}
		return layers * int64(a.QKPosEmbHeadDim) * (2*s.w*yarnContext + 4*int64(s.l.SeqLength))
	}
	if s.m.LearnedPositions || !c.hasMixer(arch.GQA) {
		return 0
	}
	return 4 * int64(s.l.SeqLength) * int64(s.m.KVChannels)
}

// gatherBuffer is Megatron's global buffer, which grows to its largest use and stays: the gathered input of the output
// layer (of any column-parallel linear in local layers), the gathered tokens of the allgather dispatcher, the scores of
// local attention (memory-findings.md C4 and C10).
func (s *shape) gatherBuffer(c *class, moe, attends bool) (n int64) {
	if s.l.SequenceParallel && (c.loss || s.run.Local) {
		n = s.w * s.t * s.h
	}
	if moe && s.l.Dispatcher == layout.AllGather && (s.l.EP > 1 || s.etp > 1) {
		n = max(n, s.w*s.ts*int64(s.l.EP)*s.etp*s.h)
	}
	if s.run.Local && attends {
		n = max(n, s.w*s.scores())
	}
	return n
}

// matrixShape is the shape of a linear layer's weight on one rank.
type matrixShape struct{ rows, cols int64 }

// shapeSet collects distinct shapes.
type shapeSet struct {
	shapes [24]matrixShape
	n      int
	total  int64
}

func (t *shapeSet) add(rows, cols int64) {
	x := matrixShape{rows, cols}
	for _, have := range t.shapes[:t.n] {
		if have == x {
			return
		}
	}
	t.shapes[t.n] = x
	t.n++
	t.total += rows * cols
}

// dummyGradients sums one placeholder per distinct weight shape: with gradient accumulation fusion, which is
// on by default, every TE linear returns the same cached dummy tensor for all weights of its shape
// (NVIDIA/TransformerEngine@d0067d0da transformer_engine/pytorch/module/base.py, get_dummy_wgrad).
func (s *shape) dummyGradients(c *class) int64 {
	var t shapeSet
	for kind, n := range c.count {
		if n == 0 {
			continue
		}
		s.mixerShapes(&t, layerKind(kind).mixer())
		s.feedforwardShapes(&t, layerKind(kind).feedforward())
	}
	if c.mtp > 0 {
		t.add(s.h/s.tp, 2*s.h)
	}
	if c.loss {
		t.add(s.vocab, s.h)
	}
	return t.total * s.w
}

func (s *shape) mixerShapes(t *shapeSet, mixer arch.Mixer) {
	m := s.m
	switch mixer {
	case arch.MLAttention:
		a, heads := m.MLA, int64(m.NumAttentionHeads)/s.tp
		ql, kl, rope := int64(a.QLoraRank), int64(a.KVLoraRank), int64(a.QKPosEmbHeadDim)
		qk, v := int64(a.QKHeadDim), int64(a.VHeadDim)
		if ql > 0 {
			t.add(ql, s.h)
			t.add(heads*(qk+rope), ql)
		} else {
			t.add(heads*(qk+rope), s.h)
		}
		t.add(kl+rope, s.h)
		t.add(heads*(qk+v), kl)
		t.add(s.h, heads*v)
	case arch.GQA:
		q, kv := int64(m.NumAttentionHeads*m.KVChannels), int64(m.NumQueryGroups*m.KVChannels)
		qkv := q + 2*kv
		if m.AttentionOutputGate {
			qkv += q
		}
		t.add(qkv/s.tp, s.h)
		t.add(s.h, q/s.tp)
	case arch.MambaMixer:
		a := m.Mamba
		inner := int64(a.NumHeads) * int64(a.HeadDim)
		t.add((2*inner+2*int64(a.NumGroups)*int64(a.StateDim)+int64(a.NumHeads))/s.tp, s.h)
		t.add(s.h, inner/s.tp)
	case arch.GatedDeltaNet:
		a := m.LinearAttention
		qk, v := int64(a.KeyHeadDim)*int64(a.NumKeyHeads), int64(a.ValueHeadDim)*int64(a.NumValueHeads)
		t.add((2*qk+2*v+deltaNetGates(a.Variant, qk, v, int64(a.NumValueHeads)))/s.tp, s.h)
		t.add(s.h, v/s.tp)
	}
}

func (s *shape) feedforwardShapes(t *shapeSet, f arch.Feedforward) {
	switch f {
	case arch.DenseMLP:
		f := int64(s.m.FFNHiddenSize) / s.tp
		t.add(s.gate()*f, s.h)
		t.add(s.h, f)
	case arch.MoEMLP:
		moe := s.m.MoE
		fm := int64(moe.FFNHiddenSize) / s.etp
		t.add(s.gate()*fm, s.hl)
		t.add(s.hl, fm)
		if fs := int64(moe.SharedFFNSize) / s.tp; fs > 0 {
			t.add(s.gate()*fs, s.h)
			t.add(s.h, fs)
		}
		if moe.LatentSize > 0 {
			t.add(s.hl, s.h)
			t.add(s.h, s.hl)
		}
	}
}
