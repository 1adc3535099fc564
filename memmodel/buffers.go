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
	// Shared embeddings have their own bucket.
	if shared := int64(boolInt(k.embedding && s.sharedEmbedding())) + int64(boolInt(k.loss && !tiedHead && s.sharedHead(k))); shared > 0 {
		dense -= shared * p.embedding.alignedDense
		dense = roundUp(dense, unit) + shared*roundUp(p.embedding.alignedDense, unit)
	} else {
		dense = roundUp(dense, unit)
	}
	return dense, roundUp(e.alignedExpert, s.bucketUnit(s.expertShards))
}

// sharedEmbedding reports whether several stages keep a copy of the word embedding: with tied embeddings, and with MTP.
// sharedHead is the same of the output layer, which a chunk that holds an embedding too does not mark
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/models/common/language_module/language_module.py,
// shared_embedding_or_output_weight).
func (s *shape) sharedEmbedding() bool {
	return s.l.PP > 1 && (s.m.TiedEmbeddings || s.m.MTPNumLayers > 0)
}

func (s *shape) sharedHead(k *chunk) bool {
	return s.l.PP > 1 && s.m.TiedEmbeddings && !k.embedding
}

// Buffer is a contiguous parameter and gradient buffer of one chunk and one set of parameters, in elements.
type Buffer struct {
	Expert bool // routed experts' set
	Single bool // fp32 parameters
	// Shards is how many ranks share its optimizer state.
	Shards int64
	// Elements is its size with padding, ParameterElements that of its parameters.
	Elements, ParameterElements int64
	Buckets                     []Bucket
	// Parameters are in buffer order, the reverse of the model's.
	Parameters []PlacedParameter
}

// Bucket is the part of a buffer whose gradients are reduced together.
type Bucket struct{ Start, End int64 }

// PlacedParameter is a parameter with its place in a buffer.
type PlacedParameter struct {
	Parameter
	Start, End int64
}

// buffer lays out the parameters of one set (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/optimizer/distrib_optimizer.py,
// _compute_per_buffer_param_layout): starts aligned, bucket ends padded, shared embeddings in buckets of their own.
// Without the distributed optimizer nothing is padded.
func (s *shape) buffer(list []Parameter, expert, single bool, bucketElements int64) Buffer {
	b := Buffer{Expert: expert, Single: single, Shards: s.denseShards}
	if expert {
		b.Shards = s.expertShards
	}
	padded := s.run.DistributedOptimizer
	start, bucketStart := int64(0), int64(0)
	inBucket := 0
	closeBucket := func(end int64) {
		if padded {
			end = bucketStart + roundUp(end-bucketStart, s.bucketUnit(b.Shards))
		}
		b.Buckets = append(b.Buckets, Bucket{bucketStart, end})
		bucketStart, start, inBucket = end, end, 0
	}
	for i := len(list) - 1; i >= 0; i-- {
		p := list[i]
		if p.Expert != expert || p.single != single {
			continue
		}
		if padded {
			start = roundUp(start, parameterAlignment)
		}
		if p.Shared && inBucket > 0 {
			closeBucket(start)
		}
		end := start + p.Elements
		b.Parameters = append(b.Parameters, PlacedParameter{p, start, end})
		b.ParameterElements += p.Elements
		inBucket++
		start = end
		if p.Shared || bucketElements > 0 && end-bucketStart >= bucketElements {
			closeBucket(end)
		}
	}
	if inBucket > 0 {
		closeBucket(start)
	}
	b.Elements = bucketStart
	return b
}

// Share is how many parameter elements of the buffer one rank's optimizer owns: an even part of each bucket, padding
// aside.
func (b *Buffer) Share(rank int64) (n int64) {
	for _, k := range b.Buckets {
		part := (k.End - k.Start) / b.Shards
		from := k.Start + rank*part
		to := from + part
		for _, p := range b.Parameters {
			n += max(0, min(to, p.End)-max(from, p.Start))
		}
	}
	return n
}

// parameterList lists what one chunk holds in the order in which the model registers it.
func (s *shape) parameterList(k *chunk, tiedHead bool) []Parameter {
	var out []Parameter
	c := parameters{list: &out}
	if k.embedding {
		c.add("embedding.word_embeddings.weight", s.vocab*s.h, 0)
		out[len(out)-1].Shared = s.sharedEmbedding()
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
		s.mtpProjection(&c)
		for _, kind := range k.mtpKinds {
			s.layerParameters(&c, kind)
		}
		c.norm(s.m, "final_layernorm", s.h)
	}
	if k.loss && !tiedHead {
		c.add("output_layer.weight", s.vocab*s.h, 0)
		out[len(out)-1].Shared = s.sharedHead(k)
	}
	return out
}
