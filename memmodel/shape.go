package memmodel

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// shape holds the sizes that every formula needs, on one rank of one layout.
type shape struct {
	m   *arch.Model
	run *Run
	l   *layout.Layout

	mtpMoE bool // MTP layers hold experts

	tp, etp int64
	h       int64 // hidden size
	t       int64 // T: tokens of one CP rank, seq*mbs/cp
	ts      int64 // Ts: tokens of one sequence-parallel shard
	vocab   int64 // padded vocabulary over TP

	cpAllToAll bool // context parallelism exchanges heads

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

func newShape(m *arch.Model, run *Run, mtpMoE bool, l *layout.Layout) shape {
	s := shape{m: m, run: run, l: l, mtpMoE: mtpMoE,
		tp: int64(l.TP), etp: int64(l.ETP), h: int64(m.HiddenSize),
		linearInputMilli: savedLinearInputMilli(l.Precision)}
	s.t = int64(l.SeqLength) * int64(l.MicroBatchSize) / int64(l.CP)
	s.ts = s.t
	if l.SequenceParallel {
		s.ts = s.t / s.tp
	}
	s.cpAllToAll = l.CP > 1 && (run.CPAllToAll || layout.CPCommType(m, l.TP, l.CP) == "a2a")
	s.vocab = int64(m.PaddedVocab(l.TP)) / s.tp
	if moe := m.MoE; moe != nil {
		s.hl = s.h
		if moe.LatentSize > 0 {
			s.hl = int64(moe.LatentSize)
		}
		s.local = int64(moe.NumExperts / l.EP)
		s.sent = s.ts * int64(moe.TopK)
		s.rows = s.sent * s.etp
		s.peakRows = int64(float64(s.sent)*run.Imbalance) * s.etp
	}
	switch l.Recompute.Granularity {
	case layout.Selective:
		s.modules = l.Recompute.Modules
	case layout.Full:
		s.full = true
	}
	return s
}

// savedLinearInputMilli is what one element of a linear layer's saved input costs, in thousandths of a byte
// (memory-model.md 3.8): FP8 keeps the column-wise quantized copy only, with its scales.
func savedLinearInputMilli(p layout.Precision) int64 {
	switch p {
	case layout.FP8Tensorwise:
		return 1000
	case layout.FP8Blockwise: // one fp32 scale per 128 elements
		return 1031
	case layout.MXFP8: // one scale byte per 32 elements
		return 1031
	}
	return activationBytes * 1000
}

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

// tally adds up the tensors that a layer saves: kept ones, and those that recompute drops and makes again.
type tally struct {
	kept    int64
	dropped int64
	modules layout.Modules // recomputed
	lines   *[]Tensor      // nil on the hot path
}

// Tensor is one saved tensor of a layer.
type Tensor struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Recomputed says that the layout drops it after the forward pass and makes it again.
	Recomputed bool `json:"recomputed,omitempty"`
}

// save adds a tensor. Any recomputed module in dropBy drops it.
func (t *tally) save(name string, bytes int64, dropBy layout.Modules) {
	if bytes == 0 {
		return
	}
	drop := t.modules&dropBy != 0
	if drop {
		t.dropped += bytes
	} else {
		t.kept += bytes
	}
	if t.lines != nil {
		*t.lines = append(*t.lines, Tensor{name, bytes, drop})
	}
}
