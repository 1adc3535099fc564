package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// sequenceRules are about the sequence and how CP and SP cut it.
var sequenceRules = []rule{
	shared("cp-divides-sequence", "--context-parallel-size", "--seq-length"),
	widened("sequence-within-positions",
		func(c *launch) bool {
			return !c.none("max_position_embeddings") && c.l.SeqLength > c.Batch.MaxPositionEmbeddings
		},
		func(c *launch) string {
			return fmt.Sprintf("sequence length %d exceeds --max-position-embeddings %d", c.l.SeqLength, c.Batch.MaxPositionEmbeddings)
		},
		"MATCH --max-position-embeddings", "MATCH --seq-length"),
	{
		Rule: head("cp-comm-type-list", "35", inConfig, 3105, "--cp-comm-type is one for all layers or one for each",
			"A list is read layer by layer."),
		broken: func(c *launch) bool {
			n := len(c.CPCommType)
			return c.Degrees.CP > 1 && n != 1 && n != c.Shape.NumLayers
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%d values of --cp-comm-type for %d layers", len(c.CPCommType), c.Shape.NumLayers)
		},
		turn: []string{"--cp-comm-type p2p", "--cp-comm-type"},
	},
	{
		Rule: headAt("moe-sp-old", "30", layout.Error, layout.AtConfig, "megatron/core/model_parallel_config.py:390 (core_v0.14.0)", "up to 0.15 EP > 1 and TP > 1 need sequence parallelism",
			"The config refuses it there; later releases warn and fail at the first forward. 0.15 fails with a NameError, because the module it warns with is not imported."),
		until: "0.15.3",
		broken: func(c *launch) bool {
			return c.Degrees.EP > 1 && c.Degrees.TP > 1 && !c.SequenceParallel
		},
		say: func(c *launch) string {
			return fmt.Sprintf("EP %d and TP %d without sequence parallelism in release %s", c.Degrees.EP, c.Degrees.TP, c.rel)
		},
		turn: []string{"--sequence-parallel", "--tensor-model-parallel-size 1"},
	},
	layerRule(shared("moe-tp-needs-sp", "--sequence-parallel", "--tensor-model-parallel-size 1")),
	inRun(extraOnly, shared("sp-divides-sequence", "--tensor-model-parallel-size", "--seq-length")),
}
