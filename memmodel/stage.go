package memmodel

import "github.com/moeplan/moeplan/layout"

// layerBytes are the bytes of one decoder layer of one kind for one micro-batch.
type layerBytes struct {
	attentionKept, attentionDropped     int64
	feedforwardKept, feedforwardDropped int64
	forward, feedforwardBackward        int64 // transients
	attentionBackward                   int64
}

func (b *layerBytes) kept() int64 { return b.attentionKept + b.feedforwardKept }

// full is what the layer saves without any recompute.
func (b *layerBytes) full() int64 {
	return b.kept() + b.attentionDropped + b.feedforwardDropped
}

// activations are the bytes of one micro-batch on one layout: per layer kind, per MTP depth, for the head.
type activations struct {
	dense, moe layerBytes
	mtp        int64 // one depth, all it saves
	mtpForward int64 // its transient
	input      int64 // a layer's input alone: what full recompute keeps
}

func (s *shape) activations() activations {
	a := activations{input: w * s.ts * s.h}
	var attention tally
	attention.modules = s.modules
	s.attention(&attention)
	a.dense = layerBytes{attentionKept: attention.kept, attentionDropped: attention.dropped,
		attentionBackward: s.attentionBackward()}
	a.moe = a.dense

	mlp := tally{modules: s.modules}
	s.denseMLP(&mlp)
	a.dense.feedforwardKept, a.dense.feedforwardDropped = mlp.kept, mlp.dropped
	a.dense.forward, a.dense.feedforwardBackward = s.sequenceGather(), s.denseBackward()

	last := &a.dense
	if s.m.MoE != nil {
		moe := tally{modules: s.modules}
		s.moeMLP(&moe)
		a.moe.feedforwardKept, a.moe.feedforwardDropped = moe.kept, moe.dropped
		a.moe.forward, a.moe.feedforwardBackward = s.moeForward(), s.moeBackward()
		if s.mtpMoE {
			last = &a.moe
		}
	}
	if s.m.MTPNumLayers > 0 {
		mtp := tally{kept: last.kept()}
		s.mtpLayer(&mtp)
		a.mtp, a.mtpForward = mtp.kept, last.forward
	}
	return a
}

// peak is the worst moment of a stage.
type peak struct {
	activations int64 // saved tensors of every micro-batch in flight
	transient   int64
	moment      *moment
}

func (p *peak) raise(activations, transient int64, at *moment) {
	if activations+transient > p.activations+p.transient {
		*p = peak{activations, transient, at}
	}
}

// stagePeak finds the worst moment of one class's schedule: at each step the tensors in flight, plus what the
// running layer needs beside them, at whichever layer that is largest.
func (s *shape) stagePeak(c *class, a *activations, steps []moment) peak {
	var saved [maxChunks]int64
	for v := range c.chunks {
		saved[v] = s.chunkSaved(&c.chunks[v], a)
	}
	head := headBytes{}
	if c.loss {
		head = s.head(int64(s.m.MTPNumLayers))
	}
	inputs := s.batchInputs(c)
	var p peak
	for i := range steps {
		at := &steps[i]
		var live int64
		for v, n := range at.live {
			live += int64(n) * saved[v]
		}
		k := &c.chunks[at.chunk]
		stale := s.staleTensors(c, at.backward) + inputs
		if at.backward {
			s.backwardPeak(&p, k, a, live, stale, at)
			if k.loss {
				p.raise(live+head.saved, stale+head.backward-head.saved, at)
			}
			continue
		}
		s.forwardPeak(&p, k, a, live, stale, at)
		if k.loss {
			p.raise(live+head.saved, stale+head.forward-head.saved, at)
		}
	}
	return p
}

// forwardPeak considers the last layer of each kind of a chunk, where most of the chunk is saved already.
func (s *shape) forwardPeak(p *peak, k *chunk, a *activations, live, stale int64, at *moment) {
	if k.mtp > 0 {
		p.raise(live, stale+a.mtpForward, at)
	}
	live -= k.mtp * a.mtp
	dense, moe := s.layerSaved(&a.dense, a), s.layerSaved(&a.moe, a)
	if k.moe > 0 {
		p.raise(live-k.denseAfterMoE*dense, stale+a.moe.forward, at)
	}
	if k.dense > 0 {
		p.raise(live-k.moeAfterDense*moe, stale+a.dense.forward, at)
	}
	p.raise(live, stale, at)
}

