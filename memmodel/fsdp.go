package memmodel

// fsdpState prices Megatron-FSDP (memory-model.md 2.5, memory-findings.md C14): main gradients and main parameters are
// fp32, weights 2 bytes, each sharded or not by the strategy. Dense parameters shard over DP*CP, experts over EDP.
func (s *shape) fsdpState(h *held, gradient, perElement int64) state {
	weights := func(n, shards int64) int64 { return s.w * n }
	gradients := func(n, shards int64) int64 { return gradient * n }
	optimizer := func(n, shards int64) int64 { return perElement * ceilDiv(n, shards) }
	switch s.run.FSDP {
	case ShardNothing:
		optimizer = func(n, shards int64) int64 { return perElement * n }
	case ShardOptimizerGradients:
		gradients = func(n, shards int64) int64 { return gradient * ceilDiv(n, shards) }
	case ShardAll:
		weights = func(n, shards int64) int64 { return s.w * ceilDiv(n, shards) }
		gradients = func(n, shards int64) int64 { return gradient * ceilDiv(n, shards) }
	}
	var st state
	d, e := h.e.Dense, h.e.Expert
	st.weights = weights(d, s.denseShards) + weights(e, s.expertShards)
	st.gradients = gradients(d, s.denseShards) + gradients(e, s.expertShards)
	st.optimizer = optimizer(d, s.denseShards) + optimizer(e, s.expertShards)
	st.expert = weights(e, s.expertShards) + gradients(e, s.expertShards) + optimizer(e, s.expertShards)
	st.dense = st.weights + st.gradients + st.optimizer - st.expert
	return st
}

// fsdpUnits is how many units (layers) of unsharded weights are resident while one runs: itself and the prefetched next
// (memory-findings.md C14).
const fsdpUnits = 2

// gatheredWeights are the unsharded weights beside the shards: the parts that belong to no unit (embedding, output layer,
// final norm) and two units. With double buffers the units' weights and gradients stay allocated.
func (s *shape) gatheredWeights(c *class, p *partElements) (gathered, persistent int64) {
	if s.run.FSDP != ShardAll {
		return 0, 0
	}
	var unit, all, units int64
	for v := range c.chunks {
		k := &c.chunks[v]
		e := k.elements(s.m, p, c.tiedHead)
		all += e.Total()
		for i := range k.tails {
			kind := k.tails[i].kind
			unit = max(unit, p.kinds[kind].Total())
			units += int64(k.count[kind]) * p.kinds[kind].Total()
		}
	}
	gathered = s.w * (all - units)
	if s.run.DoubleBuffer {
		return gathered, fsdpUnits * unit * (s.w + s.gradientBytes())
	}
	return gathered + s.w*fsdpUnits*unit, 0
}
