package memmodel

// Padding of the parameter and gradient buffers under the distributed optimizer, in elements
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/optimizer/param_layout.py, pad_param_start and pad_bucket_end).
const (
	parameterAlignment = 64
	bucketAlignment    = 128
	busAlignment       = 1 << 16 // more with --ddp-pad-buckets-for-high-nccl-busbw
)

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

func lcm(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// bucketUnit is what a bucket's end is padded to.
func (s *shape) bucketUnit(shards int64) int64 {
	unit := lcm(shards, bucketAlignment)
	if s.run.PadBuckets {
		unit = lcm(unit, busAlignment)
	}
	return unit
}

// padded returns a chunk's elements with the padding of its buffers, one bucket per set: a chunk is cut into more only on
// the first stage and with overlapped gradient reduction, which adds at most one unit each. Without the distributed
// optimizer there is none.
func (s *shape) padded(k *chunk, e *Elements, p *partElements, tiedHead bool) (dense, expert int64) {
	if !s.run.DistributedOptimizer && !(s.run.LayerWise && s.run.LayerWiseLayout) || s.run.FSDP != NoFSDP {
		return e.Dense, e.Expert
	}
	unit := s.bucketUnit(s.denseShards)
	dense = e.alignedDense
	if s.m.TiedEmbeddings && s.l.PP > 1 && (k.embedding || k.loss) { // shared embeddings have their own bucket
		shared := int64(boolInt(k.embedding)) + int64(boolInt(k.loss && !tiedHead))
		dense -= shared * p.embedding.alignedDense
		dense = roundUp(dense, unit) + shared*roundUp(p.embedding.alignedDense, unit)
	} else {
		dense = roundUp(dense, unit)
	}
	return dense, roundUp(e.alignedExpert, s.bucketUnit(s.expertShards))
}

// parameterList lists what one chunk holds in the order in which the model registers it.
func (s *shape) parameterList(k *chunk, tiedHead bool) []Parameter {
	var out []Parameter
	c := parameters{list: &out}
	if k.embedding {
		c.add("embedding.word_embeddings.weight", s.vocab*s.h, 0)
		out[len(out)-1].Shared = s.m.TiedEmbeddings && s.l.PP > 1
		if s.m.LearnedPositions {
			c.add("embedding.position_embeddings.weight", int64(s.m.MaxPositionEmbeddings)*s.h, 0)
		}
	}
	for _, kind := range k.kinds {
		s.layerParameters(&c, kind)
	}
	if k.finalNorm {
		c.norm(s.m, "decoder.final_layernorm", s.h)
	}
	for range mtpWeights(s.m, k.mtp) {
		s.mtpParameters(&c)
		for _, kind := range k.mtpKinds {
			s.layerParameters(&c, kind)
		}
	}
	if k.loss && !tiedHead {
		c.add("output_layer.weight", s.vocab*s.h, 0)
		out[len(out)-1].Shared = s.m.TiedEmbeddings && s.l.PP > 1
	}
	return out
}
