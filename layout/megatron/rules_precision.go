package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// precisionRules are the argument checks of number formats; quantizedRules the config's.
var precisionRules = []rule{
	{
		Rule: head("fp8-gather-needs-sharding", "125", inArguments, 1096, "--fp8-param-gather needs the distributed optimizer or FSDP",
			"Otherwise parameters are not gathered at all."),
		broken: func(c *launch) bool {
			return c.on("fp8_param_gather") && !c.on("use_distributed_optimizer") && !c.on("use_torch_fsdp2") && !c.fsdp()
		},
		say:  says("--fp8-param-gather without distributed optimizer or FSDP"),
		turn: []string{"--use-distributed-optimizer", "--fp8-param-gather"},
	},
	{
		Rule: head("fp4-excludes-fp8", "124", inArguments, 1101, "FP4 and FP8 exclude each other",
			"A GEMM has one number format."),
		broken: func(c *launch) bool { return c.Precision.FP4 != "" && c.Precision.FP8 != "" },
		say: func(c *launch) string {
			return "--fp4-format " + c.Precision.FP4 + " with --fp8-format " + c.Precision.FP8
		},
		turn: []string{"--fp4-format", "--fp8-format"},
	},
	{
		Rule: head("fp4-gather-needs-fp4", "125", inArguments, 1105, "--fp4-param-gather needs --fp4-format",
			"Without it there is no FP4 parameter."),
		broken: func(c *launch) bool { return c.on("fp4_param_gather") && c.Precision.FP4 == "" },
		say:    says("--fp4-param-gather without --fp4-format"),
		turn:   []string{"--fp4-param-gather", "--fp4-format e2m1"},
	},
	{
		Rule: head("fp4-needs-te", "135", inArguments, 1109, "FP4 needs Transformer Engine 2.7",
			"NVFP4 block scaling came with it."),
		broken: func(c *launch) bool { return c.Precision.FP4 != "" && !c.te.atLeast("2.7.0") },
		say:    func(c *launch) string { return "--fp4-format with Transformer Engine " + c.te.String() },
		turn:   []string{"--fp4-format"},
	},
	{
		Rule: head("fp16-excludes-bf16", "124", inArguments, 1196, "fp16 and bf16 exclude each other",
			"Parameters have one type."),
		broken: func(c *launch) bool { return c.on("fp16") && c.on("bf16") },
		say:    says("--fp16 with --bf16"),
		turn:   []string{"--fp16", "--bf16"},
	},
	{
		Rule: head("main-grads-with-fp32-accumulation", "134", inArguments, 1210, "accumulation in fp32 needs fp32 main gradients",
			"bf16 switches fp32 accumulation on by itself, unless main gradients or their reduction are bf16."),
		broken: func(c *launch) bool {
			return c.on("bf16") && c.on("accumulate_allreduce_grads_in_fp32") && !c.none("main_grads_dtype") && c.str("main_grads_dtype") != "fp32"
		},
		say: func(c *launch) string {
			return "--accumulate-allreduce-grads-in-fp32 with --main-grads-dtype " + c.str("main_grads_dtype")
		},
		turn: []string{"--accumulate-allreduce-grads-in-fp32", "--main-grads-dtype"},
	},
}

