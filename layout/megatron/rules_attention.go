package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// attentionRules are about attention, its variants and the widths that TP cuts.
var attentionRules = []rule{
	widened("heads-divide-hidden",
		func(c *launch) bool {
			return c.none("kv_channels") && (c.Shape.Heads < 1 || c.Shape.HiddenSize%c.Shape.Heads != 0)
		},
		func(c *launch) string {
			return fmt.Sprintf("hidden size %d is not divisible by %d heads and --kv-channels is not given", c.Shape.HiddenSize, c.Shape.Heads)
		},
		"--num-attention-heads", "--kv-channels 128"),
	shared("tp-divides-heads", "--tensor-model-parallel-size", "--num-attention-heads"),
	since("0.16.1", widened("tp-fits-kv-groups",
		func(c *launch) bool {
			g, tp := c.Shape.QueryGroups, c.Degrees.TP
			return g < 1 || g%tp != 0 && tp%g != 0
		},
		func(c *launch) string {
			return fmt.Sprintf("%d KV groups and TP %d: neither divides the other", c.Shape.QueryGroups, c.Degrees.TP)
		},
		"--tensor-model-parallel-size", "--num-query-groups", "--num-attention-heads")),
	{
		Rule: headAt("tp-divides-kv-groups", "14", layout.Error, layout.AtConfig, "megatron/core/transformer/transformer_config.py:759 (core_v0.15.3)", "up to 0.15 TP divides the KV groups",
			"Ranks could not share a KV head yet."),
		until:  "0.15.3",
		broken: func(c *launch) bool { g := c.Shape.QueryGroups; return g < 1 || g%c.Degrees.TP != 0 },
		say: func(c *launch) string {
			return fmt.Sprintf("%s not divisible by TP %d in release %s", layout.Are(c.Shape.QueryGroups, "KV group"), c.Degrees.TP, c.rel)
		},
		turn: []string{"--tensor-model-parallel-size", "--num-query-groups"},
	},
	{
		Rule: head("gdn-frequency", "26", inConfig, 1476, "--experimental-attention-variant gdn needs --linear-attention-freq",
			"It says which layers keep full attention."),
		broken: func(c *launch) bool { return c.gdn() && c.variant() == "gdn" && c.none("linear_attention_freq") },
		say:    says("--experimental-attention-variant gdn without --linear-attention-freq"),
		turn:   []string{"--linear-attention-freq 4", "--experimental-attention-variant"},
	},
	{
		Rule: head("gdn-sizes", "26", inConfig, 1480, "a gated delta net has all its sizes",
			"They have no defaults that fit a model."),
		broken: func(c *launch) bool { return c.gdn() && c.missingGDN() != "" },
		say:    func(c *launch) string { return "a gated delta net without " + c.missingGDN() },
		turn:   []string{"--experimental-attention-variant"},
	},
	widened("gdn-value-heads",
		func(c *launch) bool {
			k := c.int("linear_num_key_heads")
			return c.gdn() && k > 0 && c.int("linear_num_value_heads")%k != 0
		},
		func(c *launch) string {
			return fmt.Sprintf("%s not a multiple of %d key heads", layout.Are(c.int("linear_num_value_heads"), "value head"), c.int("linear_num_key_heads"))
		},
		"--linear-num-value-heads", "--linear-num-key-heads"),
	widened("gdn-heads-divisible",
		func(c *launch) bool {
			n := product(c.Degrees.TP, c.Degrees.CP)
			return c.gdn() && n > 0 && (c.int("linear_num_key_heads")%n != 0 || c.int("linear_num_value_heads")%n != 0)
		},
		func(c *launch) string {
			return fmt.Sprintf("%d key and %d value heads are not both divisible by TP %d * CP %d", c.int("linear_num_key_heads"), c.int("linear_num_value_heads"), c.Degrees.TP, c.Degrees.CP)
		},
		"--tensor-model-parallel-size", "--context-parallel-size", "--linear-num-key-heads"),
	{
		Rule: head("mla-no-gqa", "22", inArguments, 1974, "latent attention excludes --group-query-attention",
			"Its keys and values are one latent for all heads."),
		since:  "0.16.1",
		broken: func(c *launch) bool { return c.Shape.Latent && c.on("group_query_attention") },
		say: func(c *launch) string {
			return fmt.Sprintf("--group-query-attention (%d groups) with latent attention", c.Shape.QueryGroups)
		},
		turn: []string{"--group-query-attention", "--multi-latent-attention"},
	},
	{
		Rule: head("mla-fusion-needs-mla", "23", inArguments, 1977, "--mla-down-proj-fusion needs latent attention",
			"It joins the two down projections of queries and keys."),
		broken: func(c *launch) bool { return c.on("mla_down_proj_fusion") && !c.Shape.Latent },
		say:    says("--mla-down-proj-fusion without --multi-latent-attention"),
		turn:   []string{"--mla-down-proj-fusion", "--multi-latent-attention"},
	},
	{
		Rule: head("yarn-needs-mla", "N7", inUtils, 339, "--rope-type yarn needs latent attention",
			"Other attention names YaRN by --position-embedding-type."),
		broken: func(c *launch) bool { return !c.Shape.Latent && c.str("rope_type") == "yarn" },
		say:    says("--rope-type yarn without --multi-latent-attention"),
		turn:   []string{"--rope-type rope"},
	},
	{
		Rule: head("mla-rotary-interleaved", "25", inConfig, 2527, "latent attention excludes --rotary-interleaved",
			"It interleaves in its own way."),
		broken: func(c *launch) bool { return c.Shape.Latent && c.on("rotary_interleaved") },
		say:    says("--rotary-interleaved with latent attention"),
		turn:   []string{"--rotary-interleaved", "--multi-latent-attention"},
	},
	{
		Rule: head("mla-rope-fusion", "24", inConfig, 3346, "latent attention with plain rope needs --no-rope-fusion",
			"The fused kernel exists for YaRN, which is the default."),
		since: "0.14.0",
		broken: func(c *launch) bool {
			return c.Shape.Latent && c.ropeFusion() && c.str("rope_type") == "rope"
		},
		say:  says("--rope-type rope with latent attention and fused rope"),
		turn: []string{"--no-rope-fusion", "--rope-type yarn"},
	},
	{
		Rule: headAt("mla-no-rope-fusion", "24", layout.Error, layout.AtConfig, "megatron/core/transformer/transformer_config.py:930 (core_v0.12.3)", "up to 0.12 latent attention needs --no-rope-fusion",
			"There was no fused kernel for it."),
		until:  "0.12.3",
		broken: func(c *launch) bool { return c.Shape.Latent && c.ropeFusion() },
		say:    func(c *launch) string { return "latent attention with fused rope in release " + c.rel.String() },
		turn:   []string{"--no-rope-fusion"},
	},
	{
		Rule: head("mla-output-gate", "25", inConfig, 3349, "latent attention has no output gate",
			"It is not implemented."),
		broken: func(c *launch) bool { return c.Shape.Latent && c.on("attention_output_gate") },
		say:    says("--attention-output-gate with latent attention"),
		turn:   []string{"--attention-output-gate", "--multi-latent-attention"},
	},
	mhc("mhc-no-mtp", 2064, "MTP", func(c *launch) bool { return c.Shape.MTPGiven }, "--mtp-num-layers"),
	mhc("mhc-no-full-recompute", 2070, "full recompute", func(c *launch) bool { return c.full() }, "--recompute-granularity"),
	mhc("mhc-no-pp", 2093, "PP > 1", func(c *launch) bool { return c.Degrees.PP > 1 }, "--pipeline-model-parallel-size 1"),
	mhc("mhc-no-fp32-residual", 2104, "an fp32 residual stream", func(c *launch) bool { return c.on("fp32_residual_connection") }, "--fp32-residual-connection"),
	{
		Rule: head("mhc-recompute-needs-mhc", "59", inConfig, 2030, "recompute of mhc needs --enable-mhc-connections",
			"There is nothing to recompute otherwise."),
		broken: func(c *launch) bool { return c.recomputes("mhc") && !c.on("enable_mhc_connections") },
		say:    says("recompute of mhc without --enable-mhc-connections"),
		turn:   []string{"--recompute-modules", "--enable-mhc-connections"},
	},
	{
		Rule: head("mhc-recompute-no-mlp", "59", inConfig, 2032, "recompute of mhc excludes that of mlp",
			"One checkpoint would lie inside the other."),
		broken: func(c *launch) bool { return c.recomputes("mhc") && c.recomputes("mlp") },
		say:    says("recompute of mhc and mlp"),
		turn:   []string{"--recompute-modules"},
	},
	{
		Rule: head("mhc-recompute-no-offload", "59", inConfig, 2046, "recompute of mhc excludes fine-grained offload",
			"Its backward hook runs before the offload's."),
		broken: func(c *launch) bool { return c.recomputes("mhc") && c.offloads() },
		say:    says("recompute of mhc with --fine-grained-activation-offloading"),
		turn:   []string{"--recompute-modules", "--fine-grained-activation-offloading"},
	},
	since("main", batchInvariant("invariant-needs-bf16", 3212, "--bf16", func(c *launch) bool { return c.Precision.Params != "bf16" }, "--bf16")),
	batchInvariant("invariant-needs-flash", 3217, "--attention-backend flash", func(c *launch) bool { return c.str("attention_backend") != "flash" }, "--attention-backend flash"),
	since("0.19.0", batchInvariant("invariant-flash-version", 3223, "--flash-attention-version 3 or 4",
		func(c *launch) bool { v := c.int("flash_attention_version"); return v != 3 && v != 4 }, "--flash-attention-version 3", "--flash-attention-version 4")),
	since("0.19.0", batchInvariant("invariant-no-cp", 3231, "CP 1", func(c *launch) bool { return c.Degrees.CP != 1 }, "--context-parallel-size 1")),
	since("0.19.0", batchInvariant("invariant-no-dropout", 3234, "--attention-dropout 0", func(c *launch) bool { return c.dropout("attention_dropout") != 0 }, "--attention-dropout 0.0")),
	since("main", batchInvariant("invariant-all-to-all", 3242, "the alltoall dispatcher for experts",
		func(c *launch) bool {
			return c.moe() && c.str("transformer_impl") != "inference_optimized" && c.Dispatcher != "alltoall"
		}, "--moe-token-dispatcher-type alltoall")),
}

