package topology

// Span says how the groups of one kind lie over NVLink domains. All groups of a kind work at the same time
// and wait for the slowest, so every figure is that of the group in which it is worst; the pairs Min and Max
// show how far the groups differ. With domains that the groups divide, or are divided by, they do not.
type Span struct {
	Size                   int // ranks in each group
	DomainsMin, DomainsMax int // domains that a group touches
	RanksMin, RanksMax     int // ranks of one group inside one of the domains that it touches

	// SamePairs counts ordered pairs of different ranks that share a domain, in the group with the fewest:
	// the sum over domains of c(c-1), where c ranks of the group sit in one.
	SamePairs int64
	// RingEdges and ChainHops count neighbours in group order, with and without the step from the last rank
	// back to the first, that lie in different domains.
	RingEdges, ChainHops int
}

// Collective is how a group's bytes move, as far as it decides what leaves a domain.
type Collective uint8

const (
	// AllToAll sends an equal part to every other rank.
	AllToAll Collective = iota
	// Ring is all-gather, reduce-scatter or all-reduce over one flat ring in group order, and ring attention.
	Ring
	// TwoLevel is the same collectives done inside domains first and between domains after.
	TwoLevel
	// Chain sends from each rank to the next, as pipeline stages do.
	Chain
)

// Leaving returns which share of the bytes that ranks send to other ranks of their group leaves the domain,
// 0 to 1. With a ranks over nd domains, r = a/nd in each, it is (a-r)/(a-1) for AllToAll, nd/a for Ring,
// (nd-1)/(a-1) for TwoLevel and Chain (moeplan notes comm-model 2.3 and 2.4; two-level: of the buffer S,
// S(r-1)/r stays and S(nd-1)/(nd r) leaves).
//
// Dispatchers that send one copy per domain (DeepEP, HybridEP) leave less than AllToAll says; their share
// depends on the routing and is computed with it.
func (s Span) Leaving(c Collective) float64 {
	if s.Size <= 1 {
		return 0
	}
	a := float64(s.Size)
	switch c {
	case AllToAll:
		return 1 - float64(s.SamePairs)/(a*(a-1))
	case Ring:
		return float64(s.RingEdges) / a
	case TwoLevel:
		return float64(s.DomainsMax-1) / (a - 1)
	case Chain:
		return float64(s.ChainHops) / (a - 1)
	}
	return 0
}

// Local reports whether every group lies inside one domain.
func (s Span) Local() bool { return s.DomainsMax <= 1 }

// RanksPerDomain is r of the time formulas: ranks of a group per domain that it touches, on average in the
// group that touches most. It is whole where groups and domains are aligned.
func (s Span) RanksPerDomain() float64 {
	if s.DomainsMax == 0 {
		return 0
	}
	return float64(s.Size) / float64(s.DomainsMax)
}

// worst merges another group of the same kind into s.
func (s Span) worst(t Span) Span {
	if s.Size == 0 {
		return t
	}
	s.DomainsMin, s.DomainsMax = min(s.DomainsMin, t.DomainsMin), max(s.DomainsMax, t.DomainsMax)
	s.RanksMin, s.RanksMax = min(s.RanksMin, t.RanksMin), max(s.RanksMax, t.RanksMax)
	s.SamePairs = min(s.SamePairs, t.SamePairs)
	s.RingEdges, s.ChainHops = max(s.RingEdges, t.RingEdges), max(s.ChainHops, t.ChainHops)
	return s
}

// tally counts one group whose ranks come in ascending order, in runs of ranks that share a domain.
type tally struct {
	domain, run int // the open run; run 0: none
	span        Span
}

// add says that n more ranks sit in a domain, which is the last one or a later one.
func (t *tally) add(domain, n int) {
	if t.run > 0 && domain == t.domain {
		t.run += n
		return
	}
	t.close()
	t.domain, t.run = domain, n
}

func (t *tally) close() {
	if t.run == 0 {
		return
	}
	s := &t.span
	if s.DomainsMax == 0 || t.run < s.RanksMin {
		s.RanksMin = t.run
	}
	s.RanksMax = max(s.RanksMax, t.run)
	s.DomainsMax++
	s.Size += t.run
	s.SamePairs += int64(t.run) * int64(t.run-1)
	t.run = 0
}

// done returns the finished group. Ascending ranks cross a border once per further domain, and once more on
// the way back.
func (t *tally) done() Span {
	t.close()
	s := t.span
	s.DomainsMin = s.DomainsMax
	if s.DomainsMax > 1 {
		s.RingEdges, s.ChainHops = s.DomainsMax, s.DomainsMax-1
	}
	return s
}
