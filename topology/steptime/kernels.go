package steptime

import "github.com/moeplan/moeplan/layout"

// task is one layout under one software, with what its layers have in common.
type task struct {
	l     *layout.Layout
	sw    Software
	place placement

	tokens  float64 // T = s*b/CP, of one tensor-parallel group
	own     float64 // of them, on one rank: T/TP under sequence parallelism
	tp, etp float64
	fp8     bool
	full    bool // full recompute

	perByte float64 // s per byte of a memory-bound kernel
}

func (e *Estimator) task(l *layout.Layout, sw Software, p placement) task {
	k := task{
		l: l, sw: sw, place: p,
		tokens: float64(l.SeqLength) * float64(l.MicroBatchSize) / float64(l.CP),
		tp:     float64(l.TP), etp: float64(l.ETP),
		fp8:  l.Precision >= layout.FP8Tensorwise,
		full: l.Recompute.Granularity == layout.Full,
	}
	k.own = k.tokens
	if l.SequenceParallel {
		k.own /= k.tp
	}
	k.perByte = e.chip.family.memory / (hbmAchieved * e.hw.hbm * 1e9)
	if k.fp8 {
		k.perByte *= e.chip.family.quant
	}
	if sw.Since2606 {
		k.perByte *= memorySince26
	}
	return k
}

// gain is the speed of one FP8 or FP4 GEMM over BF16, by its smallest dimension (comm-model 4.2); 1 in BF16.
func (e *Estimator) gain(k *task, dim float64) float64 {
	if !k.fp8 {
		return 1
	}
	f := e.chip.family
	most := f.gainMax
	if k.l.Precision == layout.NVFP4 && f.gainMaxFP4 > 0 {
		most = f.gainMaxFP4
	}
	return (1 + (most-1)*dim*dim/(dim*dim+f.gainHalf*f.gainHalf)) * f.fp8
}

// gemm is the time of one pass over a dense linear layer with mac multiply-accumulates per token, split over
// TP, dim its smallest dimension on a rank (comm-model 4.2).
func (e *Estimator) gemm(k *task, mac, dim float64) float64 {
	return e.wideGEMM(k, mac, dim) * (dim + gemmDimHalf) / dim
}

// wideGEMM is gemm for dense MLPs, which are wide enough that dim costs no efficiency.
func (e *Estimator) wideGEMM(k *task, mac, dim float64) float64 {
	efficiency := e.chip.family.dense * k.tokens / (k.tokens + gemmRowHalf)
	return 2 * k.tokens * mac / k.tp * e.perFLOP / (efficiency * e.gain(k, dim))
}

// attention is the time of the core forward, causal half counted, averaged over windowed and full layers
// (comm-model 4.2). Attention stays in BF16. Kernels of before 26.06 compute the whole window's triangle.
func (e *Estimator) attention(k *task) float64 {
	seq := float64(k.l.SeqLength)
	context := seq / 2
	if k.sw.Since2606 {
		context += e.windowed * (min(e.window, context) - context)
	}
	heads := e.shape.heads / k.tp * float64(k.l.MicroBatchSize) * max(1, seq/float64(k.l.CP)/attnHeadTokens)
	efficiency := e.chip.attn / e.chip.gemm * e.chip.family.attn *
		seq / (seq + e.chip.family.attnKnee) * heads / (heads + attnHeadHalf)
	if e.shape.smallHead {
		efficiency *= attnSmallHead
	}
	return 2 * k.tokens * e.shape.coreMAC / k.tp * context * e.perFLOP / efficiency
}

// grouped is the time of one pass over the routed experts' GEMMs, rows tokens per local expert, half the
// rows at which speed halves (comm-model 4.2). Rows grow with EP and micro-batch and shrink with TP and CP.
func (e *Estimator) grouped(k *task, rows, half float64) float64 {
	s := &e.shape
	dim := min(s.expertWidth, s.f/k.etp)
	if k.fp8 {
		half *= groupedRowHalfFP8
	}
	efficiency := e.chip.family.grouped * rows / (rows + half) * dim / (dim + groupedDimHalf)
	if k.sw.Since2606 {
		efficiency *= groupedSince26
	}
	flops := 2 * k.own * s.topK * e.run.Imbalance * s.mlp * s.expertWidth * s.f
	return flops * e.perFLOP / (efficiency * e.gain(k, dim))
}

// head is the time of one output layer and its loss, forward and backward: 3 GEMM passes at the fraction of
// large matrices, and the loss's memory traffic (comm-model 4.4).
func (e *Estimator) head(k *task) float64 {
	gemm := 6 * e.shape.h * e.shape.vocab * k.tokens / k.tp * e.perFLOP / e.chip.family.dense
	return gemm + crossEntropy*k.tokens*e.shape.vocab/k.tp/(hbmAchieved*e.hw.hbm*1e9)
}

// mtpProjection is the time of an MTP layer's 2h -> h projection, forward and backward.
func (e *Estimator) mtpProjection(k *task) float64 {
	return 3 * e.gemm(k, 2*e.shape.h*e.shape.h, e.shape.h)
}
