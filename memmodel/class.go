package memmodel

import (
	"slices"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// class is what one pipeline rank holds. Ranks of equal class differ only in how many micro-batches they have
// in flight, and the lowest of them has the most: a search prices that one alone.
type class struct {
	rank      int // the lowest of its class
	last      bool
	count     [numKinds]int32 // decoder and MTP layers of each kind
	mtp       int64           // MTP depths
	embedding int64           // word embeddings (first chunk, and any chunk with MTP)
	loss      bool            // final norm, output layer, loss
	finalNorm bool
	tiedHead  bool // the output layer is the embedding of this rank itself
	chunks    []chunk
	// copies is how many tensors of the residual stream one input of the loss holds: with MTP on another stage, one
	// more per depth.
	copies int64

	muon map[muonKey]muonBytes // what a Muon optimizer keeps, by sharding, as far as it was asked for
}

// chunk is the layers of one model chunk, as far as memory tells them apart.
type chunk struct {
	kinds []layerKind // decoder layers in order
	count [numKinds]int32
	tails []tail // each kind once
	// bf16Start and bf16End are how many of its first and last layers --first-last-layers-bf16 leaves in bf16.
	bf16Start, bf16End int
	mtp                int64
	mtpKinds           []layerKind // layers of one MTP depth here
	input              bool        // the model's: its embedding, with dropout behind it
	embedding          bool        // the model's or an MTP layer's
	loss               bool
	finalNorm          bool
}

// tail is the last layer of one kind in a chunk, with what stands behind it.
type tail struct {
	kind   layerKind
	behind [numKinds]int32
}

// has reports whether some layer of the rank is of a kind that ok accepts.
func (c *class) has(ok func(layerKind) bool) bool {
	for k, n := range c.count {
		if n > 0 && ok(layerKind(k)) {
			return true
		}
	}
	return false
}

func (c *class) hasMixer(mixer arch.Mixer) bool {
	return c.has(func(k layerKind) bool { return k.mixer() == mixer })
}

func (c *class) hasFeedforward(f arch.Feedforward) bool {
	return c.has(func(k layerKind) bool { return k.feedforward() == f })
}

// splitClasses is a pipeline split as the estimator sees it.
type splitClasses struct {
	classes []class // one per distinct kind of rank, by lowest rank
	ofRank  []int   // class of each rank
}

// classify groups the ranks of a split.
func classify(m *arch.Model, run *Run, kinds *modelKinds, split *layout.Split) *splitClasses {
	out := &splitClasses{ofRank: make([]int, split.PP)}
	for r := range split.PP {
		c := classOf(m, run, kinds, split, r)
		out.ofRank[r] = slices.IndexFunc(out.classes, func(o class) bool { return o.equal(&c) })
		if out.ofRank[r] < 0 {
			out.ofRank[r] = len(out.classes)
			out.classes = append(out.classes, c)
		}
	}
	return out
}

func classOf(m *arch.Model, run *Run, kinds *modelKinds, split *layout.Split, rank int) class {
	c := class{rank: rank, last: rank == split.PP-1, chunks: make([]chunk, split.VPP), copies: 1}
	for v := range split.VPP {
		k := chunkOf(m, run, kinds, split.Cell(rank, v))
		for kind, n := range k.count {
			c.count[kind] += n
		}
		for _, kind := range k.mtpKinds {
			c.count[kind] += int32(mtpWeights(m, k.mtp))
		}
		c.mtp += k.mtp
		c.embedding += int64(boolInt(k.embedding))
		c.loss = c.loss || k.loss
		c.finalNorm = c.finalNorm || k.finalNorm
		if k.loss && k.mtp == 0 {
			c.copies += int64(m.MTPNumLayers)
		}
		c.chunks[v] = k
	}
	c.tiedHead = m.TiedEmbeddings && split.PP == 1
	return c
}

func chunkOf(m *arch.Model, run *Run, kinds *modelKinds, cell layout.Cell) chunk {
	k := chunk{mtp: int64(cell.MTP), loss: cell.Loss, input: cell.Embedding,
		embedding: cell.Embedding || cell.MTP > 0,
		kinds:     kinds.layers[cell.First : cell.First+cell.Decoders]}
	k.bf16Start = min(max(0, run.BF16LayersAtStart-cell.First), cell.Decoders)
	behind := m.NumLayers - cell.First - cell.Decoders
	k.bf16End = min(max(0, run.BF16LayersAtEnd-behind), cell.Decoders)
	for _, kind := range k.kinds {
		k.count[kind]++
		for i := range k.tails {
			k.tails[i].behind[kind]++
		}
		k.tails = slices.DeleteFunc(k.tails, func(t tail) bool { return t.kind == kind })
		k.tails = append(k.tails, tail{kind: kind})
	}
	if k.mtp > 0 {
		k.mtpKinds = kinds.mtp
		if cell.Decoders == 0 {
			k.mtpKinds = kinds.mtpAlone
		}
	}
	// With MTP the final norm sits behind decoder layer L, else before the output layer
	// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/transformer/transformer_block.py:399-426).
	if m.MTPNumLayers > 0 {
		k.finalNorm = cell.Decoders > 0 && cell.First+cell.Decoders == m.NumLayers
	} else {
		k.finalNorm = cell.Loss
	}
	return k
}

// mtpWeights is how many sets of weights serve so many MTP depths: one where the layer is repeated
// (--mtp-use-repeated-layer).
func mtpWeights(m *arch.Model, depths int64) int64 {
	if m.MTPRepeatedLayer {
		return min(1, depths)
	}
	return depths
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// equal ignores where in the model the layers sit, but for the ends that compute in bf16.
func (c *class) equal(o *class) bool {
	// The first stage receives no input tensor, so it is a class of its own.
	if (c.rank == 0) != (o.rank == 0) || c.embedding != o.embedding || c.loss != o.loss ||
		c.finalNorm != o.finalNorm || c.mtp != o.mtp || len(c.chunks) != len(o.chunks) {
		return false
	}
	for i := range c.chunks {
		a, b := &c.chunks[i], &o.chunks[i]
		if a.bf16Start != b.bf16Start || a.bf16End != b.bf16End || a.mtp != b.mtp || a.loss != b.loss || a.input != b.input || a.embedding != b.embedding || a.finalNorm != b.finalNorm ||
			!slices.Equal(a.kinds, b.kinds) || !slices.Equal(a.mtpKinds, b.mtpKinds) {
			return false
		}
	}
	return true
}

// elements returns the parameters of one chunk.
func (k *chunk) elements(m *arch.Model, p *partElements, tiedHead bool) Elements {
	var e Elements
	for i := range k.tails {
		kind := k.tails[i].kind
		e = e.plus(&p.kinds[kind], int64(k.count[kind]))
	}
	if k.mtp > 0 {
		n := mtpWeights(m, k.mtp)
		for _, kind := range k.mtpKinds {
			e = e.plus(&p.kinds[kind], n)
		}
		e = e.plus(&p.mtp, n)
	}
	if k.embedding {
		e = e.plus(&p.embedding, 1).plus(&p.positions, 1)
	}
	if k.loss && !tiedHead {
		e = e.plus(&p.head, 1)
	}
	if k.finalNorm {
		e = e.plus(&p.norm1, 1)
	}
	return e
}
