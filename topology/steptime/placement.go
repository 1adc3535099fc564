package steptime

import (
	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/topology"
)

// group is how the groups of one axis lie over NVLink domains.
type group struct {
	n       int
	inside  float64 // r: ranks of a group that share a domain
	domains float64 // nd: domains that a group spans
	local   bool    // no group leaves its domain
}

// placement holds the groups that communicate. The attention mesh is tp, cp, dp, pp, the MoE mesh etp, ep, edp,
// pp, over the same ranks (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/parallel_state.py RankGenerator).
type placement struct {
	tp, cp, dpcp, pp group
	etp, etpep, edp  group
}

// place lays a layout's groups over domains; ok is false for rank orders that have no closed form.
func (e *Estimator) place(l *layout.Layout) (p placement, ok bool) {
	if !e.run.Corrections.AlignedDomains {
		return e.placeByStride(l), l.RankOrder() == folding.DefaultOrder
	}
	ranks := topology.UsableDomain(e.hw.domain, e.hw.node, l.TP, l.ETP*l.EP, l.TP*l.CP, l.World/l.PP)
	s, ok := topology.SpansOf(l.Degrees, l.Order, ranks)
	if !ok {
		return placement{}, false
	}
	of := func(s topology.Span) group {
		return group{s.Size, s.RanksPerDomain(), float64(s.DomainsMax), s.Local()}
	}
	return placement{
		tp: of(s.TP), cp: of(s.CP), dpcp: of(s.DPCP), pp: of(s.PP),
		etp: of(s.ETP), etpep: of(s.ETPEP), edp: of(s.EDP),
	}, true
}

// placeByStride is the notes' closed form (comm-model 2.2) for the default rank order, with its rounding.
func (e *Estimator) placeByStride(l *layout.Layout) placement {
	of := func(n, stride int) group {
		r := min(n, max(1, e.hw.domain/stride))
		return group{n, float64(r), float64(max(1, n/r)), n*stride <= e.hw.domain}
	}
	return placement{
		tp: of(l.TP, 1), cp: of(l.CP, l.TP), dpcp: of(l.DP()*l.CP, l.TP), pp: of(l.PP, l.World/l.PP),
		etp: of(l.ETP, 1), etpep: of(l.ETP*l.EP, 1), edp: of(l.EDP(), l.ETP*l.EP),
	}
}

// ring is one all-gather or reduce-scatter of a full buffer.
type ring struct {
	seconds         float64
	bytes, crossing float64 // that leave one rank, and the part of them that leaves the domain
}

// twoLevel gathers inside domains at NVLink speed and between them over the rails of all r members:
// S (r-1)/r / NVLink + S (nd-1)/(nd r) / NIC with nd = n/r (comm-model 2.3). With r = n it is one ring.
func (e *Estimator) twoLevel(buffer float64, g group) ring {
	if g.n <= 1 {
		return ring{}
	}
	n := float64(g.n)
	out := ring{bytes: buffer * (n - 1) / n, crossing: buffer * (1/g.inside - 1/n)}
	if g.local {
		out.crossing = 0
	}
	out.seconds = (out.bytes-out.crossing)*e.link.ringNVLink + out.crossing*e.link.ringNIC + ringLatency
	return out
}

// flat is the notes' pessimistic form for a group over several domains: everything at the speed of one NIC.
func (e *Estimator) flat(buffer float64, g group) ring {
	out := e.twoLevel(buffer, g)
	if g.n > 1 && !g.local {
		out.seconds = out.bytes*e.link.ringNIC + ringLatency
	}
	return out
}

// links are s per byte of each kind of traffic; 0 where the platform has no such link.
type links struct {
	ringNVLink, ringNIC float64
	a2aNVLink, a2aNIC   float64
	deepEPNVLink        float64
	hybridEPNVLink      float64
	flexNIC             float64
	p2pNVLink           float64
}

func linksOf(h *hardware) links {
	var l links
	if h.nvlink > 0 {
		nvlink := 1 / (h.nvlink * 1e9)
		l.ringNVLink, l.p2pNVLink = nvlink/ringNVLink, nvlink/p2pNVLink
		l.a2aNVLink, l.deepEPNVLink, l.hybridEPNVLink = nvlink/a2aNVLink, nvlink/deepEPNVLink, nvlink/hybridEPNVLink
	}
	if h.nic > 0 {
		nic := 1 / (h.nic * 1e9)
		l.ringNIC, l.a2aNIC, l.flexNIC = nic/ringNIC, nic/a2aNIC, nic/flexNIC
	}
	return l
}
