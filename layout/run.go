package layout

import (
	"github.com/moeplan/moeplan/folding"
)

// Defaults of a run that says nothing else.
const (
	DefaultSequence   = 4096
	defaultStepTokens = 8 << 20
)

// Run is what a training run fixes before a layout is chosen.
type Run struct {
	SeqLength       int // 0: DefaultSequence
	GlobalBatchSize int // 0: DefaultGlobalBatch
	Precision       Precision
	Dispatcher      Dispatcher
	EPOverlap       bool          // --overlap-moe-expert-parallel-comm
	Order           folding.Order // "": folding.DefaultOrder, and never that written out
}

// DefaultGlobalBatch is 8 Mi tokens a step in sequences, rounded up to a multiple of the world, so that there is at
// least one sequence per GPU and every data parallel size divides it. For power-of-two worlds and sequences this is
// max(8 Mi / sequence, world).
func DefaultGlobalBatch(seq, world int) int {
	if seq < 1 || world < 1 {
		return 0
	}
	sequences := max(1, defaultStepTokens/seq)
	return (sequences + world - 1) / world * world
}

// WithDefaults fills in the zero fields for a world of that many GPUs.
func (r Run) WithDefaults(world int) Run {
	if r.SeqLength == 0 {
		r.SeqLength = DefaultSequence
	}
	if r.GlobalBatchSize == 0 {
		r.GlobalBatchSize = DefaultGlobalBatch(r.SeqLength, world)
	}
	if r.Order == folding.DefaultOrder {
		r.Order = ""
	}
	return r
}

// Run returns the part of a layout that a run fixes.
func (l *Layout) Run() Run {
	return Run{SeqLength: l.SeqLength, GlobalBatchSize: l.GlobalBatchSize, Precision: l.Precision,
		Dispatcher: l.Dispatcher, EPOverlap: l.EPOverlap, Order: l.Order}
}
