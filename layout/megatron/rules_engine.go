package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// engineRules are about what Transformer Engine and the real layers refuse, which no recording ran.
var engineRules = []rule{
	inRun(realLaunch, shared("groups-divide-heads", "--num-query-groups", "--num-attention-heads")),
	{
		Rule: headAt("cp-comm-type-names", "36", layout.Error, layout.AtTE, teContext+"4246", "--cp-comm-type is p2p, all_gather, a2a or a2a+p2p",
			"The help says allgather, which Transformer Engine does not know; only sparse attention (dsa) takes that."),
		run:    realLaunch,
		broken: func(c *launch) bool { return c.Degrees.CP > 1 && !c.local() && c.badCommType() != "" },
		say: func(c *launch) string {
			return "--cp-comm-type " + quoted(c.badCommType()) + " is none of p2p, all_gather, a2a, a2a+p2p"
		},
		turn: []string{"--cp-comm-type p2p", "--cp-comm-type all_gather", "--cp-comm-type a2a"},
	},
	{
		Rule: layoutRule("cp-a2a-heads"), run: realLaunch,
		broken: func(c *launch) bool {
			n := c.exchangeRanks()
			q, kv := c.headsPerRank()
			return n > 1 && !c.local() && c.attends() && (q%n != 0 || kv%n != 0)
		},
		say: func(c *launch) string {
			q, kv := c.headsPerRank()
			return fmt.Sprintf("all-to-all over %d context ranks does not divide both the %d query heads and the %d KV heads of a rank at TP %d", c.exchangeRanks(), q, kv, c.Degrees.TP)
		},
		turn: []string{"--context-parallel-size", "--cp-comm-type p2p", "--cp-comm-type all_gather"},
	},
	{
		Rule: headAt("cp-window-exchange", "38", layout.Error, layout.AtTE, teContext+"4246", "CP on sliding windows needs --cp-comm-type a2a or all_gather",
			"The ring has no window."),
		run:    realLaunch,
		broken: func(c *launch) bool { return c.Degrees.CP > 1 && c.model.SlidingWindow != nil && c.hasRing() },
		say: func(c *launch) string {
			return fmt.Sprintf("sliding windows at CP %d with --cp-comm-type %v", c.Degrees.CP, c.CPCommType)
		},
		turn: []string{"--cp-comm-type a2a", "--cp-comm-type all_gather", "--context-parallel-size 1"},
	},
	{
		Rule: headAt("cp-sinks-exchange", "39", layout.Error, layout.AtTE, teContext+"4246", "CP on attention sinks needs --cp-comm-type a2a",
			"Ring and gather do not know the extra softmax term."),
		run: realLaunch,
		broken: func(c *launch) bool {
			return c.Degrees.CP > 1 && c.model.SoftmaxType != "" && !allOf(c.CPCommType, "a2a")
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--softmax-type %s at CP %d with --cp-comm-type %v", c.model.SoftmaxType, c.Degrees.CP, c.CPCommType)
		},
		turn: []string{"--cp-comm-type a2a", "--context-parallel-size 1"},
	},
	{
		Rule: headAt("cp-attention-backend", "40", layout.Error, layout.AtTE, "TransformerEngine@d0067d0da transformer_engine/pytorch/attention/dot_product_attention/utils.py:1169",
			"CP excludes unfused attention",
			"Only fused and flash kernels return the softmax statistics that the parts of a sequence are joined by."),
		run:    realLaunch,
		broken: func(c *launch) bool { return c.Degrees.CP > 1 && c.str("attention_backend") == "unfused" },
		say:    func(c *launch) string { return fmt.Sprintf("--attention-backend unfused at CP %d", c.Degrees.CP) },
		turn:   []string{"--attention-backend fused", "--attention-backend auto"},
	},
	{
		Rule: headAt("local-no-cp", "40", layout.Error, layout.AtModelBuild, "megatron/core/transformer/dot_product_attention.py:58", "the local attention needs CP 1",
			"Only Transformer Engine's attention is context parallel."),
		run:    realLaunch,
		broken: func(c *launch) bool { return c.local() && c.Degrees.CP > 1 },
		say:    func(c *launch) string { return fmt.Sprintf("--transformer-impl local at CP %d", c.Degrees.CP) },
		turn:   []string{"--context-parallel-size 1", "--transformer-impl transformer_engine"},
	},
	{
		Rule: headAt("local-norm-no-sp", "", layout.Error, layout.AtModelBuild, "megatron/core/transformer/torch_norm.py:52", "the local norm needs sequence parallelism off",
			"PyTorch's norm does not mark its weights for the extra reduction. Apex' LayerNorm would."),
		run:    realLaunch,
		broken: func(c *launch) bool { return c.local() && c.SequenceParallel },
		say: func(c *launch) string {
			return fmt.Sprintf("--transformer-impl local with sequence parallelism at TP %d", c.Degrees.TP)
		},
		turn: []string{"--transformer-impl transformer_engine", "--sequence-parallel"},
	},
}

const teContext = "TransformerEngine@d0067d0da transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py:"

// badCommType returns a --cp-comm-type that Transformer Engine does not know.
func (c *launch) badCommType() string {
	for _, t := range c.CPCommType {
		switch t {
		case "p2p", "all_gather", "a2a", "a2a+p2p":
		default:
			if c.variant() != "dsa" {
				return t
			}
		}
	}
	return ""
}

// exchangeRanks is how many context ranks exchange sequence for heads; 0 for none.
func (c *launch) exchangeRanks() int {
	for _, t := range c.CPCommType {
		switch h := c.hierarchy(); {
		case t == "a2a":
			return c.Degrees.CP
		case t == "a2a+p2p" && len(h) > 0 && h[0] > 0:
			return h[0]
		}
	}
	return 0
}

// headsPerRank returns the query and KV heads of one tensor parallel rank.
func (c *launch) headsPerRank() (q, kv int) {
	q = c.Shape.Heads / c.Degrees.TP
	if c.Shape.Latent {
		return q, q
	}
	return q, max(1, c.Shape.QueryGroups/c.Degrees.TP)
}

// attends reports whether a layer has softmax attention.
func (c *launch) attends() bool {
	return !c.hybrid() || len(c.layers) > 0 && c.model.HybridLayerPattern != ""
}

func (c *launch) hasRing() bool {
	for _, t := range c.CPCommType {
		if t == "p2p" || t == "a2a+p2p" {
			return true
		}
	}
	return false
}

func allOf(list []string, want string) bool {
	for _, s := range list {
		if s != want {
			return false
		}
	}
	return true
}
