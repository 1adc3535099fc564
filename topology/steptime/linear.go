package steptime

import "github.com/moeplan/moeplan/layout/arch"

// linearShape is a linear-time mixer, per token: a gated delta net or Mamba 2.
type linearShape struct {
	mac    float64 // of the projections in and out
	scan   float64 // multiply-accumulates of the convolution and the state
	width  float64 // elements that the projection in writes
	inner  float64 // elements that the mixer hands to the projection out
	params float64 // elements of the weights
}

// linearShapeOf counts as Megatron does (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/training.py,
// num_floating_point_operations: Mamba in comm-model 4.1; the delta rule reads and writes a state of value dim x value
// dim per value head, 4 times). Published rows agree: TestLinearFLOPs.
func linearShapeOf(m *arch.Model, h float64) linearShape {
	var s linearShape
	kernel := 0.0
	conv := 0.0
	switch {
	case m.Mamba != nil:
		b := m.Mamba
		inner, state := float64(b.NumHeads*b.HeadDim), float64(b.NumGroups*b.StateDim)
		kernel, conv = float64(b.ConvKernel), inner+2*state
		s.width, s.inner = 2*inner+2*state+float64(b.NumHeads), inner
		s.scan = 3.5 * inner * float64(b.StateDim)
	case m.LinearAttention != nil:
		a := m.LinearAttention
		key, value := float64(a.KeyHeadDim*a.NumKeyHeads), float64(a.ValueHeadDim*a.NumValueHeads)
		kernel, conv = float64(a.ConvKernelDim), 2*key+value
		s.width, s.inner = 2*key+2*value+2*float64(a.NumValueHeads), value
		s.scan = kernel*conv + 4*float64(a.NumValueHeads*a.ValueHeadDim*a.ValueHeadDim)
	default:
		return s
	}
	s.mac = h * (s.width + s.inner)
	s.params = s.mac + kernel*conv
	return s
}

// linearMixer is the forward time of the mixer: its projections; a scan that TP splits by heads; and the memory traffic
// between them. Neither the scan's kernels nor anything else of it was measured.
func (e *Estimator) linearMixer(k *task, t *layerTime) {
	s := &e.shape.linear
	t.proj += e.gemm(k, s.mac, min(e.shape.h, s.inner/k.tp))
	t.scan = 2 * k.tokens * s.scan / k.tp * e.perFLOP / linearScan
	t.attnMemory += (k.own*2*8*e.shape.h + k.tokens/k.tp*2*(3*s.width+4*s.inner)) * k.perByte
}

// linearExchange is context parallelism of a linear mixer: it trades sequence shards for head shards before and after the
// scan, which nothing hides (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/ssm/mamba_context_parallel.py).
func (e *Estimator) linearExchange(k *task, full bool) ring {
	if k.l.CP == 1 {
		return ring{}
	}
	times := 2.0
	if full {
		times++
	}
	cp := float64(k.l.CP)
	r := ring{bytes: times * k.tokens / k.tp * (e.shape.linear.width + e.shape.linear.inner) * 2 * (cp - 1) / cp}
	rate := e.link.a2aNVLink
	if !k.place.cp.local {
		rate = e.link.a2aNIC
		r.crossing = r.bytes * (cp - k.place.cp.inside) / (cp - 1)
	}
	r.seconds = r.bytes * rate
	return r
}
