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
	dense, expert, largest := s.knownMuonState(c)
	st.optimizer = dense + expert
	st.expert = (s.w+s.gradientBytes())*h.expert + expert
	st.dense = st.weights + st.gradients + st.optimizer - st.expert
	st.stepCopies, st.host = 0, 0
	st.stepTemporary = muonTemporaries * s.w * largest
}

// muonKey is what the state of a class depends on beside its layers.
type muonKey struct{ tp, ep, etp, dense, expert int }

type muonBytes struct{ dense, expert, largest int64 }

// knownMuonState is muonState, worked out once for each sharding: a search asks for every micro-batch and interleaving.
func (s *shape) knownMuonState(c *class) (dense, expert, largest int64) {
	key := muonKey{s.l.TP, s.l.EP, s.l.ETP, s.l.DP() * s.l.CP, s.l.EDP()}
	known, ok := c.muon[key]
	if !ok {
		if c.muon == nil {
			c.muon = make(map[muonKey]muonBytes)
		}
		known.dense, known.expert, known.largest = s.muonState(c)
		c.muon[key] = known
	}
	return known.dense, known.expert, known.largest
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
	for i := range list {
		if p := &list[i]; p.Matrix {
			largest = max(largest, p.Elements)
		}
	}
	denseRanks, expertRanks := max(1, s.l.DP()*s.l.CP), max(1, s.l.EDP())
	if !s.run.LayerWise {
		denseRanks, expertRanks = 1, 1
	}
	return s.muonSet(list, false, denseRanks), s.muonSet(list, true, expertRanks), largest
}

// muonSet is the state of one rank for the parameters of one set, experts or the others.
func (s *shape) muonSet(list []Parameter, expert bool, ranks int) int64 {
	if s.run.LayerWiseLayout {
		var matrices, others, largest int64
		for i := range list {
			switch p := &list[i]; {
			case p.Expert != expert:
			case p.Matrix:
				matrices += p.Elements
				largest = max(largest, p.Elements)
			default:
				others += p.Elements
			}
		}
		share := max(ceilDiv(matrices, int64(ranks)), largest) // packing fills to the mean, or one matrix is larger
		return muonMatrixBytes*share + muonOtherBytes*ceilDiv(others, int64(ranks))
	}
	// Places in the order of sizes, equal ones as they are listed. Sizes are few, so they are counted and not sorted.
	type size struct{ elements, place int64 }
	var sizes []size
	at := func(p *Parameter) int {
		return slices.IndexFunc(sizes, func(s size) bool { return s.elements == p.Elements })
	}
	for i := range list {
		p := &list[i]
		if p.Expert != expert {
			continue
		}
		if at(p) < 0 {
			sizes = append(sizes, size{elements: p.Elements})
		}
		sizes[at(p)].place++
	}
	slices.SortFunc(sizes, func(a, b size) int { return cmp.Compare(a.elements, b.elements) })
	next := int64(0)
	for i := range sizes {
		sizes[i].place, next = next, next+sizes[i].place
	}
	held := make([]int64, ranks)
	for i := range list {
		p := &list[i]
		if p.Expert != expert {
			continue
		}
		entry := &sizes[at(p)]
		to := int(entry.place % int64(2*ranks))
		if entry.place++; to >= ranks {
			to = 2*ranks - 1 - to
		}
		bytes := int64(muonOtherBytes)
		if p.Matrix {
			bytes = muonMatrixBytes
		}
		held[to] += bytes * p.Elements
	}
	if r := s.run.OptimizerRank; r > 0 {
		return held[(r-1)%ranks]
	}
	return slices.Max(held)
}
