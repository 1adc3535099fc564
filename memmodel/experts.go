package memmodel

import (
	"github.com/moeplan/moeplan/layout"
)

// routerTensor stands for all that a router keeps.
const routerTensor = "router"

// moeMLP tallies what a MoE layer saves with memory-efficient permutation, in which the expert activation
// multiplies the probabilities so that the second linear's output need not be kept (memory-model.md 3.4).
func (s *shape) moeMLP(t *tally) {
	moe := s.m.MoE
	fm := int64(moe.FFNHiddenSize) / s.etp

	t.saveOr("post-attention residual", s.w*s.ts*s.h, 0, OffloadMLPNorm)
	s.routed(t)
	s.dispatcher(t)
	t.saveOr("expert fc1 input (dispatched tokens)", s.expertInput(), layout.MoE, OffloadExpertFC1)
	t.save("permuted probabilities", 4*s.rows, layout.MoE)
	t.saveOr("expert fc1 output", s.w*s.rows*s.gate()*fm, layout.MoE, OffloadMoEAct)
	t.save("expert fc2 input (activation output)", s.linearInput(s.rows*fm), layout.MoE|layout.MoEAct)
	if n := s.unfusedActivationTensors(); n > 0 {
		t.save("unfused expert activation", n*s.w*s.rows*fm, layout.MoE|layout.MoEAct)
	}
	if moe.LatentSize > 0 {
		t.save("latent output projection input", s.w*s.ts*s.hl, layout.MoE)
	}
	s.unpermute(t)
	s.sharedExperts(t)
	t.save("MoE dropout-add mask", s.dropoutMask(), 0)
}

// routed is what a layer keeps up to its router: what a CUDA graph of moe_router holds, shared experts aside.
func (s *shape) routed(t *tally) {
	t.save("pre-MLP norm output", s.w*s.ts*s.h, layout.LayerNorm)
	t.save("pre-MLP norm statistics", s.normStats(s.ts), 0)
	t.save(routerTensor, s.ts*int64(s.m.MoE.NumExperts)*routerBytesPerEntry+8*s.sent, layout.MoE)
}

// dispatcher is what token dispatch keeps: index maps, and for DeepEP the received probabilities.
func (s *shape) dispatcher(t *tally) {
	moe := s.m.MoE
	experts, k := int64(moe.NumExperts), int64(moe.TopK)
	switch s.l.Dispatcher {
	case layout.AllGather:
		t.save("routing map of the gathered tokens", s.ts*int64(s.l.EP)*s.etp*s.local, layout.MoE)
	case layout.DeepEP:
		r := s.receivedTokens()
		t.save("received probabilities and maps", 4*r*s.local+r*s.local+4*r*(2*s.local+1)+12*s.ts*k, layout.MoE)
	case layout.HybridEP:
		// dispatch with permute leaves the expert input itself, and index maps of its rows.
		t.save("dispatch maps", 8*s.rows, layout.MoE)
	default:
		t.save("permutation map", 4*s.ts*(2*experts+1), layout.MoE)
		if s.local > 1 && s.l.EP > 1 {
			t.save("chunk sort maps", 8*s.rows, layout.MoE)
		}
	}
}

// expertInput is the first expert linear's input. Offload keeps it as it came where the recipe would quantize it in two
// steps (memory-model.md 3.8, save_original_input).
func (s *shape) expertInput() int64 {
	if s.run.Offload.Modules&OffloadExpertFC1 != 0 && s.l.Precision != layout.MXFP8 && s.l.Precision != layout.NVFP4 {
		return s.w * s.rows * s.hl
	}
	return s.linearInput(s.rows * s.hl)
}

// unpermute: deterministic algorithms add the experts' rows up with index_add, whose backward keeps the rows that it
// adds, because its formula takes their shape; the scatter_add of other runs, and the fused kernel, keep indices alone
// (NVIDIA/Megatron-LM@56818f9e50, of October 2025, megatron/core/transformer/moe/moe_utils.py, unpermute; PyTorch
// derivatives.yaml, index_add). It explains w*N*h a layer of the MoE tests with tensor parallel experts, which
// memory-findings.md section 3 item 1 left open.
func (s *shape) unpermute(t *tally) {
	if !s.run.Deterministic || s.run.FusedPermute || s.run.ScatterUnpermute || s.l.Dispatcher.Flex() {
		return
	}
	rows := s.rows
	if s.l.Dispatcher == layout.AllToAll { // back on the rank that sent them
		rows = s.sent
	}
	t.save("expert rows added up in order", s.w*rows*s.hl, layout.MoE)
}

func (s *shape) sharedExperts(t *tally) {
	moe := s.m.MoE
	if moe.SharedFFNSize == 0 {
		return
	}
	fs := int64(moe.SharedFFNSize) / s.tp
	drop := layout.MoE | layout.SharedExperts
	if s.run.SharedExpertOverlap && s.tp > 1 {
		t.save("shared expert input gathered over TP", s.w*s.t*s.h, drop)
	}
	t.save("shared expert fc1 output", s.w*s.t*s.gate()*fs, drop)
	t.save("shared expert fc2 input", s.linearInput(s.t*fs), drop)
	if n := s.unfusedActivationTensors() - 1; n > 0 {
		t.save("unfused shared expert activation", n*s.w*s.t*fs, drop)
	}
	if moe.SharedExpertGate {
		t.save("shared expert output before its gate", s.w*s.ts*s.h, drop)
	}
}

// receivedTokens is how many distinct tokens one rank receives under a de-duplicating dispatcher with uniform
// routing: each token once per rank that holds one of its experts (memory-model.md 3.4).
func (s *shape) receivedTokens() int64 {
	ep, k := float64(s.l.EP), s.m.MoE.TopK
	miss := 1.0
	e, local := float64(s.m.MoE.NumExperts), float64(s.local)
	for i := range k {
		// Once as many experts are chosen as other ranks hold, every token has one here.
		if miss *= (e - local - float64(i)) / (e - float64(i)); !(miss > 0) {
			miss = 0
			break
		}
	}
	return int64(float64(s.ts) * ep * float64(s.etp) * (1 - miss))
}
