package memmodel

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// Run holds what decides memory besides the model and the layout: the GPU's generation, the optimizer and
// the software. Each field changes a peak by more than one percent somewhere (memory-findings.md section 6),
// so each is an input with a stated default. The zero value of a switch is what moeplan's own commands do;
// memmodel/launch fills all of them from a Megatron-LM command line.
type Run struct {
	// SM is the compute capability times ten: 80 A100, 90 Hopper, 100 Blackwell.
	SM int

	// FP32 says that parameters and activations are fp32 (neither --bf16 nor --fp16).
	FP32 bool
	// GradientBytes is the size of a main gradient element: 4, unless --grad-reduce-in-bf16 (2).
	GradientBytes int
	// MasterBytes and MomentBytes are the optimizer's bytes per element: fp32 master copy (4) and each of Adam's
	// two moments (4). SecondMomentBytes is that of the second where it differs; 0 means the same.
	MasterBytes, MomentBytes, SecondMomentBytes int
	// TrainableFraction is the share of the parameters that is trained, as with LoRA: the rest has weights, but neither
	// gradients nor optimizer state. 0 means all. It is spread evenly over the parameters; activations stay those of full
	// training, since adapters need the same inputs. Ordinary data parallelism only, not FSDP.
	TrainableFraction float64
	// PrecisionAware is --use-precision-aware-optimizer: moments may be narrower than fp32, gradients are read in their
	// own type, and of the fp32 master copy only the half that a bf16 parameter lacks is kept.
	PrecisionAware bool
	Optimizer      Optimizer
	// DistributedOptimizer shards optimizer state over DP*CP (dense) and EDP (experts), over a part of them each with
	// several OptimizerInstances (0 and 1: one).
	DistributedOptimizer bool
	OptimizerInstances   int
	// LayerWise says that a Muon optimizer deals whole matrices to the data parallel ranks; LayerWiseLayout that the rest
	// goes through a distributed optimizer (upstream's default; off with --no-use-layer-wise-param-layout).
	LayerWise, LayerWiseLayout bool
	// PadBuckets is --ddp-pad-buckets-for-high-nccl-busbw.
	PadBuckets bool
	// OptimizerRank picks the data parallel rank whose share of a Muon optimizer is priced, from 1; 0 the fullest.
	OptimizerRank int
	// FSDP is Megatron-FSDP's sharding strategy, none by default. DoubleBuffer is --fsdp-double-buffer.
	FSDP         Sharding
	DoubleBuffer bool
	// GatherQuantized is --fp8-param-gather: parameters are kept and gathered in FP8.
	GatherQuantized bool
	// BF16Layers says how many layers at the start and at the end compute in bf16 under FP8 (--first-last-layers-bf16).
	BF16LayersAtStart, BF16LayersAtEnd int

	// Local is --transformer-impl local: Megatron's own layers instead of Transformer Engine's.
	Local bool
	// Attention is the kernel that runs; KernelAuto takes the one that Transformer Engine picks.
	Attention AttentionKernel
	// UnfusedSoftmax is --no-masked-softmax-fusion; it matters to unfused attention only.
	UnfusedSoftmax bool
	// Deterministic is --deterministic-mode; it decides kernels.
	Deterministic bool
	// HiddenDropout and AttentionDropout say that a dropout probability is above 0 (Megatron's default is 0.1; every
	// command that moeplan emits says 0).
	HiddenDropout, AttentionDropout bool
	// NoActivationFusion is --no-bias-swiglu-fusion or --no-bias-gelu-fusion, whichever the activation reads;
	// WeightedSquaredReLU is --use-fused-weighted-squared-relu.
	NoActivationFusion, WeightedSquaredReLU bool
	// NoGradientFusion is --no-gradient-accumulation-fusion: no placeholders for weight gradients.
	NoGradientFusion bool
	CrossEntropy     CrossEntropy
	// TorchWorkspace overrides the size of PyTorch's cuBLAS workspace per thread, in bytes; 0 takes the default
	// of the GPU generation.
	TorchWorkspace int64
	// CPAllToAll says that context parallelism exchanges heads (--cp-comm-type a2a) also for models that do not need it,
	// instead of passing KV around a ring (p2p).
	CPAllToAll bool
	// CPGather says that it gathers keys and values (--cp-comm-type all_gather).
	CPGather bool
	// CausalMask says that the data loader puts a b*s*s mask on the GPU (Megatron's default; off in every
	// command that moeplan emits).
	CausalMask bool

	// SequentialExperts says that experts run one by one instead of as a grouped GEMM (no --moe-grouped-gemm).
	SequentialExperts bool
	// FusedPermute is --moe-permute-fusion; it matters in deterministic mode, where the unfused form keeps more.
	FusedPermute bool
	// ScatterUnpermute says that the software is older than Core 0.15, which adds expert rows up by scatter_add also in
	// deterministic mode.
	ScatterUnpermute bool
	// CapacityFactor is --moe-expert-capacity-factor, 0 without; PadToCapacity is --moe-pad-expert-input-to-capacity.
	CapacityFactor float64
	PadToCapacity  bool
	// SharedExpertOverlap is --moe-shared-expert-overlap.
	SharedExpertOverlap bool
	// Imbalance is the load of the fullest expert rank over the mean, for the one layer that runs; what is
	// stored counts with the mean. 1 is balanced.
	Imbalance float64

	// GroupSize is the number of micro-batches that a rank takes through one chunk before the next
	// (--microbatch-group-size-per-virtual-pipeline-stage); 0 means PP.
	GroupSize int
	// NoP2POverlap is --no-overlap-p2p-communication; WarmupFlushOverlap is --overlap-p2p-communication-warmup-flush.
	NoP2POverlap, WarmupFlushOverlap bool
	// DeferEmbeddingGradient is --defer-embedding-wgrad-compute for DeferralLimit micro-batches (0: all of them).
	DeferEmbeddingGradient bool
	DeferralLimit          int
	// DelayWeightGradient is --delay-wgrad-compute.
	DelayWeightGradient bool

	Graphs  Graphs
	Offload Offload

	// ExpandableSegments is PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.
	ExpandableSegments bool
	// DomainSize is how many GPUs share an NVLink domain: it sizes the buffers of flex dispatchers and of NCCL's
	// all-to-all. 0 means 8.
	DomainSize int
}

