package memmodel

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// UnsupportedError names a part of a model or a layout that this package cannot price. It is never a guess.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string {
	return "memory of " + e.What + " is not modelled yet"
}

// Supported reports, as an *UnsupportedError, what stands in the way of pricing a model.
func Supported(m *arch.Model) error {
	for _, layers := range [][]arch.Layer{m.Layers(), m.MTPLayers(), m.MTPLayersAlone()} {
		for _, l := range layers {
			switch {
			case l.Mixer == arch.MambaMixer && m.Mamba == nil:
				return &UnsupportedError{"Mamba layers without sizes in " + m.ID}
			case l.Mixer == arch.GatedDeltaNet && m.LinearAttention == nil:
				return &UnsupportedError{"gated delta net layers without sizes in " + m.ID}
			}
		}
	}
	return nil
}

// supportedLayout refuses what layouts may carry but this package cannot price.
func supportedLayout(l *layout.Layout) error {
	if l.Split == nil || len(l.Split.Cells) != l.PP*l.VPP {
		return fmt.Errorf("layout has no pipeline split of %d stages x %d chunks", l.PP, l.VPP)
	}
	if l.MicroBatchSize < 1 || l.GlobalBatchSize < 1 || l.SeqLength < 1 {
		return fmt.Errorf("no activations without a batch and a sequence: micro-batch size %d, global batch size %d, sequence length %d",
			l.MicroBatchSize, l.GlobalBatchSize, l.SeqLength)
	}
	if l.VPP > maxChunks {
		return &UnsupportedError{fmt.Sprintf("VPP %d (the largest priced is %d)", l.VPP, maxChunks)}
	}
	return nil
}
