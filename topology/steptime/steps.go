package steptime

// pipeline fills the PP row and returns the exposed hop time per micro-batch, s: a send and a receive each
// way between stages. Interleaved pipelines send VPP times as often and hide most of it (comm-model 1.7).
func (e *Estimator) pipeline(p *Price, k *task, m float64) float64 {
	if k.l.PP == 1 {
		return 0
	}
	bytes := k.own * e.shape.h * 2
	chunks := float64(k.l.VPP)
	sends := 2 * m * chunks // forward and backward
	row := &p.Communication[PP]
	row.Bytes = int64(sends * bytes)
	rate := e.link.p2pNVLink
	if !k.place.pp.local { // the hop between domains sets the pace
		rate = e.link.ringNIC
		row.Crossing = int64(sends * bytes * (k.place.pp.domains - 1) / float64(k.l.PP-1))
	}
	hop := 2 * (p2pLatency + bytes*rate)
	row.Seconds = m * chunks * hop
	if k.l.VPP > 1 {
		hop *= p2pVPP * chunks
	}
	return hop
}

// parameters are the elements one rank of a stage holds, by what its optimizer shards them over.
type parameters struct{ dense, expert float64 }

// params counts the large matrices of a stage on one rank: norms, biases and the router's small ones are
// below a thousandth.
func (e *Estimator) params(s *share, k *task) parameters {
	sh := &e.shape
	n := s.tables*sh.h*sh.vocab + s.mtp*2*sh.h*sh.h
	x := 0.0
	for kind := range contents {
		layers := s.layers[kind] + s.layers[kind|recomputedKind]
		if layers == 0 {
			continue
		}
		c := &contents[kind]
		if c.attention {
			n += layers * sh.projMAC
		}
		if c.linear {
			n += layers * sh.linear.params
		}
		if c.dense {
			n += layers * sh.mlp * sh.h * sh.ffn
		}
		if c.moe {
			n += layers * sh.mlp * sh.h * sh.shared
			if sh.latent() {
				n += layers * 2 * sh.h * sh.expertWidth
			}
			x += layers * sh.experts * sh.mlp * sh.expertWidth * sh.f
		}
	}
	return parameters{n / k.tp, x / float64(k.l.EP*k.l.ETP)}
}

// evenParams is the notes' rule: the model without MTP layers over PP.
func (e *Estimator) evenParams(k *task) parameters {
	s := share{tables: 2}
	s.layers[0] = float64(e.model.NumLayers - e.moeLayers)
	s.layers[moeKind] = float64(e.moeLayers)
	n := e.params(&s, k)
	pp := float64(k.l.PP)
	return parameters{n.dense / pp, n.expert / pp}
}

// reduction is the gradient reduce-scatter and parameter gather of one step: bytes elements are worth
// (comm-model 1.8). Dense parameters go over DP x CP, experts over EDP.
func (e *Estimator) reduction(k *task, n parameters) (dense, expert ring) {
	element := float64(e.run.GradBytes + e.run.ParamBytes)
	if !e.run.Corrections.HierarchicalDP {
		return e.flat(n.dense*element, k.place.dpcp), e.flat(n.expert*element, k.place.edp)
	}
	return e.twoLevel(n.dense*element, k.place.dpcp), e.twoLevel(n.expert*element, k.place.edp)
}

// reduceRates is the time of reduction per element, without latencies.
func (e *Estimator) reduceRates(k *task) (dense, expert float64) {
	const elements = 1 << 40 // enough for latency to vanish
	d, x := e.reduction(k, parameters{elements, elements})
	return d.seconds / elements, x.seconds / elements
}

// dataParallel fills the DP and EDP rows and their exposure.
func (e *Estimator) dataParallel(p *Price, k *task, n parameters, exposed *[NumAxes]float64) {
	share := 1.0
	if k.sw.OverlapDP {
		share = dpExposedFlat
		if e.run.Corrections.HierarchicalDP {
			share = dpExposedHierarchical
		}
	}
	dense, expert := e.reduction(k, n)
	fill := func(a Axis, r ring) {
		c := &p.Communication[a]
		c.Bytes, c.Crossing, c.Seconds = int64(r.bytes), int64(r.crossing), r.seconds
		exposed[a] = share * r.seconds
	}
	fill(DP, dense)
	fill(EDP, expert)
}

// optimizer is the time of the update of one rank's shard, and of the fixed tail of a step (comm-model 4.5).
func (e *Estimator) optimizer(shard float64) float64 {
	return shard*float64(e.run.OptimizerBytes)/(hbmAchieved*e.hw.hbm*1e9) + fixedTail
}
