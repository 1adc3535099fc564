package memmodel

// workspace is what stays allocated on a stage besides the model's state: weight gradient placeholders, cuBLAS
// workspaces and the shared gather buffer (memory-model.md 7.1, memory-findings.md C1, C10, C23).
func (s *shape) workspace(c *class) int64 {
	te := teWorkspace(s.run.SM)
	total := s.dummyGradients(c) + te
	if c.moe > 0 || (c.mtp > 0 && c.mtpMoE) {
		total += groupedGEMMStreams * te
	}
	if c.loss {
		z := s.run.TorchWorkspace
		if z == 0 {
			z = torchWorkspace(s.run.SM)
		}
		total += 2 * z // the main thread's and the autograd thread's
		if s.l.SequenceParallel {
			total += w * s.t * s.h // the output layer's gathered input
		}
	}
	return total
}

// matrix is the shape of a linear layer's weight on one rank.
type matrix struct{ rows, cols int64 }

// dummyGradients sums one placeholder per distinct weight shape: with gradient accumulation fusion, which is
// on by default, every TE linear returns the same cached dummy tensor for all weights of its shape
// (NVIDIA/TransformerEngine@d0067d0da transformer_engine/pytorch/module/base.py, get_dummy_wgrad).
func (s *shape) dummyGradients(c *class) int64 {
	var shapes [16]matrix
	n := 0
	add := func(rows, cols int64) {
		for _, have := range shapes[:n] {
			if have == (matrix{rows, cols}) {
				return
			}
		}
		shapes[n] = matrix{rows, cols}
		n++
	}
	m := s.m
	if m.MLA != nil {
		a, heads := m.MLA, int64(m.NumAttentionHeads)/s.tp
		ql, kl, rope := int64(a.QLoraRank), int64(a.KVLoraRank), int64(a.QKPosEmbHeadDim)
		qk, v := int64(a.QKHeadDim), int64(a.VHeadDim)
		if ql > 0 {
			add(ql, s.h)
			add(heads*(qk+rope), ql)
		} else {
			add(heads*(qk+rope), s.h)
		}
		add(kl+rope, s.h)
		add(heads*(qk+v), kl)
		add(s.h, heads*v)
	} else {
		q, kv := int64(m.NumAttentionHeads*m.KVChannels), int64(m.NumQueryGroups*m.KVChannels)
		qkv := q + 2*kv
		if m.AttentionOutputGate {
			qkv += q
		}
		add(qkv/s.tp, s.h)
		add(s.h, q/s.tp)
	}
	if c.dense > 0 || (c.mtp > 0 && !c.mtpMoE) {
		f := int64(m.FFNHiddenSize) / s.tp
		add(s.gate()*f, s.h)
		add(s.h, f)
	}
	if c.moe > 0 || (c.mtp > 0 && c.mtpMoE) {
		fm := int64(m.MoE.FFNHiddenSize) / s.etp
		add(s.gate()*fm, s.hl)
		add(s.hl, fm)
		if fs := int64(m.MoE.SharedFFNSize) / s.tp; fs > 0 {
			add(s.gate()*fs, s.h)
			add(s.h, fs)
		}
	}
	if c.mtp > 0 {
		add(s.h/s.tp, 2*s.h)
	}
	if c.loss {
		add(s.vocab, s.h)
	}
	var total int64
	for _, x := range shapes[:n] {
		total += x.rows * x.cols * 2
	}
	return total
}
