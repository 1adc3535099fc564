package memmodel

import "github.com/moeplan/moeplan/layout"

// state is what a stage's parameters cost: their weights, gradients and optimizer state.
type state struct {
	weights, gradients, optimizer int64
	dense, expert                 int64 // the same bytes by set
	// stepCopies of optimizer are what the step leaves until the next zero_grad: the forward and backward passes do
	// not see them.
	stepCopies int64
	// stepTemporary is what the step needs beside everything that stays: moments expanded to fp32, Muon's iterations.
	stepTemporary int64
	// persistent are unsharded buffers that stay (Megatron-FSDP's double buffers).
	persistent int64
	// gathered are unsharded weights that a running layer needs beside what is held (Megatron-FSDP).
	gathered int64
	// host is optimizer state moved to the host.
	host int64
}

// held is what one rank holds: its parameters, their buffers with padding, and the largest part of each buffer that one
// rank's optimizer owns.
type held struct {
	e                       Elements
	dense, expert           int64
	denseShare, expertShare int64
}

// holdings adds up a rank's chunks.
func (s *shape) holdings(c *class, p *partElements) held {
	var h held
	for v := range c.chunks {
		k := &c.chunks[v]
		e := k.elements(s.m, p, c.tiedHead)
		dense, expert := s.padded(k, &e, p, c.tiedHead)
		if s.quantized() {
			e.linear -= s.unquantized(k, p)
		}
		h.e = h.e.plus(&e, 1)
		h.dense += dense
		h.expert += expert
		// A rank's share has no more parameters than the chunk, and no more than an even part of the padded buffer.
		h.denseShare += min(e.Dense, ceilDiv(dense, s.denseShards))
		h.expertShare += min(e.Expert, ceilDiv(expert, s.expertShards))
	}
	return h
}

// unquantized counts the linear weights of the layers that --first-last-layers-bf16 leaves in bf16.
func (s *shape) unquantized(k *chunk, p *partElements) (n int64) {
	start, end := k.bf16Start, max(k.bf16Start, len(k.kinds)-k.bf16End)
	for _, kind := range k.kinds[:start] {
		n += p.kinds[kind].linear
	}
	for _, kind := range k.kinds[end:] {
		n += p.kinds[kind].linear
	}
	return n
}

// gradientBytes is the size of a main gradient element: fp16 runs keep them in fp16.
func (s *shape) gradientBytes() int64 {
	switch {
	case s.run.FP32:
		return 4
	case s.l.Precision == layout.FP16:
		return 2
	}
	return int64(s.run.GradientBytes)
}

// stateOf prices what a rank holds by memory-model.md 2.2 to 2.5. The distributed optimizer shards master weights and
// moments over DP*CP ranks for dense parameters and EDP ranks for experts.
func (s *shape) stateOf(h *held) state {
	r := s.run
	weight, gradient := s.w, s.gradientBytes()
	master := int64(r.MasterBytes)
	if r.FP32 {
		master = 0
	}
	moments := r.adamBytes()
	if r.FSDP != NoFSDP {
		return s.fsdpState(h, gradient, master+moments)
	}

	perShard := master + moments
	// Where main gradients are not fp32, the fp32 copy that the step makes stays until the next zero_grad
	// (memory-findings.md C12).
	copies := int64(0)
	if gradient < 4 && !r.PrecisionAware {
		copies = 4
	}
	denseOptimizer := (perShard + copies) * h.denseShare
	expertOptimizer := (perShard + copies) * h.expertShare
	own := master * ceilDiv(h.e.single, s.denseShards) // fp32 parameters are their own master
	denseOptimizer -= own

	var st state
	st.stepCopies = copies * (h.denseShare + h.expertShare)
	st.host = s.offloadedState(h, master)
	if moved := s.hostedBytes(master); moved > 0 {
		f := r.Offload.OptimizerFraction
		if !r.PrecisionAware {
			own = 0 // masters stay
		}
		denseOptimizer -= int64(f * float64(moved*h.denseShare-own))
		expertOptimizer -= int64(f * float64(moved*h.expertShare))
	}
	st.stepTemporary = s.expandedMoments() * (h.denseShare + h.expertShare)
	st.weights = weight*(h.dense+h.expert) + (4-weight)*h.e.single + s.quantizedWeights(h.e.linear)
	st.gradients = s.trained(gradient*(h.dense+h.expert) + (4-gradient)*h.e.single)
	st.optimizer = s.trained(denseOptimizer + expertOptimizer)
	st.stepCopies, st.stepTemporary, st.host = s.trained(st.stepCopies), s.trained(st.stepTemporary), s.trained(st.host)
	st.expert = weight*h.expert + s.trained(gradient*h.expert+expertOptimizer-copies*h.expertShare)
	st.dense = st.weights + st.gradients + st.optimizer - st.stepCopies - st.expert
	return st
}

// trained is the part of some bytes of gradients or optimizer state that parameters which are trained have.
func (s *shape) trained(n int64) int64 {
	if f := s.run.TrainableFraction; f > 0 && f < 1 {
		return int64(f * float64(n))
	}
	return n
}

// expandedMoments is the bytes per element of moments that the precision-aware optimizer expands to fp32 for its kernel:
// each narrow one, unless both are 2 bytes, which one kernel reads as they are (memory-model.md 2.3).
func (s *shape) expandedMoments() (n int64) {
	first, second := s.run.MomentBytes, s.run.SecondMomentBytes
	if second == 0 {
		second = first
	}
	if !s.run.PrecisionAware || first == 2 && second == 2 {
		return 0
	}
	for _, bytes := range [...]int{first, second} {
		if bytes < 4 {
			n += 4
		}
	}
	return n
}

// hostedBytes is what leaves the GPU per element of optimizer state offloaded: both moments, and with the
// precision-aware optimizer the master copy too (memory-model.md 2.5, confirmed by 9.3).
func (s *shape) hostedBytes(master int64) int64 {
	r := s.run
	switch {
	case r.Offload.OptimizerFraction <= 0:
		return 0
	case r.PrecisionAware:
		return master + r.adamBytes()
	}
	return r.adamBytes()
}

// hostBytesPerElement is what the host pins for each: fp32 parameter, gradient, and both moments (memory-model.md 2.5).
const hostBytesPerElement = 16

func (s *shape) offloadedState(h *held, master int64) int64 {
	if s.hostedBytes(master) == 0 {
		return 0
	}
	return int64(s.run.Offload.OptimizerFraction * float64(hostBytesPerElement*(h.denseShare+h.expertShare)))
}

// quantizedWeights is what FP8 or FP4 compute adds to the bf16 parameters: a cache of quantized weights beside them
// (memory-model.md 2.4; Hopper's two copies confirmed by memory-findings.md C16), or with --fp8-param-gather the
// quantized weights in their place.
func (s *shape) quantizedWeights(linear int64) int64 {
	var cache int64
	switch s.l.Precision {
	case layout.FP8Tensorwise:
		cache = 2 * linear
		if s.run.SM >= 100 {
			cache = linear
		}
	case layout.FP8Blockwise: // two directions, one fp32 scale per 128x128 block
		cache = 2*linear + linear/2048
	case layout.MXFP8: // two directions, one scale byte per 32 elements
		cache = 2*linear + linear/16
	case layout.NVFP4: // two directions of half a byte, one scale byte per 16 elements
		cache = linear + linear/8
	default:
		return 0
	}
	if s.run.GatherQuantized {
		cache -= s.w * linear
	}
	return cache
}
