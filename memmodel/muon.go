package memmodel

import (
	"cmp"
	"slices"
)

// Bytes per element of state under Muon: an fp32 master and a momentum for matrices, Adam for everything else
// (memory-model.md 2.5).
const (
	muonMatrixBytes = 8
	muonOtherBytes  = 12
	// muonTemporaries is how many copies of the largest matrix an orthogonalization works with (memory-model.md 2.5, not
	// verified).
	muonTemporaries = 3
)

// dealMatrices puts a Muon optimizer's state in the place of Adam's.
func (s *shape) dealMatrices(c *class, h *held, st *state) {
	dense, expert, largest := s.muonState(c)
	st.optimizer = dense + expert
	st.expert = (s.w+s.gradientBytes())*h.expert + expert
	st.dense = st.weights + st.gradients + st.optimizer - st.expert
	st.stepCopies, st.host = 0, 0
	st.stepTemporary = muonTemporaries * s.w * largest
}

// muonState replaces the optimizer's bytes of a rank under a layer-wise Muon optimizer. Whole matrices are dealt to the
// data parallel ranks, so ranks differ; the fullest counts (memory-findings.md C13).
//
// Without its parameter layout every parameter is dealt, by size, there and back over the ranks; with it embeddings and
// norms go through a distributed optimizer and matrices are packed to about equal shares.
func (s *shape) muonState(c *class) (dense, expert, largest int64) {
	var list []Parameter
	for v := range c.chunks {
		list = append(list, s.parameterList(&c.chunks[v], c.tiedHead)...)
	}
	for _, p := range list {
		if p.Matrix {
			largest = max(largest, p.Elements)
		}
	}
	denseRanks, expertRanks := max(1, s.l.DP()*s.l.CP), max(1, s.l.EDP())
	if !s.run.LayerWise {
		denseRanks, expertRanks = 1, 1
	}
	return s.muonSet(list, false, denseRanks), s.muonSet(list, true, expertRanks), largest
}

func (s *shape) muonSet(list []Parameter, expert bool, ranks int) int64 {
	var mine []Parameter
	for _, p := range list {
		if p.Expert == expert {
			mine = append(mine, p)
		}
	}
	if s.run.LayerWiseLayout {
		var matrices, others, largest int64
		for _, p := range mine {
			if p.Matrix {
				matrices += p.Elements
				largest = max(largest, p.Elements)
			} else {
				others += p.Elements
			}
		}
		share := max(ceilDiv(matrices, int64(ranks)), largest) // packing fills to the mean, or one matrix is larger
		return muonMatrixBytes*share + muonOtherBytes*ceilDiv(others, int64(ranks))
	}
	slices.SortStableFunc(mine, func(a, b Parameter) int { return cmp.Compare(a.Elements, b.Elements) })
	held := make([]int64, ranks)
	for i, p := range mine {
		at := i % (2 * ranks)
		if at >= ranks {
			at = 2*ranks - 1 - at
		}
		bytes := int64(muonOtherBytes)
		if p.Matrix {
			bytes = muonMatrixBytes
		}
		held[at] += bytes * p.Elements
	}
	if r := s.run.OptimizerRank; r > 0 {
		return held[(r-1)%ranks]
	}
	return slices.Max(held)
}
