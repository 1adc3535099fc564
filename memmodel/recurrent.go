package memmodel

// mambaMixer tallies what a Mamba-2 mixer saves (memory-findings.md C22): the norm's input and output, the contiguous
// projection of z, x, B, C and dt, and three tensors of the inner width: the kernel's output, the gated norm's input
// and its output, which the output projection reads.
func (s *shape) mambaMixer(t *tally) {
	a := s.m.Mamba
	inner := int64(a.NumHeads) * int64(a.HeadDim)
	in := 2*inner + 2*int64(a.NumGroups)*int64(a.StateDim) + int64(a.NumHeads)
	t.save("layer input", s.w*s.ts*s.h, 0)
	t.save("in_proj input (norm output)", s.linearInput(s.ts*s.h), 0)
	t.save("input norm statistics", s.normStats(s.ts), 0)
	t.save("projected z, x, B, C, dt", s.w*s.t*in/s.tp, 0)
	t.save("scan output, gated norm input and output", 3*s.w*s.t*inner/s.tp, 0)
	t.save("mixer dropout-add mask", s.dropoutMask(), 0)
}

// mambaInner is the inner width of a Mamba mixer on this rank.
func (s *shape) mambaInner() int64 {
	if s.m.Mamba == nil {
		return 0
	}
	return int64(s.m.Mamba.NumHeads) * int64(s.m.Mamba.HeadDim) / s.tp
}

// gatedDeltaNet tallies what a gated delta net saves. ASSUMED: a first approximation by its projections
// (memory-model.md 10 item 8); no measurement covers it.
func (s *shape) gatedDeltaNet(t *tally) {
	a := s.m.LinearAttention
	qk, v := int64(a.KeyHeadDim)*int64(a.NumKeyHeads), int64(a.ValueHeadDim)*int64(a.NumValueHeads)
	in := 2*qk + 2*v + deltaNetGates(a.Variant, qk, v, int64(a.NumValueHeads))
	t.save("layer input", s.w*s.ts*s.h, 0)
	t.save("in_proj input (norm output)", s.linearInput(s.ts*s.h), 0)
	t.save("input norm statistics", s.normStats(s.ts), 0)
	t.save("projections and their split copies", 2*s.w*s.t*in/s.tp, 0)
	t.save("convolution output", s.w*s.t*(2*qk+v)/s.tp, 0)
	t.save("chunk output, gated norm input and output", 3*s.w*s.t*v/s.tp, 0)
	t.save("mixer dropout-add mask", s.dropoutMask(), 0)
}

// deltaNetGates is the width of beta and the decay: a value per head, or per channel in gdn2.
func deltaNetGates(variant string, qk, v, heads int64) int64 {
	if variant == "gdn2" {
		return 2*qk + v
	}
	return 2 * heads
}
