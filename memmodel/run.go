package memmodel

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// Run holds what decides memory besides the model and the layout: the GPU's generation, the optimizer and
// the software. Each field changes a peak by more than one percent somewhere (memory-findings.md section 6),
// so each is an input with a stated default.
type Run struct {
	// SM is the compute capability times ten: 80 A100, 90 Hopper, 100 Blackwell.
	SM int

	// GradientBytes is the size of a main gradient element: 4, unless --grad-reduce-in-bf16 (2).
	GradientBytes int
	// MasterBytes and MomentBytes are the optimizer's bytes per element: fp32 master copy (4) and each of Adam's
	// two moments (4).
	MasterBytes, MomentBytes int
	// PrecisionAware is --use-precision-aware-optimizer: moments may be narrower than fp32, gradients are read in their
	// own type, and of the fp32 master copy only the half that a bf16 parameter lacks is kept.
	PrecisionAware bool
	// DistributedOptimizer shards optimizer state over DP*CP (dense) and EDP (experts).
	DistributedOptimizer bool

	CrossEntropy CrossEntropy
	// TorchWorkspace overrides the size of PyTorch's cuBLAS workspace per thread, in bytes; 0 takes the default
	// of the GPU generation.
	TorchWorkspace int64
	// FlashAttention2 says that FlashAttention 2 runs instead of cuDNN's fused attention; it keeps a second
	// copy of the attention output (memory-findings.md C5). TE prefers it before Hopper.
	FlashAttention2 bool
	// CPAllToAll says that context parallelism exchanges heads (--cp-comm-type a2a) also for models that do not need it,
	// instead of passing KV around a ring (p2p).
	CPAllToAll bool
	// CausalMask says that the data loader puts a b*s*s mask on the GPU (Megatron's default; off in every
	// command that moeplan emits).
	CausalMask bool

	// Imbalance is the load of the fullest expert rank over the mean, for the one layer that runs; what is
	// stored counts with the mean. 1 is balanced.
	Imbalance float64
}

// CrossEntropy is the implementation of the vocabulary-parallel loss. It decides the peak of the last stage
// (memory-model.md 3.5, corrected by memory-findings.md C6).
type CrossEntropy uint8

const (
	NativeFusedCE CrossEntropy = iota // --cross-entropy-loss-fusion --cross-entropy-fusion-impl native
	UnfusedCE
	TEFusedBF16CE // TE 2.11 and older: bf16 gradient written over the logits
)

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
		FlashAttention2:      sm < 90,
		Imbalance:            1,
	}
}

// UnsupportedError names a part of a model or a layout that this package cannot price. It is never a guess.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string {
	return "memory of " + e.What + " is not modelled yet"
}

// Supported reports, as an *UnsupportedError, what stands in the way of pricing a model.
func Supported(m *arch.Model) error {
	switch {
	case m.Kind == arch.Hybrid:
		return &UnsupportedError{"hybrid (Mamba) layers of " + m.ID}
	case m.LinearAttention != nil:
		return &UnsupportedError{"gated delta net layers of " + m.ID}
	}
	return nil
}

// supportedLayout refuses what layouts may carry but this package cannot price.
func supportedLayout(l *layout.Layout) error {
	if l.Split == nil || len(l.Split.Cells) != l.PP*l.VPP {
		return fmt.Errorf("layout has no pipeline split of %d stages x %d chunks", l.PP, l.VPP)
	}
	if l.Precision == layout.NVFP4 {
		return &UnsupportedError{"NVFP4 training"}
	}
	return nil
}
