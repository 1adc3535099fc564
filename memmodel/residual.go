package memmodel

// batchInputs are the batch's own tensors, on stages that read data: ids, labels, positions and loss mask, and the
// attention mask if the loader makes one (memory-findings.md C8).
func (s *shape) batchInputs(c *class) int64 {
	if c.embedding == 0 && !c.loss {
		return 0
	}
	n := tokenInputBytes * s.t
	if s.run.CausalMask {
		n += int64(s.l.MicroBatchSize) * int64(s.l.SeqLength) * int64(s.l.SeqLength) / int64(s.l.CP)
	}
	return n
}

// staleTensors are what the schedule's own variables still hold (memory-findings.md C3): on stages that receive
// an input, the previous input and its gradient in a forward, one of them in a backward, and a prefetched third
// when interleaving overlaps communication, unless warm-up and flush overlap too. The first stage holds the previous
// output's gradient in a forward (memory-model.md 3.7).
func (s *shape) staleTensors(c *class, backward bool) int64 {
	one := s.w * s.ts * s.h
	switch {
	case s.l.PP == 1:
		return 0
	case c.rank == 0:
		if backward {
			return 0
		}
		return one
	case s.l.VPP > 1 && !s.run.NoP2POverlap && !s.run.WarmupFlushOverlap:
		return 3 * c.copies * one
	case backward:
		return c.copies * one
	}
	return 2 * c.copies * one
}

// residualTensors stay allocated between steps: for each chunk that receives an input, its input tensor and the
// gradient (memory-findings.md C2; chunks beyond the first on the first stage by the same code, not measured).
func (s *shape) residualTensors(c *class) int64 {
	chunks := int64(s.l.VPP) - 1 + c.copies
	if c.rank == 0 {
		chunks--
	}
	if s.l.PP == 1 {
		return 0
	}
	return 2 * s.w * s.ts * s.h * chunks
}

// overlapExtra is what the merged steps of overlapped expert communication hold beside one chunk's activations: the
// layer that runs forward while its counterpart in the backward chunk is not freed yet (memory-model.md 6.4). At the
// loss the backward chunk is gone (memory-findings.md C17).
func (s *shape) overlapExtra(c *class, a *activations) (n int64) {
	if !s.l.EPOverlap {
		return 0
	}
	for kind, count := range c.count {
		if count > 0 {
			n = max(n, a.kept(layerKind(kind)))
		}
	}
	if s.run.DelayWeightGradient && c.has(layerKind.moe) {
		n += s.delayedGradients()
	}
	return n
}

// delayedGradients is what --delay-wgrad-compute holds of one layer's experts until their weight gradients are made: the
// inputs of both linears and the gradients of their outputs (memory-model.md 6.4, not verified).
func (s *shape) delayedGradients() int64 {
	fm := int64(s.m.MoE.FFNHiddenSize) / s.etp
	return s.w * s.rows * (2*s.hl + (s.gate()+1)*fm)
}
