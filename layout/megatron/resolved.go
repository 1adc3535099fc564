package megatron

import "github.com/moeplan/moeplan/folding"

// Resolved are the values with which Megatron-LM would run: what validate_args and the config make of the Settings, or
// would make of them if no check stopped them. Resolve makes it, for legal and illegal command lines alike; a number that
// arithmetic does not define is 0.
//
// Whatever is not here is in Settings as given.
type Resolved struct {
	Settings *Settings
	Env      map[string]string // as handed to Resolve; a variable that is missing is not set

	// Degrees are those of both meshes, ETP filled in. They may be zero or negative, as typed.
	Degrees   folding.Degrees
	ETPFromTP bool          // no --expert-tensor-parallel-size was given, so that ETP followed TP
	Order     folding.Order // "" for the default
	// WeightRemat is how many shards --tensor-parallel-num-weight-shards makes of each tensor parallel shard (GTP), and
	// ExpertWeightRemat that of expert weights; 1 without the flags.
	WeightRemat, ExpertWeightRemat int
	// DP and EDP are rounded down; 0 where they are not defined.
	DP, EDP            int
	OptimizerInstances int

	Batch     Batch
	Pipeline  Pipeline
	Shape     Shape
	Recompute RecomputeSettings
	Precision PrecisionSettings
	Graph     GraphSettings

	SequenceParallel bool // off at TP 1, whatever was asked for
	// Dispatcher is --moe-token-dispatcher-type, FlexBackend what stands behind flex ("" for the others).
	Dispatcher, FlexBackend string
	// DistributedOptimizer is off under optimizers other than adam and sgd, which shard by layer (LayerWiseOptimizer), and
	// on under Megatron-FSDP version 1.
	DistributedOptimizer, LayerWiseOptimizer bool
	OverlapP2P                               bool // only with VPP
	// CPCommType is --cp-comm-type, one for all layers or one each.
	CPCommType []string

	// Changes are the values that the framework silently replaces by others.
	Changes []Change
	// External are given flags whose files or code decide something about the model or its layout and are not read here.
	External []string
}

// Batch is the batch of a step.
type Batch struct {
	MicroBatchSize  int // 0: not given, which is refused
	GlobalBatchSize int // one micro-batch per data parallel rank where it is not given
	GlobalGiven     bool
	// NumMicrobatches is GBS / (MBS * DP * WeightRemat) rounded down; Whole says that nothing was lost.
	NumMicrobatches int
	Whole           bool
	// EvalGlobalBatchSize and EvalMicroBatchSize follow the training sizes.
	EvalGlobalBatchSize, EvalMicroBatchSize int
	SeqLength                               int
	MaxPositionEmbeddings                   int
}

// Pipeline says how the layers are cut.
type Pipeline struct {
	// VPP is the number of chunks per rank; 0 stands for None, the schedule without interleaving. Releases up to 0.13 keep
	// a 1 and interleave one chunk.
	VPP int
	// From is the flag that set VPP or would have; "" if none.
	From   string
	Layout string // --pipeline-model-parallel-layout
	// First and Last are --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers; nil without.
	First, Last                         *int
	AccountForEmbedding, AccountForLoss bool
	// GroupSize is the number of micro-batches that a rank takes through one chunk before the next
	// (--microbatch-group-size-per-virtual-pipeline-stage); PP without the flag.
	GroupSize int
}

// Shape is what the command line says about the model.
type Shape struct {
	NumLayers   int
	HiddenSize  int
	Heads       int
	QueryGroups int // heads without --group-query-attention
	KVChannels  int // 0 where hidden size / heads leaves a remainder
	FFN         int
	NumExperts  int // 0: dense
	MoEFFN      int
	// MTPLayers are the MTP depths; MTPGiven tells an explicit 0 from none.
	MTPLayers int
	MTPGiven  bool
	// VocabSize and PaddedVocab are 0 where the command line does not say: tokenizer files are never opened.
	VocabSize, PaddedVocab int
	PositionEmbedding      string
	Latent                 bool           // multi-latent attention
	QKVBias                bool           // every linear bias brings it
	Hybrid                 *HybridPattern // nil for a GPT model
}

// RecomputeSettings are the recompute flags after the old spellings are merged in.
type RecomputeSettings struct {
	Granularity string // "", "selective" or "full"
	Method      string // "", "uniform" or "block"
	NumLayers   int    // 0: not given
	// Modules are those of --recompute-modules, core_attn where the flag is not given. They are ignored unless Granularity
	// is selective.
	Modules []string
}

// PrecisionSettings are the number formats.
type PrecisionSettings struct {
	Params string // bf16, fp16 or fp32: of parameters and compute
	FP8    string // "", e4m3 or hybrid
	Recipe string // --fp8-recipe, or --fp4-recipe under FP4
	FP4    string // "" or e2m1
	// GradientsInFP32: main gradients are accumulated and reduced in fp32. bf16 switches it on by itself.
	GradientsInFP32 bool
}

// GraphSettings are the CUDA graph flags after the old spellings are merged in.
type GraphSettings struct {
	Impl    string // none, local, transformer_engine or full_iteration
	Modules []string
}

// Change is a value that the framework silently replaces.
type Change struct {
	Flag    string `json:"flag"`    // with its dashes
	Given   string `json:"given"`   // as given, or "not given"
	Becomes string `json:"becomes"` // what the framework works with
	Why     string `json:"why"`     // in a few words
	Source  string `json:"source"`  // upstream path:line at NVIDIA/Megatron-LM@d98e8a64dd
}

func (r *Resolved) change(flag, given, becomes, why, source string) {
	r.Changes = append(r.Changes, Change{flag, given, becomes, why, source})
}
