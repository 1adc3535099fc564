package memmodel

import "github.com/moeplan/moeplan/layout/arch"

// partBytes are the bytes of half a layer, its mixer or its feedforward, for one micro-batch.
type partBytes struct {
	kept, dropped, offloaded int64
	forward, backward        int64 // transients
}

// all is what the part saves without any recompute or offload.
func (b *partBytes) all() int64 { return b.kept + b.dropped + b.offloaded }

// activations are the bytes of one micro-batch on one layout: of each half of a layer, each MTP depth, and the head.
type activations struct {
	mixers       [numMixers]partBytes
	feedforwards [numFeedforwards]partBytes
	mtp          int64 // one MTP depth without its layers
	input        int64 // a layer's input alone: what full recompute keeps
}

func (a *activations) kept(k layerKind) int64 {
	return a.mixers[k.mixer()].kept + a.feedforwards[k.feedforward()].kept
}

func (a *activations) offloaded(k layerKind) int64 {
	return a.mixers[k.mixer()].offloaded + a.feedforwards[k.feedforward()].offloaded
}

func (a *activations) all(k layerKind) int64 {
	return a.mixers[k.mixer()].all() + a.feedforwards[k.feedforward()].all()
}

// work is the larger transient of a layer's passes.
func (a *activations) work(k layerKind) int64 {
	m, f := &a.mixers[k.mixer()], &a.feedforwards[k.feedforward()]
	return max(m.forward, m.backward, f.forward, f.backward)
}

func (s *shape) activations() activations {
	a := activations{input: s.w * s.ts * s.h}
	for _, mixer := range s.kinds.mixers {
		t := s.newTally()
		s.mixer(&t, mixer)
		a.mixers[mixer] = partBytes{t.kept, t.dropped, t.offloaded, s.mixerForward(mixer), s.mixerBackward(mixer)}
	}
	for _, f := range s.kinds.feedforwards {
		t := s.newTally()
		b := &a.feedforwards[f]
		switch f {
		case arch.DenseMLP:
			s.denseMLP(&t)
			b.forward, b.backward = s.sequenceGather(), s.denseBackward()
		case arch.MoEMLP:
			s.moeMLP(&t)
			b.forward, b.backward = s.moeForward(), s.moeBackward()
		}
		b.kept, b.dropped, b.offloaded = t.kept, t.dropped, t.offloaded
	}
	if s.m.MTPNumLayers > 0 {
		t := s.newTally()
		s.mtpLayer(&t)
		a.mtp = t.kept
	}
	return a
}

func (s *shape) mixer(t *tally, mixer arch.Mixer) {
	switch mixer {
	case arch.GQA, arch.MLAttention:
		s.attention(t)
	case arch.MambaMixer:
		s.mambaMixer(t)
	case arch.GatedDeltaNet:
		s.gatedDeltaNet(t)
	}
}

// peak is the worst moment of a stage.
type peak struct {
	activations int64 // saved tensors of every micro-batch in flight
	transient   int64
	moment      *moment
	host        int64 // offloaded tensors of every micro-batch in flight, at most
	moved       int64 // offloaded tensors of one micro-batch in all chunks
}

// extreme is the worst point of a pass through a chunk: how much of what the chunk saves is not there yet or not any
// more, and what the running layer needs beside the rest.
type extreme struct{ missing, transient int64 }

func (e *extreme) raise(missing, transient int64) {
	if transient-missing > e.transient-e.missing {
		e.missing, e.transient = missing, transient
	}
}

// chunkBytes is one micro-batch of a chunk: what it leaves saved, and the worst points of both passes.
type chunkBytes struct {
	saved, offloaded  int64
	forward, backward extreme
}

// stagePeak finds the worst moment of one class's schedule: at each step the tensors in flight, plus what the
// running layer needs beside them, at whichever layer that is largest.
func (s *shape) stagePeak(c *class, a *activations, gathered int64, steps []moment, chunks *[maxChunks]chunkBytes) peak {
	var resident int64 // offloaded tensors that are on the GPU all the same
	var p peak
	for v := range c.chunks {
		s.chunk(&chunks[v], &c.chunks[v], a)
		p.moved += chunks[v].offloaded
		if p.moved == 0 {
			continue
		}
		for i := range c.chunks[v].tails {
			resident = max(resident, offloadResidentGroups*a.offloaded(c.chunks[v].tails[i].kind))
		}
	}
	s.besides(c, a, gathered, chunks)
	best, at := int64(-1), -1
	for i := range steps {
		m := &steps[i]
		live := int64(0)
		for v, n := range m.live {
			live += int64(n) * chunks[v].saved
		}
		e := &chunks[m.chunk].forward
		if m.backward {
			e = &chunks[m.chunk].backward
		}
		if total := live - e.missing + e.transient; total > best {
			best, at = total, i
		}
	}
	if at < 0 {
		return p
	}
	p.moment = &steps[at]
	e := &chunks[p.moment.chunk].forward
	if p.moment.backward {
		e = &chunks[p.moment.chunk].backward
	}
	p.transient = e.transient
	p.activations = resident + best - e.transient
	if p.moved > 0 {
		p.host = mostOffloaded(steps, chunks)
	}
	return p
}