// backwardPeak walks the chunk from its end: the layers behind the last of each kind are freed when it runs.
func (s *shape) backwardPeak(p *peak, k *chunk, a *activations, live, stale int64, at *moment) {
	if k.mtp > 0 {
		p.raise(live, stale+a.mtpForward, at)
	}
	live -= k.mtp * a.mtp
	dense, moe := s.layerSaved(&a.dense, a), s.layerSaved(&a.moe, a)
	if k.moe > 0 {
		s.layerBackward(p, &a.moe, a, live-k.denseAfterMoE*dense, stale, at)
	}
	if k.dense > 0 {
		s.layerBackward(p, &a.dense, a, live-k.moeAfterDense*moe, stale, at)
	}
}

// layerBackward considers the two halves of a layer's backward: its feedforward, with what recompute makes
// again for it, then its attention, when the feedforward's tensors are gone.
func (s *shape) layerBackward(p *peak, b *layerBytes, a *activations, live, stale int64, at *moment) {
	if s.full {
		// The whole checkpoint is run forward again, then back.
		n := int64(max(s.l.Recompute.NumLayers, 1))
		if s.l.Recompute.Block {
			n = 1
		}
		p.raise(live, stale+n*b.full()-a.input+max(b.forward, b.feedforwardBackward), at)
		return
	}
	work := b.feedforwardBackward
	if s.modules.Has(layout.MoE) {
		work = max(work, b.forward)
	}
	p.raise(live, stale+b.feedforwardDropped+work, at)
	p.raise(live-b.feedforwardKept, stale+b.attentionDropped+b.attentionBackward, at)
}

// layerSaved is what one layer keeps in flight.
func (s *shape) layerSaved(b *layerBytes, a *activations) int64 {
	if s.full {
		return a.input
	}
	return b.kept()
}

// chunkSaved is what one micro-batch of a chunk keeps in flight, the head aside: a head's forward and backward
// follow each other, so it never waits.
func (s *shape) chunkSaved(k *chunk, a *activations) int64 {
	extra := k.mtp * a.mtp
	if !s.full {
		return k.dense*a.dense.kept() + k.moe*a.moe.kept() + extra
	}
	n := int64(max(s.l.Recompute.NumLayers, 1))
	if !s.l.Recompute.Block { // uniform: one stored input per n layers; MTP layers are checkpointed too
		extra = k.mtp * a.input
		return ceilDiv(k.layers, n)*a.input + extra
	}
	// block: the first n layers of every chunk store their input only. Which kinds those are is not known
	// here, so the larger kind is taken to stay.
	stored := min(n, k.layers)
	rest := k.layers - stored
	moe := min(k.moe, rest)
	return stored*a.input + moe*a.moe.kept() + (rest-moe)*a.dense.kept() + extra
}

// batchInputs are the batch's own tensors, on stages that read data: ids, labels, positions and loss mask, and the
// attention mask if the loader makes one (memory-findings.md C8).
func (s *shape) batchInputs(c *class) int64 {
	if !c.embedding && !c.loss {
		return 0
	}
	n := tokenInputBytes * s.t
	if s.run.CausalMask {
		n += int64(s.l.MicroBatchSize) * int64(s.l.SeqLength) * int64(s.l.SeqLength)
	}
	return n
}

// staleTensors are what the schedule's own variables still hold (memory-findings.md C3): on stages that receive
// an input, the previous input and its gradient in a forward, one of them in a backward, and a prefetched third
// when interleaving overlaps communication. The first stage holds the previous output's gradient in a forward
// (memory-model.md 3.7).
func (s *shape) staleTensors(c *class, backward bool) int64 {
	one := w * s.ts * s.h
	switch {
	case s.l.PP == 1:
		return 0
	case c.rank == 0:
		if backward {
			return 0
		}
		return one
	case s.l.VPP > 1:
		return 3 * one
	case backward:
		return one
	}
	return 2 * one
}

// residualTensors stay allocated between steps: on stages that receive an input, each chunk's input tensor and
// its gradient (memory-findings.md C2).
func (s *shape) residualTensors(c *class) int64 {
	if c.rank == 0 {
		return 0
	}
	return 2 * w * s.ts * s.h * int64(s.l.VPP)
}
