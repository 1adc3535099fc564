package megatron

import (
	"fmt"
	"slices"
)

// recomputeRules are about what is recomputed.
var recomputeRules = []rule{
	{
		Rule: head("checkpoint-activations", "N6", inArguments, 604, "--checkpoint-activations is gone",
			"The program tells what replaced it and exits."),
		broken: func(c *launch) bool { return c.on("checkpoint_activations") },
		say:    says("--checkpoint-activations: --recompute-activations and --recompute-granularity replaced it"),
		turn:   []string{"--checkpoint-activations"},
	},
	{
		Rule: head("replaced-flags", "", inArguments, 591, "--batch-size, --warmup and --model-parallel-size are not used",
			"They exist only to name what replaced them: --micro-batch-size, --lr-warmup-fraction, --tensor-model-parallel-size."),
		broken: func(c *launch) bool {
			return !c.none("batch_size") || !c.none("warmup") || !c.none("model_parallel_size")
		},
		say:  says("--batch-size, --warmup or --model-parallel-size is given"),
		turn: []string{"--batch-size", "--warmup", "--model-parallel-size"},
	},
	{
		Rule: head("distribute-needs-tp", "2.9", inArguments, 1411, "--distribute-saved-activations needs TP > 1",
			"It deals saved activations over tensor parallel ranks."),
		broken: func(c *launch) bool { return c.on("distribute_saved_activations") && c.Degrees.TP <= 1 },
		say:    func(c *launch) string { return fmt.Sprintf("--distribute-saved-activations at TP %d", c.Degrees.TP) },
		turn:   []string{distribute, "--tensor-model-parallel-size"},
	},
	{
		Rule: head("distribute-needs-full", "2.9", inArguments, 1414, "--distribute-saved-activations needs full recompute",
			"Only the inputs of whole layers are dealt out."),
		broken: func(c *launch) bool { return c.on("distribute_saved_activations") && !c.full() },
		say:    func(c *launch) string { return "--distribute-saved-activations with recompute " + c.granularityText() },
		turn:   []string{distribute, "--recompute-granularity full"},
	},
	{
		Rule: head("distribute-needs-method", "2.9", inArguments, 1417, "--distribute-saved-activations needs a --recompute-method",
			"Uniform and block say which layers' inputs are saved."),
		broken: func(c *launch) bool { return c.on("distribute_saved_activations") && c.Recompute.Method == "" },
		say:    says("--distribute-saved-activations without --recompute-method"),
		turn:   []string{distribute, "--recompute-method uniform"},
	},
	widened("recompute-selective-method",
		func(c *launch) bool { return c.selectiveFlag() && c.Recompute.Method != "" },
		func(c *launch) string { return "selective recompute with --recompute-method " + c.Recompute.Method },
		"--recompute-method", "--recompute-granularity"),
	{
		Rule: head("recompute-full-method", "2.9", inConfig, 1914, "full recompute has a method",
			"Uniform or block says which layers it covers."),
		broken: func(c *launch) bool { return c.full() && c.Recompute.Method == "" },
		say:    says("full recompute without --recompute-method"),
		turn:   []string{"--recompute-method uniform", "--recompute-method block", "--recompute-granularity"},
	},
	widened("recompute-full-layers",
		func(c *launch) bool { return c.full() && c.none("recompute_num_layers") },
		says("full recompute without --recompute-num-layers"),
		"--recompute-num-layers 1", "--recompute-granularity"),
	widened("recompute-selective-layers",
		func(c *launch) bool { return c.selectiveFlag() && !c.none("recompute_num_layers") },
		func(c *launch) string {
			return fmt.Sprintf("selective recompute with --recompute-num-layers %d", c.Recompute.NumLayers)
		},
		"--recompute-num-layers", "--recompute-granularity"),
	{
		Rule: head("distribute-no-sp", "2.9", inConfig, 1935, "--distribute-saved-activations excludes sequence parallelism",
			"Saved activations are cut over tensor parallel ranks already."),
		broken: func(c *launch) bool {
			return c.on("distribute_saved_activations") && c.SequenceParallel && c.Recompute.Granularity != ""
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--distribute-saved-activations with sequence parallelism at TP %d", c.Degrees.TP)
		},
		turn: []string{distribute, "--sequence-parallel"},
	},
	{
		Rule: head("recompute-module-names", "2.9", inConfig, 1959, "recompute modules are known ones",
			"Each names a part of a layer. Without selective recompute nobody looks."),
		broken: func(c *launch) bool { return c.selectiveFlag() && c.unknownModule() != "" },
		say: func(c *launch) string {
			return "--recompute-modules " + quoted(c.unknownModule()) + " is no module of release " + c.rel.String()
		},
		turn: []string{"--recompute-modules"},
	},
	widened("recompute-moe-act-needs-experts",
		func(c *launch) bool { return c.selectiveFlag() && c.recomputes("moe_act") && !c.on("moe_grouped_gemm") },
		says("recompute of moe_act without --moe-grouped-gemm"),
		"--recompute-modules", "--moe-grouped-gemm"),
	widened("recompute-mla-up-proj-needs-mla",
		func(c *launch) bool { return c.selectiveFlag() && c.recomputes("mla_up_proj") && !c.Shape.Latent },
		says("recompute of mla_up_proj without --multi-latent-attention"),
		"--recompute-modules"),
	{
		Rule: head("recompute-gdn-needs-gdn", "2.9", inConfig, 1978, "recompute of gdn_norm_out needs a gated delta net",
			"Other attention has no such norm."),
		broken: func(c *launch) bool { return c.recomputes("gdn_norm_out") && !c.gdn() },
		say:    says("recompute of gdn_norm_out without --experimental-attention-variant gdn"),
		turn:   []string{"--recompute-modules"},
	},
	{
		Rule: head("recompute-shared-no-overlap", "91", inConfig, 1996, "recompute of shared_experts excludes shared-expert overlap",
			"The overlap runs the shared expert on a stream of its own, outside any checkpoint."),
		broken: func(c *launch) bool {
			return c.recomputes("shared_experts") && !c.none("moe_shared_expert_intermediate_size") && c.on("moe_shared_expert_overlap")
		},
		say:  says("recompute of shared_experts with --moe-shared-expert-overlap"),
		turn: []string{"--moe-shared-expert-overlap", "--recompute-modules"},
	},
	{
		Rule: head("moe-layer-recompute-full", "2.9", inConfig, 2020, "--moe-layer-recompute excludes full recompute",
			"It is the old way to ask for selective recompute of MoE layers."),
		since:  "0.12.3",
		broken: func(c *launch) bool { return c.on("moe_layer_recompute") && c.full() },
		say:    says("--moe-layer-recompute with full recompute"),
		turn:   []string{"--moe-layer-recompute", "--recompute-granularity"},
	},
}

const distribute = "--distribute-saved-activations"

// selectiveFlag reports whether the flags ask for selective recompute, --moe-layer-recompute apart, which comes later.
func (c *launch) selectiveFlag() bool {
	return c.on("recompute_activations") || c.str("recompute_granularity") == "selective"
}

func (c *launch) granularityText() string {
	if g := c.Recompute.Granularity; g != "" {
		return g
	}
	return "off"
}

// recomputeModules are the modules of --recompute-modules with the release that first takes them.
var recomputeModules = []struct{ name, since string }{{"core_attn", ""}, {"moe_act", ""}, {"layernorm", ""}, {"mla_up_proj", ""}, {"mlp", ""}, {"moe", ""},
	{"shared_experts", "0.14.0"}, {"gdn_norm_out", "0.19.0"}, {"gdp_in_proj", "main"}, {"gdp_qkv", "main"}, {"mhc", "main"}}

func (c *launch) unknownModule() string {
	for _, m := range c.Recompute.Modules {
		i := slices.IndexFunc(recomputeModules, func(k struct{ name, since string }) bool { return k.name == m })
		if i < 0 || recomputeModules[i].since != "" && !c.rel.From(recomputeModules[i].since) {
			return m
		}
	}
	return ""
}