var quantizedRules = []rule{
	{
		Rule: head("delayed-no-bf16-ends", "126", inConfig, 1530, "delayed scaling excludes first and last layers in bf16",
			"One set of scaling factors serves all layers."),
		broken: func(c *launch) bool {
			return c.fp8() && c.on("first_last_layers_bf16") && c.Precision.Recipe == "delayed"
		},
		say:  says("--first-last-layers-bf16 with --fp8-recipe delayed"),
		turn: []string{"--first-last-layers-bf16", "--fp8-recipe"},
	},
	bf16Ends("bf16-first-layers", 1543, "num_layers_at_start_in_bf16", "--num-layers-at-start-in-bf16"),
	bf16Ends("bf16-last-layers", 1552, "num_layers_at_end_in_bf16", "--num-layers-at-end-in-bf16"),
	{
		Rule: head("fp8-gather-needs-fp8", "125", inConfig, 1567, "--fp8-param-gather needs --fp8-format",
			"Without it there is no FP8 parameter."),
		since: "0.12.3",
		broken: func(c *launch) bool {
			return c.on("fp8_param_gather") && !c.fp8() && !(c.on("use_torch_fsdp2") && c.te.atLeast("2.0.0"))
		},
		say:  says("--fp8-param-gather without --fp8-format"),
		turn: []string{"--fp8-param-gather", "--fp8-format hybrid"},
	},
	{
		Rule: head("fp8-output-needs-fp8", "128", inConfig, 1571, "--fp8-output-proj needs --fp8-format",
			"It extends FP8 to the output layer."),
		broken: func(c *launch) bool { return c.on("fp8_output_proj") && !c.fp8() },
		say:    says("--fp8-output-proj without --fp8-format"),
		turn:   []string{"--fp8-output-proj", "--fp8-format hybrid"},
	},
	{
		Rule: head("fp8-output-needs-mxfp8", "128", inConfig, 1573, "--fp8-output-proj needs the mxfp8 recipe",
			"Other recipes lose too much in the logits."),
		broken: func(c *launch) bool { return c.on("fp8_output_proj") && c.fp8() && c.Precision.Recipe != "mxfp8" },
		say:    func(c *launch) string { return "--fp8-output-proj with --fp8-recipe " + c.Precision.Recipe },
		turn:   []string{"--fp8-recipe mxfp8", "--fp8-output-proj"},
	},
	{
		Rule: head("fused-bias-activation", "N5", inConfig, 2422, "a fused bias and activation is gelu, swiglu or quick_geglu",
			"With biases the fusion is on by default, and squared ReLU has no fused kernel."),
		broken: func(c *launch) bool {
			return !c.on("swiglu") && c.on("squared_relu") && c.on("bias_gelu_fusion") && c.on("add_bias_linear")
		},
		say:  says("--squared-relu with biases and --no-bias-gelu-fusion missing"),
		turn: []string{"--no-bias-gelu-fusion", "--disable-bias-linear"},
	},
	activationPair("squared-relu-or-swiglu", 321, "squared_relu", "--squared-relu"),
	activationPair("quick-geglu-or-swiglu", 324, "quick_geglu", "--quick-geglu"),
	{
		Rule: head("fp8-recompute-delayed", "126", inConfig, 2003, "delayed scaling excludes recompute of moe_act and layernorm",
			"Recomputing would update the scaling history twice."),
		since: "0.14.0",
		broken: func(c *launch) bool {
			return c.fp8() && c.Precision.Recipe == "delayed" && (c.recomputes("moe_act") || c.recomputes("layernorm"))
		},
		say: func(c *launch) string {
			return fmt.Sprintf("recompute of %v with FP8 delayed scaling", c.Recompute.Modules)
		},
		turn: []string{"--recompute-modules", "--fp8-recipe"},
	},
	{
		Rule: head("fp8-recompute-te", "126", inConfig, 2008, "recompute of moe_act and layernorm in FP8 needs TE 2.6",
			"Older ones keep quantised inputs that the recompute would have to drop."),
		since: "0.14.0",
		broken: func(c *launch) bool {
			return c.fp8() && c.Precision.Recipe != "delayed" && (c.recomputes("moe_act") || c.recomputes("layernorm")) && !c.te.atLeast("2.6.0")
		},
		say: func(c *launch) string {
			return fmt.Sprintf("recompute of %v in FP8 with TE %s", c.Recompute.Modules, c.te)
		},
		turn: []string{"--recompute-modules", "--fp8-format"},
	},
	{
		Rule: headAt("fp8-recompute-never", "126", layout.Error, layout.AtConfig, "megatron/core/transformer/transformer_config.py:846 (core_v0.13.1)", "in 0.13 FP8 excludes recompute of moe_act and layernorm",
			"Discarding their outputs was not combined with FP8 yet."),
		since: "0.13.1", until: "0.13.1",
		broken: func(c *launch) bool { return c.fp8() && (c.recomputes("moe_act") || c.recomputes("layernorm")) },
		say: func(c *launch) string {
			return fmt.Sprintf("recompute of %v in FP8 in release %s", c.Recompute.Modules, c.rel)
		},
		turn: []string{"--recompute-modules", "--fp8-format"},
	},
	{
		Rule: head("fp8-moe-te", "131", inConfig, 2630, "FP8 experts need Transformer Engine 1.7",
			"Older ones cannot take uneven numbers of tokens."),
		broken: func(c *launch) bool { return c.moe() && c.fp8() && !c.te.atLeast("1.7.0") },
		say:    func(c *launch) string { return "FP8 experts with Transformer Engine " + c.te.String() },
		turn:   []string{"--fp8-format"},
	},
	{
		Rule: head("fp8-grouped-te", "131", inConfig, 2636, "FP8 grouped GEMM needs Transformer Engine 1.11",
			"It came with that version."),
		broken: func(c *launch) bool {
			return c.moe() && c.fp8() && c.on("moe_grouped_gemm") && !c.te.atLeast("1.11.0")
		},
		say:  func(c *launch) string { return "FP8 grouped GEMM with Transformer Engine " + c.te.String() },
		turn: []string{"--moe-grouped-gemm", "--fp8-format"},
	},
	{
		Rule: headAt("fp8-reuse-needs-gather", "132", layout.Error, layout.AtModelBuild, "megatron/core/distributed/distributed_data_parallel_config.py:260",
			"--reuse-grad-buf-for-mxfp8-param-ag needs --fp8-param-gather",
			"Gathered MXFP8 parameters share the buffer of the gradients."),
		broken: func(c *launch) bool {
			return c.on("reuse_grad_buf_for_mxfp8_param_ag") && !c.fsdp() && !c.on("fp8_param_gather")
		},
		say:  says("--reuse-grad-buf-for-mxfp8-param-ag without --fp8-param-gather"),
		turn: []string{"--fp8-param-gather", "--reuse-grad-buf-for-mxfp8-param-ag"},
	},
}

func (c *launch) fp8() bool { return c.Precision.FP8 != "" }

func bf16Ends(id layout.RuleID, line int, dest, flag string) rule {
	return rule{
		Rule: head(id, "127", inConfig, line, "the bf16 layers at an end are between 0 and the layers of a stage",
			"They lie on one stage."),
		broken: func(c *launch) bool {
			n := c.int(dest)
			return c.fp8() && c.on("first_last_layers_bf16") && (n < 0 || n > c.Shape.NumLayers/c.Degrees.PP)
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%s %d is not between 0 and %d layers / PP %d = %d", flag, c.int(dest), c.Shape.NumLayers, c.Degrees.PP, c.Shape.NumLayers/c.Degrees.PP)
		},
		turn: []string{flag, "--first-last-layers-bf16"},
	}
}

func activationPair(id layout.RuleID, line int, dest, flag string) rule {
	r := rule{Rule: head(id, "N4", inUtils, line, flag+" excludes --swiglu", "An MLP has one activation."), turn: []string{flag, "--swiglu"},
		broken: func(c *launch) bool { return c.on("swiglu") && c.on(dest) },
		say:    says(flag + " with --swiglu")}
	if dest == "quick_geglu" {
		r.broken = func(c *launch) bool { return c.on("swiglu") && c.on(dest) && !c.on("squared_relu") }
	}
	return r
}