// DefaultRun returns the run that moeplan's own commands start: bf16 with fp32 gradients, Adam in fp32, the
// distributed optimizer, native fused cross entropy, balanced routing, and the attention kernel that TE picks
// on that GPU generation.
func DefaultRun(sm int) Run {
	return Run{
		SM:                   sm,
		GradientBytes:        4,
		MasterBytes:          4,
		MomentBytes:          4,
		DistributedOptimizer: true,
		Imbalance:            1,
	}
}

// Bounds of a run. Beyond maxFactor no load or capacity limits anything, maxGroup is the largest batch of a layout.
const (
	maxFactor = 1e6
	maxGroup  = layout.MaxSize
)

// check refuses figures with which the arithmetic would overflow, count backwards or not end. Comparisons are written so that
// NaN fails them.
func (r *Run) check() error {
	for _, f := range []struct {
		what         string
		value        float64
		least, most  float64
		leastMeaning string
	}{
		{"trainable fraction", r.TrainableFraction, 0, 1, "all parameters, as 1 is"},
		{"routing imbalance", r.Imbalance, 1, maxFactor, "perfect balance"},
		{"capacity factor", r.CapacityFactor, 0, maxFactor, "no limit"},
		{"optimizer offload fraction", r.Offload.OptimizerFraction, 0, 1, "no offload"},
	} {
		if !(f.value >= f.least && f.value <= f.most) {
			return fmt.Errorf("%s %g does not lie between %g, which is %s, and %g", f.what, f.value, f.least, f.leastMeaning, f.most)
		}
	}
	switch {
	case r.Offload.Layers < 0:
		return fmt.Errorf("%d layers on the host: at least 0, which is none", r.Offload.Layers)
	case r.GroupSize < 0 || r.GroupSize > maxGroup:
		return fmt.Errorf("groups of %d micro-batches do not lie between 0, which is PP, and %d", r.GroupSize, maxGroup)
	}
	return nil
}

// adamBytes are both moments of one element.
func (r *Run) adamBytes() int64 {
	if r.Optimizer == SGD {
		return int64(r.MomentBytes) // momentum alone
	}
	second := r.SecondMomentBytes
	if second == 0 {
		second = r.MomentBytes
	}
	return int64(r.MomentBytes + second)
}
