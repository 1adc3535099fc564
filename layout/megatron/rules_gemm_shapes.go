package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// shapeRules are what FP8 GEMMs ask of sizes. No recording ran one.
var shapeRules = []rule{
	{
		Rule: headAt("fp8-tokens", "129", layout.Error, layout.AtTE, teShapes, "in FP8 a rank's tokens are a multiple of 8",
			"One dimension of every GEMM is their number."),
		run:    realLaunch,
		broken: func(c *launch) bool { return c.fp8() && !c.local() && c.tokens()%8 != 0 },
		say: func(c *launch) string {
			return fmt.Sprintf("sequence length %d / CP %d * MBS %d = %d tokens are no multiple of 8", c.l.SeqLength, c.Degrees.CP, c.Batch.MicroBatchSize, c.tokens())
		},
		turn: []string{"--micro-batch-size", "--seq-length", "--fp8-format"},
	},
	{
		Rule: headAt("fp8-widths", "129", layout.Error, layout.AtTE, teShapes, "in FP8 the widths of a rank's GEMMs are multiples of 16",
			"FP8 tensors are read in rows of 16."),
		run:    realLaunch,
		broken: func(c *launch) bool { return c.fp8() && !c.local() && c.oddWidth() != "" },
		say:    func(c *launch) string { return c.oddWidth() + " is no multiple of 16" },
		turn:   []string{"--tensor-model-parallel-size", "--expert-tensor-parallel-size", "--ffn-hidden-size", "--moe-ffn-hidden-size", "--fp8-format"},
	},
}

const teShapes = "TransformerEngine@d0067d0da transformer_engine/pytorch/utils.py:614"

// tokens are those of one micro-batch on one context parallel rank, after sequence parallel parts are gathered.
func (c *launch) tokens() int { return c.l.SeqLength / c.Degrees.CP * c.Batch.MicroBatchSize }

// oddWidth names a width of a rank's GEMMs that is no multiple of 16, "" if there is none. Latent attention's own widths are
// left out.
func (c *launch) oddWidth() string {
	s, tp, etp := &c.Shape, c.Degrees.TP, c.Degrees.ETP
	widths := []gemmWidth{{"hidden size", s.HiddenSize, 1}}
	for _, l := range distinct(c.layers) {
		if rows := s.Heads * s.KVChannels; l.Mixer == arch.GQA {
			widths = append(widths, gemmWidth{"width of the attention heads", rows, tp},
				gemmWidth{"rows of the QKV projection", rows + 2*s.QueryGroups*s.KVChannels, tp})
		}
		switch l.Feedforward {
		case arch.DenseMLP:
			widths = append(widths, gemmWidth{"dense MLP width", s.FFN, tp})
		case arch.MoEMLP:
			widths = append(widths, gemmWidth{"expert width", s.MoEFFN, etp}, gemmWidth{"shared expert width", c.int("moe_shared_expert_intermediate_size"), tp})
		}
	}
	for _, w := range widths {
		if w.size%w.parts == 0 && w.size/w.parts%16 != 0 {
			return fmt.Sprintf("%s %d / %d = %d", w.what, w.size, w.parts, w.size/w.parts)
		}
	}
	return ""
}

// gemmWidth is a width that is cut over so many ranks.
type gemmWidth struct {
	what        string
	size, parts int
}
