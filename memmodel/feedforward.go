package memmodel

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// denseMLP tallies what a dense MLP saves (memory-model.md 3.3). Its norm is fused into fc1.
func (s *shape) denseMLP(t *tally) {
	f := int64(s.m.FFNHiddenSize) / s.tp
	t.save("post-attention residual", s.w*s.ts*s.h, 0)
	norm := layout.MLP
	if s.run.Local { // there the norm stands before the checkpointed module, whose input stays
		norm = s.separateNorm()
	}
	t.save("fc1 input (norm output)", s.linearInput(s.ts*s.h), norm)
	t.save("MLP norm statistics", s.normStats(s.ts), norm)
	t.save("fc1 output", s.w*s.t*s.gate()*f, layout.MLP)
	t.save("fc2 input (activation output)", s.linearInput(s.t*f), layout.MLP)
	if n := s.unfusedActivationTensors() - 1; n > 0 { // without probabilities one product less
		t.save("unfused activation", n*s.w*s.t*f, layout.MLP)
	}
	t.save("MLP dropout-add mask", s.dropoutMask(), 0)
}

// fusedActivation reports whether one kernel computes the activation, and for experts the product with the
// probabilities: SwiGLU does, unless its fusion is off; quick-GEGLU only with its fusion, which models with a linear
// offset or clamp switch off (gpt-oss passes --no-bias-gelu-fusion); squared ReLU with its own flag.
func (s *shape) fusedActivation() bool {
	switch s.m.Activation {
	case arch.SwiGLU:
		return !s.run.NoActivationFusion
	case arch.SquaredReLU:
		return s.run.WeightedSquaredReLU
	}
	return false
}

// unfusedActivationTensors is how many tensors of the activation's width autograd keeps between an expert's fc1 output
// and its fc2 input: the operands of each product (memory-findings.md C9). act(x) for the product with the
// probabilities; when gated also act(gate) for that with the value half, whose offset half quick-GEGLU keeps too.
func (s *shape) unfusedActivationTensors() int64 {
	switch {
	case s.fusedActivation():
		return 0
	case s.m.Activation == arch.QuickGEGLU:
		return 3
	case s.m.Activation.Gated():
		return 2
	}
	return 1
}
