package memmodel

import "github.com/moeplan/moeplan/layout"

// recomputesExperts reports whether the whole MoE layer is made again in its backward pass.
func (s *shape) recomputesExperts(k layerKind) bool { return k.moe() && s.modules.Has(layout.MoE) }

// recomputedChunk is a chunk under full recompute (memory-model.md 4). Uniform: one stored input per n layers, and while
// a group runs backward all that its layers save. Block: the first n layers of the chunk store their input only, the
// rest all they save.
func (s *shape) recomputedChunk(b *chunkBytes, k *chunk, a *activations) {
	n := max(s.l.Recompute.NumLayers, 1)
	if s.l.Recompute.Block {
		s.blockChunk(b, k, a, min(max(0, s.l.Recompute.NumLayers), len(k.kinds)))
		return
	}
	b.saved = ceilDiv(int64(len(k.kinds)), int64(n)) * a.input
	missing := int64(0) // stored inputs of the groups behind
	for end := len(k.kinds); end > 0; {
		start := (end - 1) / n * n
		var group, work int64
		for _, kind := range k.kinds[start:end] {
			group += a.all(kind)
			work = max(work, a.work(kind))
			f := &a.feedforwards[kind.feedforward()]
			b.forward.raise(missing, max(f.forward, a.mixers[kind.mixer()].forward))
		}
		b.backward.raise(missing, group-a.input+work)
		missing += a.input
		end = start
	}
}

func (s *shape) blockChunk(b *chunkBytes, k *chunk, a *activations, recomputed int) {
	for _, kind := range k.kinds[recomputed:] {
		b.saved += a.kept(kind)
		b.offloaded += a.offloaded(kind)
	}
	b.saved += int64(recomputed) * a.input
	missing := int64(0)
	for i := len(k.kinds) - 1; i >= 0; i-- {
		kind := k.kinds[i]
		m, f := &a.mixers[kind.mixer()], &a.feedforwards[kind.feedforward()]
		if i < recomputed {
			b.forward.raise(missing, max(f.forward, m.forward))
			b.backward.raise(missing, a.all(kind)-a.input+a.work(kind))
			missing += a.input
			continue
		}
		b.forward.raise(missing+f.kept, m.forward)
		b.forward.raise(missing, f.forward)
		b.backward.raise(missing, f.backward)
		b.backward.raise(missing+f.kept, m.backward)
		missing += a.kept(kind)
	}
}

// hostLayers moves what the first layers of the model save to the host under --cpu-offloading-num-layers; one layer's
// worth is on its way at any time (memory-model.md 5.2).
func (s *shape) hostLayers(b *chunkBytes, k *chunk, a *activations) {
	n := s.run.Offload.Layers
	if n == 0 || s.l.PP > 1 {
		return
	}
	var moved, largest int64
	for _, kind := range k.kinds[:min(n, len(k.kinds))] {
		moved += a.kept(kind)
		largest = max(largest, a.kept(kind))
	}
	b.saved -= moved - largest
	b.offloaded += moved
}
