package memmodel

import "github.com/moeplan/moeplan/layout"

// Span is a lower and an upper figure, in bytes.
type Span struct{ Low, High int64 }

func (s *Span) add(low, high int64) {
	s.Low += low
	s.High += high
}

// Device is what the card sees of one rank: the allocator's reservation and what lives outside it. Nothing of it was
// recorded by the framework runs at hand, so both ends are derived (constants.go names the sources).
type Device struct {
	Reserved  int64 // torch.cuda.max_memory_reserved, upper figure
	Low, High int64 // nvidia-smi

	// Fragmentation is what the allocator reserves beyond the allocated peak, Context the CUDA context and modules,
	// Communicators NCCL's buffers, ExpertBuffers those of a flex dispatcher (DeepEP, HybridEP), Graphs the static
	// tensors and private pools of CUDA graphs.
	Fragmentation, Context, Communicators, ExpertBuffers, Graphs Span
}

// device derives the range from the allocated peak (memory-model.md 7.2 to 7.4).
func (s *shape) device(c *class, f *figures) Device {
	allocated := f.peak()
	low, high := s.fragmentation(c)
	d := Device{
		Fragmentation: Span{int64(float64(allocated) * (low - 1)), int64(float64(allocated) * (high - 1))},
		Context:       Span{contextLow, contextHigh},
		Communicators: s.communicators(c),
		Graphs:        s.graphPools(c, f),
	}
	if c.has(layerKind.moe) && s.l.EP > 1 {
		d.ExpertBuffers = s.expertBuffers()
	}
	d.Reserved = allocated + d.Fragmentation.High
	d.Low, d.High = allocated, allocated
	for _, part := range []Span{d.Fragmentation, d.Context, d.Communicators, d.ExpertBuffers, d.Graphs} {
		d.Low += part.Low
		d.High += part.High
	}
	return d
}

func (s *shape) fragmentation(c *class) (low, high float64) {
	switch {
	case s.run.ExpandableSegments:
		return expandableLow, expandableHigh
	case c.has(layerKind.moe) && s.run.Imbalance > 1 && !s.run.PadToCapacity:
		return reservedLow, reservedDropless
	case s.l.CP > 1:
		return reservedLow, reservedLongContext
	case c.has(layerKind.moe):
		return reservedLow, reservedPaddedExperts
	}
	return reservedLow, reservedDense
}

func (s *shape) domain() int {
	if s.run.DomainSize > 0 {
		return s.run.DomainSize
	}
	return defaultDomain
}

// communicators adds up NCCL's buffers over the groups that the layout uses; a group of one rank makes none. Groups within
// the NVLink domain ring over it; the first that leaves it brings the network's buffers; an all-to-all connects every pair.
func (s *shape) communicators(c *class) Span {
	l := s.l
	var n Span
	network := false
	ring := func(size, stride int) {
		if size <= 1 {
			return
		}
		n.add(ringLow, ringHigh)
		network = network || size*stride > s.domain()
	}
	dp := l.DP()
	ring(l.TP, 1)
	ring(l.CP, l.TP)
	ring(dp*l.CP, l.TP)
	ring(l.PP, l.World/max(1, l.PP))
	if c.has(layerKind.moe) {
		ring(l.ETP, 1)
		ring(l.EDP(), l.ETP*l.EP)
		if l.EP > 1 && !l.Dispatcher.Flex() {
			near := min(l.EP, max(1, min(s.domain(), peerDomain)/l.ETP)) - 1
			n.add(int64(near)*peerLow, int64(near)*peerHigh+int64(l.EP-1-near)*remotePeerHigh)
			network = network || l.EP*l.ETP > s.domain()
		}
	}
	if s.sharedEmbedding() && (c.embedding > 0 || c.loss) {
		ring(2, l.World/max(1, l.PP))
	}
	if network {
		n.add(0, networkHigh)
	}
	return n
}

// expertBuffers are a flex dispatcher's own: DeepEP's NVLink and RDMA queues, HybridEP's buffers for every token that may
// arrive, twice where its domain does not hold the group (memory-model.md 7.2).
func (s *shape) expertBuffers() Span {
	ranks := s.l.EP * s.l.ETP
	switch s.l.Dispatcher {
	case layout.DeepEP:
		hidden := s.w * s.h
		near := int64(min(ranks, 8))
		tokens := int64(256)
		switch {
		case ranks > 128:
			tokens = 720
		case ranks > 64:
			tokens = 560
		case ranks > 8:
			tokens = 288
		}
		n := deepEPChannels*near*tokens*(hidden+16+128*8+128*4+128*4) + 32*mib
		if ranks > 8 {
			n += 2*deepEPChannels*int64(ranks/8)*deepEPTokens*(hidden+16+2048+16) + mib
		}
		return Span{n, n}
	case layout.HybridEP:
		arriving := s.ts * int64(ranks)
		near := int64(min(ranks, s.domain()))
		tokens := s.w*arriving*s.h + 4*arriving*s.local*near
		if ranks > s.domain() {
			tokens *= 2
		}
		return Span{tokens, tokens + s.w*s.ts*s.h + 4*arriving*s.h/128}
	}
	return Span{}
}
