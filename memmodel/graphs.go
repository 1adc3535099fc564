package memmodel

import "github.com/moeplan/moeplan/layout/arch"

// graphPools: each captured layer has static inputs and outputs for every micro-batch in flight, and what its captured part
// saves lies in a pool that eager memory does not reuse. Only the former is sure (memory-model.md 7.3); at most all that the
// pool saves is there beside the eager peak. Published is one figure: about 7 GB more for partial graphs of DeepSeek-V3 on GB200
// (ibid.). Captured whole, an iteration may need all its memory again.
func (s *shape) graphPools(c *class, f *figures) Span {
	g := s.run.Graphs
	if g == (Graphs{}) {
		return Span{}
	}
	live := func(chunk int) int64 { return 1 }
	if f.at.moment != nil {
		live = func(chunk int) int64 { return int64(f.at.moment.live[chunk]) }
	}
	var inFlight, layers, saved int64
	a := s.activations()
	for v := range c.chunks {
		k := &c.chunks[v]
		inFlight += live(v)
		layers += int64(len(k.kinds))
		for kind, n := range k.count {
			if n > 0 {
				saved += live(v) * int64(n) * s.captured(layerKind(kind), &a)
			}
		}
	}
	static := graphIO * s.w * s.ts * s.h * layers * max(1, inFlight/int64(len(c.chunks)))
	if g.FullIteration {
		return Span{static, f.peak()}
	}
	return Span{static, static + min(saved, f.at.activations)}
}

// captured is what the captured part of a layer saves for one micro-batch.
func (s *shape) captured(k layerKind, a *activations) (n int64) {
	g := s.run.Graphs.Modules
	switch k.mixer() {
	case arch.GQA, arch.MLAttention:
		if g&GraphAttention != 0 {
			n += a.mixers[k.mixer()].kept
		}
	case arch.MambaMixer, arch.GatedDeltaNet:
		if g&GraphMamba != 0 {
			n += a.mixers[k.mixer()].kept
		}
	}
	switch f := k.feedforward(); {
	case f == arch.DenseMLP && g&GraphMLP != 0, f == arch.MoEMLP && g&GraphMoE != 0:
		n += a.feedforwards[f].kept
	case f == arch.MoEMLP && g&(GraphRouter|GraphPreprocess) != 0:
		t := s.newTally()
		s.routed(&t)
		s.sharedExperts(&t) // they run before the router
		n += t.kept
	}
	return n
}
