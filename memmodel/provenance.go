package memmodel

import "github.com/moeplan/moeplan/layout/arch"

// Provenance splits a stage's peak by what its figures rest on.
type Provenance struct {
	// Exact is arithmetic that the framework itself does: state, buffers, workspaces, named tensors. It agrees with
	// recordings byte for byte where there are any.
	Exact int64
	// Fitted rests on a constant that was chosen with measurements in view: the router's entries, and what lives beside
	// the saved tensors at the loss and in an expert layer.
	Fitted int64
	// Assumed has no measurement: gated delta nets, and what lives beside the saved tensors in other layers.
	Assumed int64
}

// provenance splits the peak of one class.
func (s *shape) provenance(c *class, f *figures) Provenance {
	total := f.peak()
	var p Provenance
	at := f.at.moment
	passes := f.static() - f.state.stepCopies + f.at.activations + f.at.transient
	if at == nil || passes < total { // the step's own peak
		p.Assumed = f.state.stepTemporary
		p.Exact = total - p.Assumed
		return p
	}
	if !s.full {
		router, recurrent := s.routerBytes(), s.recurrentBytes()
		for v, n := range at.live {
			k := &c.chunks[v]
			for i := range k.tails {
				kind := k.tails[i].kind
				each := int64(n) * int64(k.count[kind])
				if kind.moe() {
					p.Fitted += each * router
				}
				if kind.mixer() == arch.GatedDeltaNet {
					p.Assumed += each * recurrent
				}
			}
		}
		p.Fitted = min(p.Fitted, f.at.activations)
		p.Assumed = min(p.Assumed, f.at.activations-p.Fitted)
	}
	if k := &c.chunks[at.chunk]; k.loss || c.has(layerKind.moe) {
		p.Fitted += f.at.transient
	} else {
		p.Assumed += f.at.transient
	}
	p.Exact = total - p.Fitted - p.Assumed
	return p
}

// routerBytes is what one MoE layer's router keeps, 0 without experts.
func (s *shape) routerBytes() int64 {
	if s.m.MoE == nil {
		return 0
	}
	return s.keptOf(s.moeMLP, func(x *Tensor) bool { return x.Name == routerTensor })
}

// recurrentBytes is what one gated delta net keeps, 0 without them.
func (s *shape) recurrentBytes() int64 {
	if s.m.LinearAttention == nil {
		return 0
	}
	return s.keptOf(s.gatedDeltaNet, func(*Tensor) bool { return true })
}

// keptOf adds up the tensors of a part that stay on the GPU.
func (s *shape) keptOf(part func(*tally), counts func(*Tensor) bool) (n int64) {
	var lines []Tensor
	t := s.newTally()
	t.lines = &lines
	part(&t)
	for i := range lines {
		if x := &lines[i]; !x.Recomputed && !x.Offloaded && counts(x) {
			n += x.Bytes
		}
	}
	return n
}
