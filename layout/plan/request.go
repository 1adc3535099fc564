package plan

import (
	"fmt"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

// Defaults of DESIGN's contract; what a request leaves out is filled from here and listed as assumed.
const (
	DefaultSeqLength = 4096
	DefaultTop       = 10
)

// Request is a question: this model on so many GPUs of this kind. Zero fields take the defaults.
type Request struct {
	Model    *arch.Model
	Platform *topology.Platform
	GPUs     int
	// AssumedPlatform says that the caller chose the platform without being told; it is then listed as assumed.
	AssumedPlatform bool

	SeqLength       int
	GlobalBatchSize int
	Precision       layout.Precision
	// Order is the rank order; "" is Megatron's default.
	Order folding.Order
	// Imbalance is the load of the fullest expert rank over the mean; 0 means balanced.
	Imbalance float64

	// Pins bound the degrees that the search may take; a zero Pins bounds nothing.
	Pins layout.Pins
	// Recompute, if not nil, is the only rung tried.
	Recompute *layout.Recompute
	// Where is a condition that every layout must meet, in the language of package where; "" keeps all.
	Where string
	// Wide searches CP down to shards of 2048 tokens, ETP to 8 and EP without a bound.
	Wide bool

	// HeadroomGiB, 2^30 bytes, is what must stay free above the upper figure of what the card sees; nil takes the platform's
	// default, which stays free above the allocated peak instead (budget).
	HeadroomGiB *float64
	// ReserveGiB, 2^30 bytes, is memory that something else on the GPU takes.
	ReserveGiB float64

	// LowPrecisionMoments stores Adam's moments in bf16 (--use-precision-aware-optimizer), BF16Gradients reduces
	// gradients in bf16 (--grad-reduce-in-bf16).
	LowPrecisionMoments, BF16Gradients bool

	// Offload moves activations or optimizer state to the host, on every layout of the search.
	Offload Offload

	// TrainableFraction is the share of the parameters that is trained, as with LoRA; 0 means all. Times stay those of full
	// training.
	TrainableFraction float64

	// Factors adapt the step times to one machine; the zero value is the published machines'.
	Factors steptime.Factors

	// Objective orders the plans; "" is ByTime.
	Objective Objective
	// Pareto asks for the front of time against memory as well.
	Pareto bool

	// Top is how many plans to return.
	Top int
	// Workers bounds the goroutines that price; 0 means one per CPU. The result does not depend on it.
	Workers int

	// schedules are simulated once for all that is asked with the request: see Together.
	schedules *memmodel.Schedules
	// keep, if not nil, restricts the layouts that are priced.
	keep func(*layout.Layout) bool
	// assumedBatch says that the global batch is the default of the number of GPUs.
	assumedBatch bool
	// stretched says that the sequence exceeds the model's own positions.
	stretched bool
}

// Together returns the request as one of several questions about the same layouts, such as Search and then Describe and
// Timeline of what it found: what they share is worked out once, also when they are asked at the same time. Answers are the
// same.
func (r Request) Together() Request {
	r.schedules = memmodel.NewSchedules()
	return r
}

// filled returns the request with every default in place, and those by name.
func (r Request) filled() (Request, map[string]string) {
	assumed := make(map[string]string)
	assume := func(name, format string, args ...any) {
		assumed[name] = fmt.Sprintf(format, args...)
	}
	if r.AssumedPlatform {
		assume("gpu", "%s", r.Platform.ID)
	}
	if r.schedules == nil {
		r = r.Together()
	}
	if r.SeqLength == 0 {
		r.SeqLength = DefaultSeqLength
		assume("seq_length", "%d", r.SeqLength)
	}
	if longer := Stretched(r.Model, r.SeqLength); longer != r.Model {
		r.Model, r.stretched = longer, true
	}
	if r.GlobalBatchSize == 0 {
		r.GlobalBatchSize = layout.DefaultGlobalBatch(r.SeqLength, r.GPUs)
		r.assumedBatch = true
		assume("global_batch_size", "%d", r.GlobalBatchSize)
	}
	if r.Imbalance == 0 {
		r.Imbalance = 1
		if r.Model.MoE != nil {
			assume("imbalance", "1.0")
		}
	}
	if r.HeadroomGiB == nil {
		assume("headroom", "platform default")
	}
	if r.Top == 0 {
		r.Top = DefaultTop
	}
	if !r.LowPrecisionMoments {
		assume("optimizer", "adam, fp32 master and moments, distributed")
	}
	if !r.BF16Gradients {
		assume("gradients", "fp32")
	}
	assume("megatron_version", "main")
	assume("dispatcher", "alltoall")
	assume("allocator", "expandable segments")
	return r, assumed
}

// pinned reports whether the caller restricted the search.
func (r *Request) pinned() bool {
	for _, pin := range []layout.Range{r.Pins.TP, r.Pins.CP, r.Pins.PP, r.Pins.EP, r.Pins.ETP, r.Pins.VPP, r.Pins.MBS} {
		if !pin.IsZero() {
			return true
		}
	}
	return r.Recompute != nil || r.Where != "" || r.Pins.Recompute != nil
}

func (r *Request) momentBytes() int {
	if r.LowPrecisionMoments {
		return 2
	}
	return 4
}

// gradientBytes is the size of a main gradient element; fp16 runs keep them in fp16, as memmodel has it.
func (r *Request) gradientBytes() int {
	if r.BF16Gradients || r.Precision == layout.FP16 {
		return 2
	}
	return 4
}

// masterBytes is the optimizer's copy of a parameter: the precision-aware optimizer keeps only the 16 bits that the
// bf16 parameter lacks (memory-model.md 2.3).
func (r *Request) masterBytes() int {
	if r.LowPrecisionMoments && r.Precision == layout.BF16 {
		return 2
	}
	return 4
}

// Stretched returns the model with room for a sequence: with rotary positions --max-position-embeddings is no more than a
// bound that the command line raises. Learned positions are parameters, and stay.
func Stretched(m *arch.Model, seq int) *arch.Model {
	if m.LearnedPositions || m.MaxPositionEmbeddings == 0 || seq <= m.MaxPositionEmbeddings {
		return m
	}
	longer := *m
	longer.MaxPositionEmbeddings = seq
	return &longer
}
