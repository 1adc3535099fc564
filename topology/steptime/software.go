package steptime

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// Software is the side of a run that changes its speed but not its layout or its mathematics.
type Software struct {
	Dispatcher layout.Dispatcher
	// EPOverlap is --overlap-moe-expert-parallel-comm, DelayWgrad --delay-wgrad-compute with it.
	EPOverlap  bool
	DelayWgrad bool
	// TPOverlap is --tp-comm-overlap: gathers and scatters run in pieces beside the GEMMs that need them.
	TPOverlap bool
	// Graph is how much of the host's work CUDA graphs replay.
	Graph Graph
	// Since2606 stands for the fused quantisation, permute and grouped GEMM kernels of Megatron-Bridge 26.06
	// and later, and for attention kernels that skip the tiles outside a sliding window.
	Since2606 bool
	// FusedPermute is --moe-permute-fusion. Every tuned recipe sets it; Megatron's own default does not.
	FusedPermute bool
	// OverlapDP is --overlap-grad-reduce with --overlap-param-gather.
	OverlapDP bool
}

// Graph is the scope of CUDA graphs (--cuda-graph-scope).
type Graph uint8

const (
	Eager         Graph = iota // none
	RouterGraph                // moe_router and moe_preprocess
	AttnGraph                  // attention too
	FullIteration              // the whole iteration
)

// String names the scope.
func (g Graph) String() string {
	switch g {
	case Eager:
		return "eager"
	case RouterGraph:
		return "router"
	case AttnGraph:
		return "attn"
	case FullIteration:
		return "full-iteration"
	}
	return "unknown"
}

// BringUp is the software of a first run, the price that DESIGN calls "now": alltoall dispatcher, eager, no
// EP overlap, data-parallel overlap as every recipe has it. Precision is the layout's.
func BringUp() Software {
	return Software{Dispatcher: layout.AllToAll, FusedPermute: true, OverlapDP: true}
}

// AsWritten is [BringUp] with the dispatcher and the EP overlap that the layout itself names.
func AsWritten(l *layout.Layout) Software {
	sw := BringUp()
	sw.Dispatcher, sw.EPOverlap = l.Dispatcher, l.EPOverlap
	return sw
}

// smallEP is the largest ETP*EP for which dispatchers are not ranked by predicted time
// (ranking-findings 3 item 9).
const smallEP = 8

// Tuned is what a team reaches with known switches: the dispatcher that the rule of ranking-findings 3 item
// 9 names, EP overlap where Megatron accepts it, TP overlap for dense models (beside EP overlap it would want
// CUDA_DEVICE_MAX_CONNECTIONS=1, which the latter cannot work with; comm-model 6 item 12; NVFP4 recipes switch it off), attention
// graphs on Blackwell as published recipes have them.
//
// The dispatcher is a rule and no prediction: inside one domain and up to 8 ranks the model prefers flex
// where a measurement found alltoall faster on Hopper. There alltoall is taken on Hopper and HybridEP on
// Blackwell; beyond, the flex backend of the platform: DeepEP on Hopper, HybridEP on Blackwell.
func (e *Estimator) Tuned(l *layout.Layout) Software {
	sw := BringUp()
	sw.Dispatcher = e.tunedDispatcher(l)
	sw.EPOverlap = e.OverlapLegal(l)
	sw.DelayWgrad = sw.EPOverlap
	sw.TPOverlap = e.model.MoE == nil && l.TP > 1 && l.SequenceParallel && l.Precision != layout.NVFP4
	if e.chip.family == &blackwell {
		sw.Graph = AttnGraph
	}
	return sw
}

func (e *Estimator) tunedDispatcher(l *layout.Layout) layout.Dispatcher {
	n := l.EP * l.ETP
	if e.model.MoE == nil || n == 1 || !e.hw.flexDispatch {
		return layout.AllToAll
	}
	if e.chip.family == &blackwell {
		return layout.HybridEP
	}
	if n <= smallEP && n <= e.hw.domain {
		return layout.AllToAll
	}
	return layout.DeepEP
}

// OverlapLegal reports whether Megatron accepts --overlap-moe-expert-parallel-comm for a layout, as far as
// the layout decides: EP > 1, interleaved when PP > 1, no full and no moe recompute, at most one MTP layer
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/transformer/transformer_config.py; comm-model 1.4). It
// assumes --moe-shared-expert-overlap off, which excludes it too.
func (e *Estimator) OverlapLegal(l *layout.Layout) bool {
	return e.model.MoE != nil && e.model.Kind != arch.Hybrid && l.EP > 1 &&
		(l.PP == 1 || l.VPP > 1) &&
		l.Recompute.Granularity != layout.Full && !l.Recompute.Has(layout.MoE) &&
		e.model.MTPNumLayers <= 1
}
