package steptime

import "github.com/moeplan/moeplan/layout"

// units are the prices of a layout's building blocks. It is large, hence the pointers.
type units struct {
	layer [numKinds]layerTime
	head  float64 // an output layer with its loss
	mtp   float64 // the projection of an MTP layer
}

func (e *Estimator) units(k *task, u *units) {
	u.head = e.head(k)
	if e.run.Corrections.ExactSplit && e.model.MTPNumLayers > 0 {
		u.mtp = e.mtpProjection(k) // the notes' model leaves it out
	}
	plain := !k.full || k.l.Recompute.Block
	for _, kind := range e.kinds {
		if plain {
			e.layer(k, &u.layer[kind], &contents[kind], false)
		}
		if k.full {
			e.layer(k, &u.layer[kind|recomputedKind], &contents[kind], true)
		}
	}
}

// share is what one pipeline rank holds: how many of each unit.
type share struct {
	rank    int
	layers  [numKinds]float64
	heads   float64 // output layers: one per loss and per MTP layer
	mtp     float64
	tables  float64 // vocabulary matrices: embedding, output layer, the embedding's copy for MTP
	scale   float64 // of its time
	seconds float64 // forward and backward of one micro-batch
}

func (s *share) price(u *units) {
	s.seconds = s.heads*u.head + s.mtp*u.mtp
	for kind, n := range s.layers {
		if n != 0 {
			s.seconds += n * u.layer[kind].total
		}
	}
	s.seconds *= s.scale
}

// startup is what one micro-batch takes longer without another one to overlap with.
func (s *share) startup(u *units) float64 {
	var sum float64
	for kind, n := range s.layers {
		sum += n * u.layer[kind].startup
	}
	return sum * s.scale
}

// add puts the layers of one cell on the rank.
func (e *Estimator) add(s *share, c layout.Cell, r layout.Recompute) {
	again := 0 // decoder layers recomputed as a whole
	if r.Granularity == layout.Full {
		again = c.Decoders
		if r.Block {
			again = min(again, r.NumLayers)
		}
	}
	rest := c.Decoders - again
	for _, kind := range e.kinds {
		s.layers[kind|recomputedKind] += e.count(kind, c.First, again)
		s.layers[kind] += e.count(kind, c.First+again, rest)
	}
	if c.MTP > 0 {
		n, kinds := float64(c.MTP), e.mtp
		if c.Decoders == 0 {
			kinds = e.mtpAlone
		}
		for _, kind := range kinds {
			if r.Granularity == layout.Full {
				kind |= recomputedKind
			}
			s.layers[kind] += n
		}
		s.mtp += n
		s.heads += n
		if !c.Embedding {
			s.tables++
		}
	}
	if c.Embedding {
		s.tables++
	}
	if c.Loss {
		s.heads++
		s.tables++
	}
}

// pipelineLoad is what the stages of a layout come to: the one that sets the pace, the parameters of the one
// whose collectives take longest, and the largest optimizer shard, elements.
type pipelineLoad struct {
	slowest share
	reduced parameters
	shard   float64
}

// load walks the pipeline ranks once.
func (e *Estimator) load(k *task, u *units) pipelineLoad {
	dense, expert := e.reduceRates(k)
	dp, edp := float64(k.l.DP()*k.l.CP), float64(k.l.EDP())
	if !e.run.Corrections.ExactSplit {
		n := e.evenParams(k)
		return pipelineLoad{e.evenSplit(k, u), n, n.dense/dp + n.expert/edp}
	}
	var out pipelineLoad
	longest := -1.0
	for rank := range k.l.PP {
		s := e.stage(k.l, rank)
		s.price(u)
		if rank == 0 || s.seconds > out.slowest.seconds {
			out.slowest = s
		}
		n := e.params(&s, k)
		if t := n.dense*dense + n.expert*expert; t > longest {
			longest, out.reduced = t, n
		}
		out.shard = max(out.shard, n.dense/dp+n.expert/edp)
	}
	return out
}

func (e *Estimator) stage(l *layout.Layout, rank int) share {
	s := share{rank: rank, scale: 1}
	for chunk := range l.VPP {
		e.add(&s, l.Split.Cell(rank, chunk), l.Recompute)
	}
	return s
}

// evenSplit is the notes' rule, without regard to the layout's split: one stage; else equal slots of layers,
// with embedding and loss as a slot each where L+2 divides; else the average times 1.04.
func (e *Estimator) evenSplit(k *task, u *units) share {
	l, pp := e.model.NumLayers, k.l.PP
	dense := l - e.moeLayers // they come first
	mtp := e.model.MTPNumLayers
	kind := 0
	if k.full {
		kind = recomputedKind
	}
	part := func(rank, layers, dense, mtp int, heads float64) share {
		s := share{rank: rank, heads: heads, scale: 1}
		s.layers[kind] = float64(dense)
		s.layers[kind|moeKind] = float64(layers - dense + mtp)
		s.price(u)
		return s
	}
	if pp == 1 {
		return part(0, l, dense, mtp, float64(1+mtp))
	}
	if mtp > 0 || l%pp != 0 && (l+2)%pp != 0 {
		s := part(pp-1, l, dense, mtp, float64(1+mtp))
		s.scale = averageImbalance / float64(pp)
		s.price(u)
		return s
	}
	slots, outer := l/pp, 0
	if (l+2)%pp == 0 {
		slots, outer = (l+2)/pp, 1
	}
	rest := 0
	if e.moeLayers == 0 {
		rest = slots // a dense model has dense layers everywhere
	}
	worst := part(0, slots-outer, min(slots-outer, dense), 0, 0)
	if pp > 2 {
		if s := part(1, slots, rest, 0, 0); s.seconds > worst.seconds {
			worst = s
		}
	}
	if s := part(pp-1, slots-outer, min(rest, slots-outer), 0, 1); s.seconds > worst.seconds {
		worst = s
	}
	return worst
}

// stageParts turns the slowest stage's micro-batches into the parts of the price.
func (e *Estimator) stageParts(p *Price, u *units, s *share, m float64, exposed *[NumAxes]float64) {
	p.Compute = m * s.scale * (s.heads*u.head + s.mtp*u.mtp)
	var bytes, crossing [NumAxes]float64
	count := func(a Axis, times, all, out, seconds float64) {
		bytes[a] += times * all
		crossing[a] += times * out
		p.Communication[a].Seconds += times * seconds
	}
	for kind := range u.layer {
		t, n := &u.layer[kind], m*s.scale*s.layers[kind]
		if n == 0 {
			continue
		}
		p.Compute += n * t.compute
		p.Host += n * t.host
		for a, x := range t.exposed {
			exposed[a] += n * x
		}
		count(TP, n*t.tpOps, t.tp.bytes, t.tp.crossing, t.tp.seconds*tpExposed)
		count(CP, n, t.cp.bytes, t.cp.crossing, t.cp.seconds)
		x := &t.dispatch
		count(EP, n*t.exchanges, x.intra+x.inter, x.inter, x.seconds)
		count(ETP, n*t.exchanges, x.gather.bytes, x.gather.crossing, x.gather.seconds)
	}
	for a := range bytes {
		p.Communication[a].Bytes = int64(bytes[a])
		p.Communication[a].Crossing = int64(crossing[a])
	}
}
