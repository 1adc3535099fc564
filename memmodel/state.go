package memmodel

import "github.com/moeplan/moeplan/layout"

// state is what a stage's parameters cost: their weights, gradients and optimizer state.
type state struct {
	weights, gradients, optimizer int64
	dense, expert                 int64 // the same bytes by set
}

// stateOf prices elements by memory-model.md 2.2 and 2.4. The distributed optimizer shards master weights and
// moments over DP*CP ranks for dense parameters and EDP ranks for experts; buffer padding (below 0.01 % at these
// sizes) is left out.
func (s *shape) stateOf(e Elements) state {
	r := s.run
	denseShards, expertShards := int64(1), int64(1)
	if r.DistributedOptimizer {
		denseShards = int64(s.l.DP()) * int64(s.l.CP)
		expertShards = int64(s.l.EDP())
	}
	weight, gradient := int64(2), int64(r.GradientBytes)
	perShard := int64(r.MasterBytes + 2*r.MomentBytes)
	if s.l.Precision == layout.FP16 {
		gradient = 2
	}
	// Where main gradients are not fp32, the fp32 copy that the step makes stays until the next zero_grad
	// (memory-findings.md C12).
	if gradient < 4 && !r.PrecisionAware {
		perShard += 4
	}
	denseOptimizer := perShard * ceilDiv(e.Dense, denseShards)
	expertOptimizer := perShard * ceilDiv(e.Expert, expertShards)

	st := state{
		weights:   weight*e.Total() + s.quantizedWeights(e.linear),
		gradients: gradient * e.Total(),
		optimizer: denseOptimizer + expertOptimizer,
	}
	st.expert = (weight+gradient)*e.Expert + expertOptimizer
	st.dense = st.weights + st.gradients + st.optimizer - st.expert
	return st
}

// quantizedWeights is the cache of quantized weights that FP8 compute keeps beside bf16 parameters
// (memory-model.md 2.4; Hopper's two copies confirmed by memory-findings.md C16).
func (s *shape) quantizedWeights(linear int64) int64 {
	switch s.l.Precision {
	case layout.FP8Tensorwise:
		if s.run.SM >= 100 {
			return linear
		}
		return 2 * linear
	case layout.FP8Blockwise: // two directions, one fp32 scale per 128x128 block
		return 2*linear + linear/2048
	case layout.MXFP8: // two directions, one scale byte per 32 elements
		return 2*linear + linear/16
	}
	return 0
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
