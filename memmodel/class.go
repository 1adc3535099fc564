package memmodel

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// class is what one pipeline rank holds. Ranks of equal class differ only in how many micro-batches they have
// in flight, and the lowest of them has the most: a search prices that one alone.
type class struct {
	rank       int // the lowest of its class
	dense, moe int64
	mtp        int64
	mtpMoE     bool
	embedding  bool // holds the word embedding (first stage, and any stage with MTP)
	loss       bool // final norm, output layer, loss
	finalNorm  bool
	tiedHead   bool // the output layer is the embedding of this rank itself
	chunks     []chunk
}

// chunk is the layers of one model chunk, as far as memory tells them apart.
type chunk struct {
	layers, dense, moe int64
	// denseAfterMoE counts dense layers behind the last MoE layer, moeAfterDense the reverse.
	denseAfterMoE, moeAfterDense int64
	first                        int // index of the first decoder layer
	mtp                          int64
	loss                         bool
}

// splitClasses is a pipeline split as the estimator sees it.
type splitClasses struct {
	classes []class // one per distinct kind of rank, by lowest rank
	ofRank  []int   // class of each rank
}

// classify groups the ranks of a split.
func classify(m *arch.Model, split *layout.Split) *splitClasses {
	layers := m.Layers()
	out := &splitClasses{ofRank: make([]int, split.PP)}
	for r := range split.PP {
		c := classOf(m, layers, split, r)
		out.ofRank[r] = -1
		for i := range out.classes {
			if out.classes[i].equal(&c) {
				out.ofRank[r] = i
				break
			}
		}
		if out.ofRank[r] < 0 {
			out.ofRank[r] = len(out.classes)
			out.classes = append(out.classes, c)
		}
	}
	return out
}

func classOf(m *arch.Model, layers []arch.Layer, split *layout.Split, rank int) class {
	c := class{rank: rank, mtpMoE: mtpIsMoE(m), chunks: make([]chunk, split.VPP)}
	for v := range split.VPP {
		cell := split.Cell(rank, v)
		k := chunk{first: cell.First, layers: int64(cell.Decoders), mtp: int64(cell.MTP), loss: cell.Loss}
		for _, l := range layers[cell.First : cell.First+cell.Decoders] {
			if l.Feedforward == arch.MoEMLP {
				k.moe++
				k.moeAfterDense++
				k.denseAfterMoE = 0
			} else {
				k.dense++
				k.denseAfterMoE++
				k.moeAfterDense = 0
			}
		}
		c.dense += k.dense
		c.moe += k.moe
		c.mtp += k.mtp
		c.embedding = c.embedding || cell.Embedding || cell.MTP > 0
		c.loss = c.loss || cell.Loss
		// With MTP the final norm sits behind decoder layer L, else before the output layer
		// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/transformer/transformer_block.py:399-426).
		if m.MTPNumLayers > 0 {
			c.finalNorm = c.finalNorm || (cell.Decoders > 0 && cell.First+cell.Decoders == m.NumLayers)
		} else {
			c.finalNorm = c.finalNorm || cell.Loss
		}
		c.chunks[v] = k
	}
	c.tiedHead = m.TiedEmbeddings && split.PP == 1
	return c
}

// equal ignores where in the model the layers sit.
func (c *class) equal(o *class) bool {
	// The first stage receives no input tensor, so it is a class of its own.
	if (c.rank == 0) != (o.rank == 0) || c.embedding != o.embedding || c.loss != o.loss ||
		c.finalNorm != o.finalNorm || c.mtp != o.mtp || len(c.chunks) != len(o.chunks) {
		return false
	}
	for i := range c.chunks {
		a, b := c.chunks[i], o.chunks[i]
		a.first, b.first = 0, 0
		if a != b {
			return false
		}
	}
	return true
}

// elements returns the parameters of a rank of this class.
func (c *class) elements(k *kindElements) Elements {
	e := Elements{}.plus(k.dense, c.dense).plus(k.moe, c.moe).plus(k.mtp, c.mtp)
	if c.embedding {
		e = e.plus(k.embedding, 1).plus(k.positions, 1)
	}
	if c.loss && !c.tiedHead {
		e = e.plus(k.head, 1)
	}
	if c.finalNorm {
		e = e.plus(k.norm1, 1)
	}
	return e
}
