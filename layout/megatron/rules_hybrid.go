package megatron

import (
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout"
)

// hybridRules are about --hybrid-layer-pattern and MTP.
var hybridRules = []rule{
	{
		Rule: head("hybrid-pattern-twice", "75", inArguments, 746, "one flag gives the hybrid pattern",
			"--hybrid-override-pattern is the old name of --hybrid-layer-pattern."),
		since:  "0.17.1",
		broken: func(c *launch) bool { return !c.none("hybrid_override_pattern") && !c.none("hybrid_layer_pattern") },
		say:    says("--hybrid-override-pattern together with --hybrid-layer-pattern"),
		turn:   []string{"--hybrid-override-pattern", "--hybrid-layer-pattern"},
	},
	{
		Rule: headAt("hybrid-symbols", "75", layout.Error, layout.AtArguments, "megatron/core/models/hybrid/hybrid_layer_allocation.py:291",
			"a hybrid pattern holds only M G * D + - E, pipes in its main part and slashes before MTP parts",
			"Each letter is one layer: Mamba, gated delta net, attention, sparse attention, latent attention, MLP, MoE."),
		since:  "0.17.1",
		broken: func(c *launch) bool { return c.hybrid() && c.badSymbols() != "" },
		say:    func(c *launch) string { return "the hybrid layer pattern " + c.badSymbols() },
		turn:   []string{"--hybrid-layer-pattern"},
	},
	piped(head("hybrid-pipes-first", "77", inArguments, 804, "a hybrid pattern with pipes takes no count for the first stage",
		"The pipes say what each stage holds."), "decoder_first_pipeline_num_layers", "--decoder-first-pipeline-num-layers"),
	piped(head("hybrid-pipes-last", "77", inArguments, 809, "a hybrid pattern with pipes takes no count for the last stage",
		"The pipes say what each stage holds."), "decoder_last_pipeline_num_layers", "--decoder-last-pipeline-num-layers"),
	noHybrid(head("hybrid-no-layers-per-stage", "75", inArguments, 814, "a hybrid pattern excludes --num-layers-per-virtual-pipeline-stage",
		"Its pipes say how many virtual stages there are."), "num_layers_per_virtual_pipeline_stage", perStageFlag),
	noHybrid(head("hybrid-no-virtual-stages", "75", inArguments, 820, "a hybrid pattern excludes --num-virtual-stages-per-pipeline-rank",
		"Its pipes say how many virtual stages there are."), "num_virtual_stages_per_pipeline_rank", virtualStagesFlag),
	noHybrid(head("hybrid-no-layout", "75", inArguments, 825, "a hybrid pattern excludes --pipeline-model-parallel-layout",
		"Its pipes are the layout (68)."), "pipeline_model_parallel_layout", layoutFlag),
	noHybrid(head("hybrid-no-embedding-count", "75", inArguments, 829, "a hybrid pattern excludes --account-for-embedding-in-pipeline-split",
		"Its pipes say what each stage holds."), "account_for_embedding_in_pipeline_split", "--account-for-embedding-in-pipeline-split"),
	noHybrid(head("hybrid-no-loss-count", "75", inArguments, 834, "a hybrid pattern excludes --account-for-loss-in-pipeline-split",
		"Its pipes say what each stage holds."), "account_for_loss_in_pipeline_split", "--account-for-loss-in-pipeline-split"),
	{
		Rule: head("hybrid-segments", "76", inArguments, 849, "PP divides the segments of a hybrid pattern",
			"Segments are dealt to the pipeline ranks in turn; their number over PP is VPP. A pattern without pipes is cut evenly."),
		since: "0.17.1",
		broken: func(c *launch) bool {
			return c.hybrid() && len(c.Shape.Hybrid.Segments) > 1 && len(c.Shape.Hybrid.Segments)%c.Degrees.PP != 0
		},
		say: func(c *launch) string {
			n := len(c.Shape.Hybrid.Segments)
			return fmt.Sprintf("%s in the hybrid layer pattern, not divisible by PP %d (%d %% %d = %d)", layout.Count(n, "segment"), c.Degrees.PP, n, c.Degrees.PP, n%c.Degrees.PP)
		},
		turn: []string{"--pipeline-model-parallel-size"},
	},
	{
		Rule: head("mtp-needs-rope", "70", inArguments, 883, "MTP works with rotary positions or none",
			"Its layers would need the learned table on another stage. The check comes before --use-rotary-position-embeddings is read."),
		broken: func(c *launch) bool {
			p := c.mtpPositions()
			return c.Shape.MTPLayers != 0 && p != "rope" && p != "none"
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%d MTP layers with --position-embedding-type %s", c.Shape.MTPLayers, c.mtpPositions())
		},
		turn: []string{"--position-embedding-type rope", "--position-embedding-type none", "--mtp-num-layers"},
	},
	{
		Rule: headAt("mtp-no-cp", "70", layout.Error, layout.AtArguments, "megatron/training/arguments.py:1075 (core_v0.13.1)", "up to 0.13 MTP needs CP 1",
			"The shifted labels were not cut over context ranks yet."),
		until:  "0.13.1",
		broken: func(c *launch) bool { return c.Shape.MTPLayers != 0 && c.Degrees.CP > 1 },
		say: func(c *launch) string {
			return fmt.Sprintf("%d MTP layers at CP %d in release %s", c.Shape.MTPLayers, c.Degrees.CP, c.rel)
		},
		turn: []string{"--context-parallel-size", "--mtp-num-layers"},
	},
}

// mtpPositions is the kind of positions that the check of MTP sees: from 0.17 on before --use-rotary-position-embeddings is read.
func (c *launch) mtpPositions() string {
	if c.from("0.17.1") {
		return c.str("position_embedding_type")
	}
	return c.Shape.PositionEmbedding
}

func piped(r layout.Rule, dest, flag string) rule {
	return rule{Rule: r, since: "0.17.1", turn: []string{flag, hybridPatternFlag},
		broken: func(c *launch) bool {
			return c.hybrid() && len(c.Shape.Hybrid.Segments) > 1 && !c.none(dest)
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%s %s with %d segments in the hybrid layer pattern", flag, c.s.Value(dest), len(c.Shape.Hybrid.Segments))
		}}
}

func noHybrid(r layout.Rule, dest, flag string) rule {
	return rule{Rule: r, since: "0.17.1", turn: []string{flag, hybridPatternFlag},
		broken: func(c *launch) bool {
			v := c.s.Value(dest)
			return c.hybrid() && !v.IsNone() && !(v.isSwitch && !v.on)
		},
		say: func(c *launch) string { return flag + " with a hybrid layer pattern" }}
}

// badSymbols says what is wrong with the letters of the hybrid pattern, "" if nothing is.
func (c *launch) badSymbols() string {
	h := c.Shape.Hybrid
	if bad := strings.Trim(h.Main(), "MG*D+-E"); bad != "" {
		return fmt.Sprintf("has %q, which is no layer", bad[0])
	}
	if bad := strings.Trim(h.MTP, "MG*D+-E"); bad != "" {
		return fmt.Sprintf("has %q in its MTP part, which is no layer", bad[0])
	}
	if h.Mixed {
		return "has MTP parts that differ"
	}
	if all := h.Main() + h.MTP; strings.Contains(all, "*") && strings.ContainsAny(all, "+D") {
		return "mixes attention with latent or sparse attention"
	}
	return ""
}
