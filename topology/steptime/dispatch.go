package steptime

import "github.com/moeplan/moeplan/layout"

// exchange is one dispatch or one combine of tokens between expert-parallel ranks, per rank.
type exchange struct {
	intra, inter float64 // bytes over NVLink and over the NIC
	seconds      float64

	gather ring // of the dispatched tokens over ETP, after it
}

// dispatch prices one operation over the ETP x EP group of n ranks (comm-model 1.2 to 1.4).
//
//	alltoall   one copy per token and expert, between the EP ranks of one ETP position; then each ETP group gathers
//	           what its members received (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/transformer/moe/token_dispatcher.py,
//	           MoEAlltoAllTokenDispatcher: expert_parallel all-to-all, then tp gather)
//	flex       one copy per token and destination rank inside a domain, one per destination domain across; the ETP
//	           peers of a destination are destinations too (the same file, routing map repeated over tp_size)
//	allgather  every token to every rank
//
// Links run concurrently, so the slower one decides.
func (e *Estimator) dispatch(k *task) exchange {
	n := k.l.EP * k.l.ETP
	if n == 1 {
		return exchange{}
	}
	g := &k.place.etpep
	size, inside, domains := float64(n), g.inside, g.domains
	token := k.own * e.shape.expertWidth * 2 * e.run.Imbalance
	experts, topK := int(e.shape.experts), int(e.shape.topK)
	expertTP := k.l.ETP > 1 && e.run.Corrections.ExpertTP

	var x exchange
	var nvlink, nic float64
	switch k.sw.Dispatcher {
	case layout.AllGather:
		r := e.twoLevel(k.own*size*e.shape.expertWidth*2, *g)
		return exchange{intra: r.bytes - r.crossing, inter: r.crossing, seconds: r.seconds}
	case layout.AllToAll:
		if expertTP { // peers of one ETP position: every ETP-th rank of the group
			size, inside = size/k.etp, max(1, inside/k.etp)
			x.gather = e.twoLevel(k.etp*token*e.shape.topK, k.place.etp)
		}
		x.intra = token * e.shape.topK * (inside - 1) / size
		x.inter = token * e.shape.topK * (size - inside) / size
		nvlink, nic = e.link.a2aNVLink, e.link.a2aNIC
	default:
		ranks := destinations(float64(k.l.EP), experts, topK)
		if e.run.Corrections.GroupLimit {
			ranks = e.limit.destinations(float64(k.l.EP), experts, topK, true)
		}
		across := e.limit.destinations(domains, experts, topK, e.run.Corrections.GroupLimit)
		nvlink, nic = e.link.deepEPNVLink, e.link.flexNIC
		if k.sw.Dispatcher == layout.HybridEP {
			nvlink = e.link.hybridEPNVLink
		}
		copies := k.etp
		if expertTP { // the same kernel, so no latency of its own
			copies = 1
			x.gather.bytes = token * ranks * (k.etp - 1)
			x.gather.seconds = x.gather.bytes * nvlink
			if !k.place.etp.local {
				x.gather.crossing, x.gather.seconds = x.gather.bytes, x.gather.bytes*nic
			}
		}
		x.intra = token * ranks * copies * (inside - 1) / inside
		x.inter = token * across * (domains - 1) / domains
	}
	x.seconds = max(x.intra*nvlink, x.inter*nic) + epLatency
	return x
}

// expertParallel adds a MoE layer's dispatches and combines: 2 forward, 2 backward, 2 more when the experts
// are computed again; and what hides under the other micro-batch with EP overlap (comm-model 1.4).
func (e *Estimator) expertParallel(k *task, t *layerTime, full bool) {
	t.dispatch = e.dispatch(k)
	t.exchanges = 4
	if full || k.l.Recompute.Has(layout.MoE) {
		t.exchanges = 6
	}
	ep, etp := t.exchanges*t.dispatch.seconds, t.exchanges*t.dispatch.gather.seconds
	if k.sw.EPOverlap && ep > 0 {
		share := epHidden
		if k.sw.DelayWgrad {
			share += epHiddenDelay
		}
		t.hidden = min(share*(ep+etp), epHiddenCap*t.compute)
		left := 1 - t.hidden/(ep+etp)
		ep, etp = ep*left, etp*left
	}
	t.exposed[EP], t.exposed[ETP] = ep, etp
}
