package steptime

import "github.com/moeplan/moeplan/layout/arch"

// ModelFLOPs returns the FLOPs that training one token of a sequence of seq tokens costs, forward and
// backward, in Megatron's convention: 6 times the multiply-accumulates of the matrix products, causal
// attention at half, no router, softmax, permute or embedding, and never recompute
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/training.py, num_floating_point_operations; comm-model
// 4.1). The vocabulary is the unpadded one. Sliding windows count as full attention, as there.
//
// It is 0 for models with layers that this package does not model.
func ModelFLOPs(m *arch.Model, seq int) float64 {
	s := shapeOf(m)
	layers := m.Layers()
	if supported(m) != nil || len(layers) == 0 {
		return 0
	}
	// An MTP layer counts as one more layer of the last one's kind, its projection 2h -> h and three norms
	// beside it.
	for range m.MTPNumLayers {
		layers = append(layers, m.MTPLayers()...)
	}
	mac := float64(m.MTPNumLayers) * (3*s.h + 2*s.h*s.h)
	if m.Kind == arch.Hybrid { // whose counting leaves the projection out: TestLinearFLOPs
		mac = 0
	}
	for _, l := range layers {
		c := &contents[kindOf(l)]
		if c.attention {
			mac += s.projMAC + s.coreMAC*float64(seq)/2
		}
		if c.linear {
			mac += s.linear.mac + s.linear.scan
		}
		if c.moe {
			mac += s.mlp * (s.expertWidth*s.topK*s.f + s.h*s.shared)
			if s.latent() {
				mac += 2 * s.h * s.expertWidth
			}
		}
		if c.dense {
			mac += s.mlp * s.h * s.ffn
		}
	}
	mac += s.h * s.vocab * float64(1+m.MTPNumLayers)
	return 6 * mac
}