// variant is --experimental-attention-variant, its old name replaced.
func (c *launch) variant() string {
	if v := c.str("experimental_attention_variant"); v != "gated_delta_net" {
		return v
	}
	return "gdn"
}

func (c *launch) gdn() bool { return c.variant() == "gdn" || c.variant() == "gdn2" }

func (c *launch) missingGDN() string {
	for _, f := range []struct{ dest, flag string }{{"linear_conv_kernel_dim", "--linear-conv-kernel-dim"}, {"linear_key_head_dim", "--linear-key-head-dim"},
		{"linear_value_head_dim", "--linear-value-head-dim"}, {"linear_num_key_heads", "--linear-num-key-heads"}, {"linear_num_value_heads", "--linear-num-value-heads"}} {
		if c.int(f.dest) < 1 {
			return f.flag
		}
	}
	return ""
}

// ropeFusion: validate_args switches it off for everything but rope.
func (c *launch) ropeFusion() bool {
	return c.on("apply_rope_fusion") && c.Shape.PositionEmbedding == "rope"
}

func mhc(id layout.RuleID, line int, what string, broken func(c *launch) bool, turn ...string) rule {
	return rule{Rule: head(id, "59", inConfig, line, "hyper-connections exclude "+what, "Their residual has several streams, which that part does not carry."),
		turn:   append(turn, "--enable-mhc-connections"),
		broken: func(c *launch) bool { return c.on("enable_mhc_connections") && broken(c) },
		say:    says("--enable-mhc-connections with " + what)}
}

func batchInvariant(id layout.RuleID, line int, what string, broken func(c *launch) bool, turn ...string) rule {
	return rule{Rule: head(id, "42", inConfig, line, "batch-invariant mode needs "+what, "Only then do all kernels add in the same order for every batch."),
		turn:   append(turn, "--batch-invariant-mode"),
		broken: func(c *launch) bool { return c.on("batch_invariant_mode") && broken(c) },
		say:    says("--batch-invariant-mode needs " + what)}
}
