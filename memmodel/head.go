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
	saved, forward, backward := int64(4), int64(10), int64(6)
	switch s.run.CrossEntropy {
	case UnfusedCE:
		forward = 6
	case TEFusedBF16CE:
		saved, forward, backward = 2, 2, 2
	}
	base := 2*w*s.ts*s.h + s.normStats(s.ts) + 9*s.t // final norm input and output, per-token loss terms
	gradient := 2*lg + w*s.t*s.h                     // of the logits, and of the output layer's input
	if s.l.SequenceParallel {
		gradient += w * s.ts * s.h
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
	t.save("MTP hidden states", w*s.ts*s.h, 0)
	t.save("MTP norm inputs", 2*w*s.ts*s.h, 0)
	t.save("MTP projection input", 2*w*s.ts*s.h, 0)
	t.save("MTP final norm", 2*w*s.ts*s.h, 0)
}
