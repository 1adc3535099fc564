package layout

import (
	"github.com/moeplan/moeplan/folding"
)

// Layout is the complete choice of how one model is trained on one set of GPUs: both meshes, the pipeline
// split, the batch, and what changes memory or speed without changing the mathematics.
//
// It is a small value that copies without allocating (Split is shared and never written after it is made),
// so an enumerator can hand out hundreds of thousands of them. It holds no opinion about legality: Check
// does. JSON keys of the outputs and the text form (String, Parse) use Megatron's names.
type Layout struct {
	folding.Degrees

	// VPP is the number of model chunks per pipeline rank (virtual pipeline size); 1 means not interleaved.
	VPP int
	// Split says which layers sit on which stage and chunk. It has exactly PP*VPP cells.
	Split *Split

	MicroBatchSize  int
	GlobalBatchSize int
	SeqLength       int

	// SequenceParallel is on exactly when TP > 1 in every layout that the enumerator makes.
	SequenceParallel bool

	Recompute  Recompute
	Precision  Precision
	Dispatcher Dispatcher
	// EPOverlap is --overlap-moe-expert-parallel-comm.
	EPOverlap bool
	// Order is the rank order string, first axis fastest; "" means folding.DefaultOrder.
	Order folding.Order
}

// NumMicrobatches returns M, the micro-batches each pipeline works through per step:
// GBS / (MBS*DP), rounded down; exact for layouts that Check accepts.
func (l *Layout) NumMicrobatches() int {
	if step := l.MicroBatchSize * l.DP(); step > 0 {
		return l.GlobalBatchSize / step
	}
	return 0
}

// RankOrder returns Order with its default filled in.
func (l *Layout) RankOrder() folding.Order {
	if l.Order == "" {
		return folding.DefaultOrder
	}
	return l.Order
}

// Precision is the compute and storage precision of a run.
type Precision uint8

const (
	BF16 Precision = iota // bf16 parameters and compute, fp32 main gradients unless the run says otherwise
	FP16
	FP8Tensorwise // FP8 GEMMs with per-tensor current scaling
	FP8Blockwise
	MXFP8
	NVFP4
)

// Dispatcher moves tokens between expert parallel ranks (--moe-token-dispatcher-type, and for flex its
// --moe-flex-dispatcher-backend).
type Dispatcher uint8

const (
	AllToAll Dispatcher = iota // bring-up default of moeplan; Megatron's own default is allgather
	AllGather
	DeepEP
	HybridEP
)

// Granularity is --recompute-granularity.
type Granularity uint8

const (
	NoRecompute Granularity = iota
	Selective
	Full
)

// Modules is a set of --recompute-modules.
type Modules uint16

const (
	CoreAttn Modules = 1 << iota
	MoEAct
	LayerNorm
	MLAUpProj
	MLP
	MoE
	SharedExperts
)

// Has reports whether every module of m is in the set.
func (s Modules) Has(m Modules) bool { return s&m == m }

// Recompute is what the backward pass computes again instead of keeping.
type Recompute struct {
	Granularity Granularity
	Modules     Modules // of Selective
	// Block is --recompute-method block; otherwise Full means uniform.
	Block bool
	// NumLayers is --recompute-num-layers of Full: layers per checkpoint (uniform) or layers recomputed
	// per chunk (block).
	NumLayers int
}

// Has reports whether a selective module is recomputed.
func (r Recompute) Has(m Modules) bool { return r.Granularity == Selective && r.Modules.Has(m) }
