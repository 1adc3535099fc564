package memmodel

import "slices"

// CrossEntropy is the implementation of the vocabulary-parallel loss. It decides the peak of the last stage
// (memory-model.md 3.5, corrected by memory-findings.md C6).
type CrossEntropy uint8

const (
	NativeFusedCE CrossEntropy = iota // --cross-entropy-loss-fusion --cross-entropy-fusion-impl native
	UnfusedCE
	TEFusedBF16CE // TE 2.11 and older: bf16 gradient written over the logits
	TEFusedCE     // newer TE: fp32 gradient
)

// AttentionKernel is what computes attention's core.
type AttentionKernel uint8

const (
	KernelAuto       AttentionKernel = iota // what Transformer Engine picks
	FlashAttention2                         // keeps a second copy of its output (memory-findings.md C5)
	CuDNNAttention                          // cuDNN's fused attention, and FlashAttention 3
	UnfusedAttention                        // keeps the scores
)

// kernelOf is the kernel that runs. Nothing said, TE takes FlashAttention 2 before Hopper and cuDNN's since;
// deterministic runs with attention dropout cannot take the latter on Blackwell (memory-findings.md C5). Context
// parallelism runs with those two only.
func (r *Run) kernelOf(cp int) AttentionKernel {
	k := r.Attention
	if r.Local {
		k = UnfusedAttention
	}
	if k == UnfusedAttention && cp > 1 {
		k = KernelAuto
	}
	if k != KernelAuto {
		return k
	}
	if r.SM < 90 || r.SM >= 100 && r.Deterministic && r.AttentionDropout {
		return FlashAttention2
	}
	return CuDNNAttention
}

// Optimizer is the algorithm that keeps state.
type Optimizer uint8

const (
	Adam Optimizer = iota // two moments
	SGD                   // momentum
	Muon                  // momentum for matrices, Adam for everything else
)

// Sharding is Megatron-FSDP's --data-parallel-sharding-strategy.
type Sharding uint8

const (
	NoFSDP Sharding = iota // ordinary data parallelism
	ShardNothing
	ShardOptimizer
	ShardOptimizerGradients
	ShardAll // optim_grads_params
)

// Graphs are CUDA graphs.
type Graphs struct {
	// Modules are the captured parts; FullIteration captures everything.
	Modules       GraphModules
	FullIteration bool
}

// GraphModules is a set of --cuda-graph-modules.
type GraphModules uint8

const (
	GraphAttention GraphModules = 1 << iota
	GraphMLP
	GraphMoE
	GraphRouter
	GraphPreprocess
	GraphMamba
)

// graphNames are upstream's names, in the order of the bits.
var graphNames = [...]string{"attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba"}

// ParseGraphModules reads upstream's names; no names at all mean every module.
func ParseGraphModules(names []string) (g GraphModules) {
	for i, known := range graphNames {
		if len(names) == 0 || slices.Contains(names, known) {
			g |= 1 << i
		}
	}
	return g
}
