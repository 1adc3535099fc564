package memmodel

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// moeForward is what lives beside the saved tensors at the forward peak of a MoE layer: the permuted send
// buffer, the received tokens, the experts' output and its unsorted copy, because the layer's Python locals hold
// them until it returns (memory-model.md 3.7, the usual peak of a MoE stage).
func (s *shape) moeForward() int64 {
	hidden := int64(moeForwardHiddenTensors) * s.w * s.ts * s.h
	send, received, out := s.w*s.peakRows/s.etp*s.hl, s.w*s.peakRows/s.etp*s.hl, s.w*s.peakRows*s.hl
	unsorted := out
	switch s.l.Dispatcher {
	case layout.DeepEP:
		return s.w*s.receivedTokens()*s.h + out + unsorted + hidden
	case layout.HybridEP:
		return out + s.w*s.ts*s.h
	case layout.AllGather:
		// the gathered tokens live in the persistent "mpu" buffer; the reduce-scatter needs the un-permuted sum.
		return out + s.w*s.ts*int64(s.l.EP)*s.etp*s.h + hidden
	}
	if s.l.EP == 1 { // the all-to-all returns its input
		send = 0
	}
	if s.local == 1 { // nothing to sort, and the dispatched input is the saved tensor
		unsorted = 0
		if s.etp == 1 {
			received = 0
		}
	}
	return send + received + out + unsorted + hidden
}

// moeBackward mirrors the forward pass: gradients of the experts' output, input and activation input.
func (s *shape) moeBackward() int64 {
	fm := int64(s.m.MoE.FFNHiddenSize) / s.etp
	return s.w*s.peakRows*(2*s.hl+s.gate()*fm) + s.w*s.ts*s.h
}

// denseBackward is the incoming gradient and the gradient of fc1's output; the activation output is freed just
// before (memory-model.md 3.7, confirmed by the SimuMax slices).
func (s *shape) denseBackward() int64 {
	return s.w*s.ts*s.h + s.w*s.t*s.gate()*int64(s.m.FFNHiddenSize)/s.tp
}

// mixerForward is what a mixer needs beside what it saves: unfused attention's raw scores, or what context parallelism
// receives of keys and values.
func (s *shape) mixerForward(mixer arch.Mixer) int64 {
	if mixer != arch.GQA && mixer != arch.MLAttention {
		return s.sequenceGather()
	}
	if s.kernel == UnfusedAttention {
		return s.w * s.scores()
	}
	return max(s.sequenceGather(), s.received())
}

// received are the keys and values of other context parallel ranks that attention holds at once: two buffers of a ring's,
// or all of them where they are gathered (memory-model.md 3.1).
func (s *shape) received() int64 {
	cp := int64(s.l.CP)
	if cp == 1 || s.cpAllToAll {
		return 0
	}
	width := 2 * kvHeadsPerRank(s.m, s.l.TP) * int64(s.m.KVChannels)
	if a := s.m.MLA; a != nil {
		width = int64(s.m.NumAttentionHeads) / s.tp * int64(a.QKHeadDim+a.QKPosEmbHeadDim+a.VHeadDim)
	}
	if s.cpGather {
		return s.w * s.t * cp * width
	}
	return 2 * s.w * s.t * width
}

// mixerBackward is the gradients of q, k, v and the output, and the kernel's fp32 accumulator of dq
// (memory-model.md 3.7; unmeasured); of unfused attention the gradient of the scores instead of the latter; of a Mamba
// mixer those of its projection and inner tensors.
func (s *shape) mixerBackward(mixer arch.Mixer) int64 {
	m := s.m
	var q, kv, v int64
	switch mixer {
	case arch.MLAttention:
		heads := int64(m.NumAttentionHeads) / s.tp
		q = heads * int64(m.MLA.QKHeadDim+m.MLA.QKPosEmbHeadDim)
		kv, v = q, heads*int64(m.MLA.VHeadDim)
	case arch.GQA:
		q = int64(m.NumAttentionHeads) * int64(m.KVChannels) / s.tp
		kv = kvHeadsPerRank(m, s.l.TP) * int64(m.KVChannels)
		v = kv
		if s.kernel == UnfusedAttention {
			return s.w*s.t*(2*q+2*kv) + s.w*s.scores()
		}
		return s.w*s.t*(2*q+2*kv) + 4*s.t*q
	case arch.MambaMixer:
		a := m.Mamba
		in := 2*s.mambaInner() + (2*int64(a.NumGroups)*int64(a.StateDim)+int64(a.NumHeads))/s.tp
		return s.w*s.ts*s.h + s.w*s.t*(in+s.mambaInner())
	case arch.GatedDeltaNet: // ASSUMED: as the saved set
		var t tally
		s.gatedDeltaNet(&t)
		return t.kept / 2
	default:
		return 0
	}
	if s.kernel == UnfusedAttention {
		return s.w*s.t*(q+kv+2*v) + s.w*s.scores()
	}
	return s.w*s.t*(q+kv+2*v) + 4*s.t*q
}

// sequenceGather is the gathered input that one column-parallel linear works on under sequence parallelism.
func (s *shape) sequenceGather() int64 {
	if !s.l.SequenceParallel {
		return 0
	}
	return s.w * s.t * s.h
}
