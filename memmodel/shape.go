package memmodel

import (
	"math"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// shape holds the sizes that every formula needs, on one rank of one layout.
type shape struct {
	m     *arch.Model
	run   *Run
	l     *layout.Layout
	kinds *modelKinds

	tp, etp int64
	w       int64 // bytes of an activation element: 2, or 4 in fp32
	h       int64 // hidden size
	t       int64 // T: tokens of one CP rank, seq*mbs/cp
	ts      int64 // Ts: tokens of one sequence-parallel shard
	vocab   int64 // padded vocabulary over TP

	kernel     AttentionKernel
	cpAllToAll bool // context parallelism exchanges heads
	cpGather   bool // context parallelism gathers keys and values

	// denseShards and expertShards are how many ranks share the optimizer's state.
	denseShards, expertShards int64

	// Experts: hl is the width routed experts work on, local the experts on this rank, sent the token copies this
	// rank sends (Ts*topk), rows the copies its experts work on (sent*etp, balanced), peakRows the same under
	// the run's imbalance.
	hl, local            int64
	sent, rows, peakRows int64

	// recompute is the layout's, split into what the formulas ask for.
	modules layout.Modules
	full    bool
	// linearInput is the saved bytes of one element that feeds a TE linear: 2, or less where FP8 keeps the
	// quantized copy only. In thousandths, to stay an integer.
	linearInputMilli int64
}

func newShape(m *arch.Model, run *Run, kinds *modelKinds, l *layout.Layout) shape {
	s := shape{m: m, run: run, l: l, kinds: kinds, w: activationBytes,
		tp: int64(l.TP), etp: int64(l.ETP), h: int64(m.HiddenSize),
		kernel: run.kernelOf(l.CP)}
	if run.FP32 {
		s.w = 4
	}
	s.linearInputMilli = s.savedLinearInputMilli()
	s.t = int64(l.SeqLength) * int64(l.MicroBatchSize) / int64(l.CP)
	s.ts = s.t
	if l.SequenceParallel {
		s.ts = s.t / s.tp
	}
	if l.CP > 1 {
		kind := layout.CPCommType(m, l.TP, l.CP)
		s.cpAllToAll = run.CPAllToAll || kind == "a2a"
		s.cpGather = !s.cpAllToAll && (run.CPGather || kind == "all_gather")
	}
	s.vocab = int64(m.PaddedVocab(l.TP)) / s.tp
	s.denseShards, s.expertShards = s.shards()
	if moe := m.MoE; moe != nil {
		s.hl = s.h
		if moe.LatentSize > 0 {
			s.hl = int64(moe.LatentSize)
		}
		s.local = int64(moe.NumExperts / l.EP)
		s.sent = s.ts * int64(moe.TopK)
		s.rows = s.sent * s.etp
		s.peakRows = int64(float64(s.sent)*run.Imbalance) * s.etp
		s.capacity(moe)
		s.rows += s.alignedRows()
		s.peakRows += s.alignedRows()
	}
	switch l.Recompute.Granularity {
	case layout.Selective:
		s.modules = l.Recompute.Modules
	case layout.Full:
		s.full = true
	}
	return s
}

// capacity bounds the rows by --moe-expert-capacity-factor, or fixes them where experts are padded to it
// (memory-model.md 3.6).
func (s *shape) capacity(moe *arch.MoE) {
	c := s.run.CapacityFactor
	switch {
	case c <= 0:
	case s.run.PadToCapacity:
		each := int64(math.Ceil(float64(s.sent) / float64(moe.NumExperts) * c))
		s.rows = each * int64(moe.NumExperts) * s.etp
		s.peakRows = s.rows
	default:
		limit := int64(float64(s.sent)*c) * s.etp
		s.peakRows = min(s.peakRows, limit)
		s.rows = min(s.rows, limit)
	}
}

// alignedRows is what rounding each local expert's rows up to its kernel's unit adds on average: half of 16 in FP8, of 32
// with microscaling formats (memory-model.md 3.6).
func (s *shape) alignedRows() int64 {
	switch s.l.Precision {
	case layout.FP8Tensorwise, layout.FP8Blockwise:
		return 8 * s.local
	case layout.MXFP8, layout.NVFP4:
		return 16 * s.local
	}
	return 0
}

// shards is the ranks that share optimizer state: the data parallel group, or a part of it with several optimizer
// instances.
func (s *shape) shards() (dense, expert int64) {
	if !s.run.DistributedOptimizer && s.run.FSDP == NoFSDP && !(s.run.LayerWise && s.run.LayerWiseLayout) {
		return 1, 1
	}
	dense, expert = max(1, int64(s.l.DP())*int64(s.l.CP)), max(1, int64(s.l.EDP()))
	if z := int64(s.run.OptimizerInstances); z > 1 {
		dense, expert = max(1, dense/z), max(1, expert/z)
	}
	return dense, expert
}

// savedLinearInputMilli is what one element of a linear layer's saved input costs, in thousandths of a byte
// (memory-model.md 3.8): FP8 keeps the column-wise quantized copy only, with its scales.
func (s *shape) savedLinearInputMilli() int64 {
	switch s.l.Precision {
	case layout.FP8Tensorwise:
		return 1000
	case layout.FP8Blockwise: // one fp32 scale per 128 elements
		return 1031
	case layout.MXFP8: // one scale byte per 32 elements
		return 1031
	case layout.NVFP4: // half a byte, one scale byte per 16 elements
		return 562
	}
	return s.w * 1000
}

// quantized reports whether linears compute in FP8 or FP4.
func (s *shape) quantized() bool { return s.l.Precision >= layout.FP8Tensorwise }

// linearInput returns the saved bytes of n elements that feed a quantizable linear layer.
func (s *shape) linearInput(n int64) int64 { return n * s.linearInputMilli / 1000 }

// normStats is what a norm keeps per token: a reciprocal deviation, and a mean for LayerNorm.
func (s *shape) normStats(tokens int64) int64 {
	if s.m.Normalization == arch.LayerNorm {
		return 8 * tokens
	}
	return 4 * tokens
}

// gate is the number of halves of a feedforward's first linear: 2 when gated.
func (s *shape) gate() int64 {
	if s.m.Activation.Gated() {
		return 2
	}
	return 1
}

// dropoutMask is the mask of one bias-dropout-add: a byte an element of the residual stream.
func (s *shape) dropoutMask() int64 {
	if !s.run.HiddenDropout {
		return 0
	}
	return s.ts * s.h
}

// scores is A: the elements of one layer's attention scores on this rank.
func (s *shape) scores() int64 {
	return int64(s.l.MicroBatchSize) * int64(s.m.NumAttentionHeads) / s.tp * int64(s.l.SeqLength) * int64(s.l.SeqLength)
}
