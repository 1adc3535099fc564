package launch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// layerTotal is what memmodel counts for one layer, with the CPU's kernels.
func layerTotal(t *testing.T, c *savedCase, base []string, i int) int64 {
	s, e, _ := setUp(t, c.World, c.Vocab, argvOf(base, c)...)
	k := cpuOf(s.Model, &s.Layout)
	r := s.Layout.Recompute
	var total int64
	for _, x := range e.LayerTensors(&s.Layout, s.Model.Layers()[i]) {
		p, ok := places[x.Name]
		switch {
		case x.Recomputed || slices.Contains(notCompared, x.Name):
		case !ok:
			t.Fatalf("record %d: no module for %q", c.Record, x.Name)
		case r.Has(layout.LayerNorm) && (x.Name == "layer input" || x.Name == "post-attention residual"):
			total += x.Bytes // a norm that is made again keeps its input alone
		case p.as != nil:
			total += p.as(&k, x.Bytes)
		default:
			total += x.Bytes
		}
	}
	return total
}

// recordedTotal sums all that was recorded inside one layer, and apart what is index maps and tables of a router.
func recordedTotal(c *savedCase, i int) (total, tables int64) {
	prefix := fmt.Sprintf("decoder.layers.%d", i)
	for module, bytes := range c.ByModule {
		if module != prefix && !strings.HasPrefix(module, prefix+".") {
			continue
		}
		total += bytes
		if module == prefix+".mlp.router" || module == prefix+".mlp" {
			tables += bytes
		}
	}
	return total, tables
}

// TestSavedUnderRecompute: what each recompute module, alone and together, takes off the bytes that autograd really kept
// of a layer, for the bf16 models of the recording.
func TestSavedUnderRecompute(t *testing.T) {
	base, cases := savedCases(t)
	none := map[int]*savedCase{}
	for i := range cases {
		if cases[i].Variant == "none" {
			none[cases[i].Group] = &cases[i]
		}
	}
	compared := map[string]int{}
	for i := range cases {
		c := &cases[i]
		whole := none[c.Group]
		if c.Dtype != "bfloat16" || c.Variant == "none" || strings.HasPrefix(c.Variant, "full") {
			continue
		}
		s, _, _ := setUp(t, c.World, c.Vocab, argvOf(base, c)...)
		for j, layer := range s.Model.Layers() {
			before, tables := recordedTotal(whole, j)
			after, _ := recordedTotal(c, j)
			want := before - after
			got := layerTotal(t, whole, base, j) - layerTotal(t, c, base, j)
			if c.Variant == "moe" && layer.Feedforward == arch.MoEMLP {
				got += tables // made again too
				if s.Model.MoE.SharedFFNSize == 0 {
					got -= cpuOf(s.Model, &s.Layout).ts * 2 * int64(s.Model.HiddenSize) // recorded with the router, and kept
				}
			}
			compared[c.Variant]++
			slack := int64(16) // a checkpoint keeps a few scalars
			if c.Variant == "mla_up_proj" {
				// and up to four tables of the rotary embedding's angles are inside it or not; a GPU has one for all layers
				slack = 4 * 2 * int64(s.Layout.SeqLength*s.Model.MLA.QKPosEmbHeadDim)
			}
			if off := got - want; off < -slack || off > slack {
				t.Errorf("record %d (%s) layer %d: %d bytes less, recorded %d (%s)", c.Record, c.Variant, j, got, want, strings.Join(c.Argv, " "))
			}
		}
	}
	t.Logf("layers: %v", compared)
}

// TestSavedUnderFullRecompute: one input of the residual stream per checkpoint is all that a fully recomputed layer leaves.
func TestSavedUnderFullRecompute(t *testing.T) {
	base, cases := savedCases(t)
	models := 0
	for i := range cases {
		c := &cases[i]
		if c.Dtype != "bfloat16" || !strings.HasPrefix(c.Variant, "full_uniform") {
			continue
		}
		models++
		s, _, _ := setUp(t, c.World, c.Vocab, argvOf(base, c)...)
		n := s.Layout.Recompute.NumLayers
		k := cpuOf(s.Model, &s.Layout)
		inputs := int64((s.Model.NumLayers+n-1)/n) * k.w * k.ts * int64(s.Model.HiddenSize)
		angles := c.ByModule["decoder"] - inputs // of the rotary embedding, once
		if angles < 0 || angles > 2*4*int64(s.Layout.SeqLength)*128 {
			t.Errorf("record %d: %d bytes stored by the decoder, %d are %d inputs", c.Record, c.ByModule["decoder"], inputs, (s.Model.NumLayers+n-1)/n)
		}
		for module, bytes := range c.ByModule {
			if strings.HasPrefix(module, "decoder.layers") && bytes > 0 {
				t.Errorf("record %d: %s keeps %d bytes", c.Record, module, bytes)
			}
		}
	}
	t.Logf("%d models", models)
}
