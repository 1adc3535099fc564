package memmodel

// headBytes are the bytes of the output layer and loss of one micro-batch (memory-model.md 3.5).
type headBytes struct {
	saved    int64 // between its forward and its backward
	forward  int64 // peak of its forward, saved tensors included
	backward int64 // peak of its backward, saved tensors included
}

// head prices final norm, output layer and cross entropy, MTP's extra losses included. Lg below is the
// elements of one micro-batch's logits on one rank.
func (s *shape) head(mtp int64) headBytes {
	lg := s.t * s.vocab
	// Saved and peak bytes per logit. The native fusion materialises a second fp32 tensor in its forward
	// (memory-findings.md C6).
	saved, forward, backward := int64(4), 8+s.w, 4+s.w
	switch s.run.CrossEntropy {
	case UnfusedCE, TEFusedCE:
		forward = 4 + s.w
	case TEFusedBF16CE:
		saved, forward, backward = s.w, s.w, s.w
	}
	base := 2*s.w*s.ts*s.h + s.normStats(s.ts) + 9*s.t // final norm input and output, per-token loss terms
	gradient := s.w*lg + s.w*s.t*s.h                   // of the logits, and of the output layer's input
	if s.l.SequenceParallel {
		gradient += s.w * s.ts * s.h
	}
	others := mtp * saved * lg // MTP losses wait for the main loss
	return headBytes{
		saved:    base + others + saved*lg,
		forward:  base + others + forward*lg,
		backward: base + others + max(backward*lg, gradient),
	}
}

// mtpLayer tallies what one MTP depth saves besides its transformer layer: the hidden states it concatenates,
// both norms' inputs, the projection's input, and its final norm (memory-model.md 3.5).
func (s *shape) mtpLayer(t *tally) {
	t.save("MTP hidden states", s.w*s.ts*s.h, 0)
	t.save("MTP norm inputs", 2*s.w*s.ts*s.h, 0)
	t.save("MTP projection input", 2*s.w*s.ts*s.h, 0)
	t.save("MTP final norm", 2*s.w*s.ts*s.h, 0)
}

// deferredEmbedding is what --defer-embedding-wgrad-compute keeps of each micro-batch for the output layer's weight
// gradient: the gradient of its logits and its input (memory-findings.md C21).
func (s *shape) deferredEmbedding(c *class) int64 {
	if !s.run.DeferEmbeddingGradient || !c.loss || s.l.PP == 1 {
		return 0
	}
	n := s.l.NumMicrobatches()
	if s.run.DeferralLimit > 0 {
		n = min(n, s.run.DeferralLimit)
	}
	return int64(n) * (s.w*s.t*s.vocab + s.w*s.t*s.h)
}
