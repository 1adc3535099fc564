package steptime

import "github.com/moeplan/moeplan/layout"

// Pass is the time of one pass of a micro-batch through one chunk.
type Pass struct {
	Seconds float64
	// Exposed is the communication in it that nothing hides, pipeline hops aside.
	Exposed float64
}

// Chunk is both passes of one chunk.
type Chunk struct{ Forward, Backward Pass }

// Passes are the times of a layout's passes, s: what [Price] adds up, chunk by chunk.
type Passes struct {
	Chunks [][]Chunk // by pipeline rank and chunk
	// Hop is what a rank waits, after each of its passes, to send what it made and to receive what it needs next.
	Hop float64
	// Startup is what the first forward and the last backward pass of a step take longer, together, because no other
	// micro-batch hides their expert communication; 0 without EP overlap.
	Startup float64
	// Reduce is the exposed part of reducing gradients and gathering parameters, Optimizer that of the update; the ends
	// of the step, for the stage that takes longest.
	Reduce, Optimizer float64
}

// Passes returns the times of a layout's passes, all ranks of a split as it stands; false where Price knows none.
func (e *Estimator) Passes(l *layout.Layout, sw Software) (Passes, bool) {
	p := e.Price(l, sw)
	place, ok := e.place(l)
	if !p.Known || !ok || !e.covers(l) {
		return Passes{}, false
	}
	k := e.task(l, sw, place)
	var u units
	e.units(&k, &u)
	worst := e.load(&k, &u).slowest
	out := Passes{
		Hop:    p.Communication[PP].Exposed / float64(2*l.NumMicrobatches()*l.VPP),
		Reduce: p.Communication[DP].Exposed + p.Communication[EDP].Exposed, Optimizer: p.Optimizer,
		Chunks: make([][]Chunk, l.PP),
	}
	out.Startup = e.startup(l, sw, &worst, &u, p.Communication[PP].Exposed/float64(p.Microbatches))
	for rank := range out.Chunks {
		out.Chunks[rank] = make([]Chunk, l.VPP)
		for v := range l.VPP {
			s := share{rank: rank, scale: 1}
			e.add(&s, l.Split.Cell(rank, v), l.Recompute)
			out.Chunks[rank][v] = s.passes(&k, &u)
		}
	}
	return out, true
}

// passes divides what a share takes into forward and backward. Output layers and projections are three passes over their
// matrices, of which forward is one.
func (s *share) passes(k *task, u *units) Chunk {
	var c Chunk
	rest := s.heads*u.head + s.mtp*u.mtp
	c.Forward.Seconds, c.Backward.Seconds = rest/3, rest*2/3
	for kind, n := range s.layers {
		if n == 0 {
			continue
		}
		t := &u.layer[kind]
		forward, exposed := t.forward(k, kind&recomputedKind != 0)
		c.Forward.add(n, forward*t.total, exposed)
		all := 0.0
		for _, x := range t.exposed {
			all += x
		}
		c.Backward.add(n, (1-forward)*t.total, all-exposed)
	}
	return c
}

func (p *Pass) add(n, seconds, exposed float64) {
	p.Seconds += n * seconds
	p.Exposed += n * exposed
}

// forward is the forward pass's share of a layer's time, and its exposed communication, s. Kernels as layer adds them up;
// of communication, by how often each collective runs (tensorParallel, contextParallel, linearExchange, expertParallel). What the host
// adds is shared out alike.
func (t *layerTime) forward(k *task, full bool) (part, exposed float64) {
	compute := t.proj + t.attnMemory + t.mlp + t.shared + t.ffnMem + t.core + t.scan + t.experts
	ops, first := 5.0, 2.0
	if !k.l.SequenceParallel {
		ops = 4
	}
	rounds := 3.0
	if t.scan > 0 { // a linear mixer exchanges once in each direction (linearExchange)
		rounds = 2
	}
	if full {
		ops, rounds = ops+2, rounds+1
	}
	exposed = t.exposed[TP]*first/ops + t.exposed[CP]/rounds
	if t.exchanges > 0 {
		exposed += (t.exposed[EP] + t.exposed[ETP]) * 2 / t.exchanges
	}
	device := t.compute
	for _, x := range t.exposed {
		device += x
	}
	return (compute + exposed) / device, exposed
}