// besides adds to the worst points of each chunk's passes what lives beside its layers: the batch, what the schedule still
// holds, gathered weights, and the loss of a chunk that has it.
func (s *shape) besides(c *class, a *activations, gathered int64, chunks *[maxChunks]chunkBytes) {
	always := s.batchInputs(c) + s.deferredEmbedding(c) + gathered
	merged := s.overlapExtra(c, a)
	forward, backward := always+s.staleTensors(c, false), always+s.staleTensors(c, true)
	for v := range c.chunks {
		b := &chunks[v]
		b.forward.transient += forward + merged
		b.backward.transient += backward + merged
		if c.chunks[v].loss {
			head := s.head(int64(s.m.MTPNumLayers))
			b.forward.raise(-head.saved, forward+head.forward-head.saved)
			b.backward.raise(-head.saved, backward+head.backward-head.saved)
		}
	}
}

// mostOffloaded is the largest number of bytes that wait on the host.
func mostOffloaded(steps []moment, chunks *[maxChunks]chunkBytes) (most int64) {
	for i := range steps {
		var host int64
		for v, n := range steps[i].live {
			host += int64(n) * chunks[v].offloaded
		}
		most = max(most, host)
	}
	return most
}

// chunk fills in what one micro-batch of a chunk keeps in flight, the head aside (a head's forward and backward follow
// each other, so it never waits), and the worst points of its passes.
func (s *shape) chunk(b *chunkBytes, k *chunk, a *activations) {
	*b = chunkBytes{}
	if s.full {
		s.recomputedChunk(b, k, a)
	} else {
		for i := range k.tails {
			kind := k.tails[i].kind
			b.saved += int64(k.count[kind]) * a.kept(kind)
			b.offloaded += int64(k.count[kind]) * a.offloaded(kind)
		}
		s.hostLayers(b, k, a)
		for i := range k.tails {
			s.layerPeaks(b, &k.tails[i], a)
		}
	}
	if k.mtp > 0 {
		s.mtpChunk(b, k, a)
	}
	if k.input { // the mask is there before the first layer and after its backward (memory-findings.md C7)
		b.saved += s.dropoutMask()
	}
	if k.embedding {
		// At the end of the chunk's backward the embedding's gradient is made as a whole before it is added up.
		b.backward.raise(b.saved, s.w*s.vocab*s.h)
	}
	b.forward.raise(0, 0)
}

// layerPeaks considers the last layer of one kind: in the forward pass most of the chunk is saved by then, in the
// backward pass nothing in front of it is freed yet. Each half of the layer has its own moment.
func (s *shape) layerPeaks(b *chunkBytes, t *tail, a *activations) {
	behind := int64(0)
	for kind, n := range t.behind {
		if n > 0 {
			behind += int64(n) * a.kept(layerKind(kind))
		}
	}
	m, f := &a.mixers[t.kind.mixer()], &a.feedforwards[t.kind.feedforward()]
	b.forward.raise(behind+f.kept, m.forward)
	b.forward.raise(behind, f.forward)

	work := f.backward
	if s.recomputesExperts(t.kind) {
		work = max(work, f.forward)
	}
	b.backward.raise(behind, f.dropped+work)
	b.backward.raise(behind+f.kept, m.dropped+m.backward)
}

// mtpChunk adds MTP depths behind the decoder layers of a chunk.
func (s *shape) mtpChunk(b *chunkBytes, k *chunk, a *activations) {
	var layers, transient, back int64
	for _, kind := range k.mtpKinds {
		if s.full && !s.l.Recompute.Block { // MTP layers are checkpointed too, one by one
			layers += a.input
			back = max(back, a.all(kind)-a.input+a.work(kind))
		} else {
			layers += a.kept(kind) + a.offloaded(kind) // the last layers of a chunk stay on the GPU
			back = max(back, a.feedforwards[kind.feedforward()].backward)
		}
		transient = max(transient, a.feedforwards[kind.feedforward()].forward)
	}
	depths := k.mtp * (layers + a.mtp)
	b.forward.missing += depths
	b.backward.missing += depths
	b.saved += depths
	b.forward.raise(0, transient)
	b.backward.raise(0, max(transient, back))
}
