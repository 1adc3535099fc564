package memmodel

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// LayerTensors names what one layer of a kind saves for backward in one micro-batch on one rank of a layout, in the order in
// which the layer makes it. Recomputed ones are dropped after the forward pass, offloaded ones wait on the host. The
// layout must be one that Estimate accepts, the kind one that the model has.
func (e *Estimator) LayerTensors(l *layout.Layout, kind arch.Layer) []Tensor {
	s := newShape(e.model, &e.run, e.kinds, l)
	var out []Tensor
	t := s.newTally()
	t.lines = &out
	s.mixer(&t, kind.Mixer)
	switch kind.Feedforward {
	case arch.DenseMLP:
		s.denseMLP(&t)
	case arch.MoEMLP:
		s.moeMLP(&t)
	}
	return out
}

// Buffers lists the parameter and gradient buffers of one pipeline rank, by chunk, as the framework lays them out.
// BucketElements is the size from which a bucket is closed, 0 for one bucket: it holds for the first chunk of the first
// stage only, and with --overlap-grad-reduce only, where its default is DefaultBucket.
func (e *Estimator) Buffers(l *layout.Layout, pipelineRank int, bucketElements int64) [][]Buffer {
	s := newShape(e.model, &e.run, e.kinds, l)
	c := classOf(e.model, &e.run, e.kinds, l.Split, pipelineRank)
	out := make([][]Buffer, len(c.chunks))
	for v := range c.chunks {
		size := bucketElements
		if pipelineRank > 0 || v > 0 {
			size = 0
		}
		list := s.parameterList(&c.chunks[v], c.tiedHead)
		for _, set := range []struct{ expert, single bool }{{false, false}, {true, false}, {false, true}} {
			b := s.buffer(list, set.expert, set.single, size)
			if len(b.Parameters) > 0 {
				out[v] = append(out[v], b)
			}
		}
	}
	return out
}

// DefaultBucket is the size of a bucket for so many data parallel ranks
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/distributed/distributed_data_parallel.py:134).
func DefaultBucket(ranks int) int64 { return max(40_000_000, 1_000_000*int64(ranks)) }
