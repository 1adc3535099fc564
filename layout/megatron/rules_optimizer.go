package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

const (
	inOptimizer = "megatron/core/optimizer/optimizer_config.py:"
	inWrapper   = "megatron/core/distributed/distributed_data_parallel.py:"
)

// optimizerRules are noticed when the model is wrapped and its optimizer made: after the build, before the first step.
var optimizerRules = []rule{
	{
		Rule: headAt("per-token-no-average", "121", layout.Error, layout.AtModelBuild, inWrapper+"246", "a loss per token excludes --ddp-average-in-collective",
			"Gradients are divided by the number of tokens, which only the end of a step knows."),
		since:  "0.12.3",
		broken: func(c *launch) bool { return c.on("calculate_per_token_loss") && c.on("ddp_average_in_collective") },
		say:    says("--calculate-per-token-loss with --ddp-average-in-collective"),
		turn:   []string{"--ddp-average-in-collective", "--calculate-per-token-loss"},
	},
	{
		Rule: headAt("instances-need-optimizer", "6", layout.Error, layout.AtModelBuild, inWrapper+"359", "several optimizer instances need the distributed optimizer",
			"There is nothing to replicate otherwise."),
		run: extraOnly,
		broken: func(c *launch) bool {
			return c.OptimizerInstances > 1 && !c.DistributedOptimizer && !c.fsdp()
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%d distributed optimizer instances without --use-distributed-optimizer", c.OptimizerInstances)
		},
		turn: []string{"--num-distributed-optimizer-instances", "--use-distributed-optimizer"},
	},
	{
		Rule: headAt("step-gather-no-reuse", "120", layout.Error, layout.AtConfig, inOptimizer+"428", "gathering in the step excludes --reuse-grad-buf-for-mxfp8-param-ag",
			"The buffer still holds gradients then."),
		since: "0.19.0",
		broken: func(c *launch) bool {
			return c.on("overlap_param_gather_with_optimizer_step") && c.on("reuse_grad_buf_for_mxfp8_param_ag") && !c.fsdp()
		},
		say:  says("--overlap-param-gather-with-optimizer-step with --reuse-grad-buf-for-mxfp8-param-ag"),
		turn: []string{"--overlap-param-gather-with-optimizer-step", "--reuse-grad-buf-for-mxfp8-param-ag"},
	},
	{
		Rule: headAt("precision-aware-adam", "133", layout.Error, layout.AtConfig, inOptimizer+"435", "--use-precision-aware-optimizer needs adam",
			"It is Transformer Engine's Adam."),
		broken: func(c *launch) bool { return c.on("use_precision_aware_optimizer") && c.str("optimizer") != "adam" },
		say: func(c *launch) string {
			return "--use-precision-aware-optimizer with --optimizer " + c.str("optimizer")
		},
		turn: []string{"--optimizer adam", "--use-precision-aware-optimizer"},
	},
	stateType("main-grads-type", 470, "main_grads_dtype", "--main-grads-dtype"),
	stateType("main-params-type", 473, "main_params_dtype", "--main-params-dtype"),
	stateType("exp-avg-type", 476, "exp_avg_dtype", "--exp-avg-dtype"),
	stateType("exp-avg-sq-type", 479, "exp_avg_sq_dtype", "--exp-avg-sq-dtype"),
	{
		Rule: headAt("precision-aware-sharded", "133", layout.Error, layout.AtConfig, "megatron/core/optimizer/__init__.py:1058", "--use-precision-aware-optimizer needs the distributed optimizer",
			"Only its shards keep main parameters apart."),
		run: realLaunch,
		broken: func(c *launch) bool {
			return c.on("use_precision_aware_optimizer") && c.str("optimizer") == "adam" && !c.DistributedOptimizer && !c.fsdp()
		},
		say:  says("--use-precision-aware-optimizer without --use-distributed-optimizer"),
		turn: []string{"--use-distributed-optimizer", "--use-precision-aware-optimizer"},
	},
	{
		Rule: headAt("instances-need-blocks", "6", layout.Error, layout.AtConfig, "megatron/core/optimizer/__init__.py:840", "optimizers that shard by layer have one instance",
			"Whole matrices are dealt to ranks, not parts of them."),
		run:    realLaunch,
		broken: func(c *launch) bool { return c.LayerWiseOptimizer && c.OptimizerInstances > 1 },
		say: func(c *launch) string {
			return fmt.Sprintf("%d optimizer instances with --optimizer %s", c.OptimizerInstances, c.str("optimizer"))
		},
		turn: []string{"--num-distributed-optimizer-instances", "--optimizer adam"},
	},
	fsdpV2("fsdp-v2-no-tp", 633, "TP, CP and PP of 1", func(c *launch) bool { return c.Degrees.TP > 1 || c.Degrees.CP > 1 || c.Degrees.PP > 1 }),
	fsdpV2("fsdp-v2-strategy", 667, "--data-parallel-sharding-strategy optim_grads_params",
		func(c *launch) bool { return c.str("data_parallel_sharding_strategy") != "optim_grads_params" }, "--data-parallel-sharding-strategy"),
	fsdpV2("fsdp-v2-no-fusion", 673, "--no-gradient-accumulation-fusion", func(c *launch) bool { return c.on("gradient_accumulation_fusion") }, "--no-gradient-accumulation-fusion"),
	fsdpV2("fsdp-v2-no-token-loss", 675, "no loss per token", func(c *launch) bool { return c.on("calculate_per_token_loss") }, "--calculate-per-token-loss"),
	fsdpV2("fsdp-v2-16-bit", 677, "16 bits: no FP8 and no FP4", func(c *launch) bool {
		return c.fp8() || c.Precision.FP4 != "" || c.on("fp8_param_gather") || c.on("fp4_param_gather")
	},
		"--fp8-format", "--fp4-format", "--fp8-param-gather"),
	fsdpV2("fsdp-v2-no-graphs", 679, "no CUDA graphs", func(c *launch) bool { return c.graphs() }, "--cuda-graph-impl none"),
	fsdpV2("fsdp-v2-no-delay", 691, "no --delay-wgrad-compute", func(c *launch) bool { return c.on("delay_wgrad_compute") }, "--delay-wgrad-compute"),
	fsdpV2("fsdp-v2-no-buckets", 695, "no --ddp-num-buckets", func(c *launch) bool { return !c.none("ddp_num_buckets") }, "--ddp-num-buckets"),
	{
		Rule: headAt("fsdp-overlap-no-vpp", "115", layout.Error, layout.AtFirstStep, "megatron/core/pipeline_parallel/combined_1f1b.py:210", "EP overlap with VPP excludes Megatron-FSDP",
			"Chunks would gather each other's parameters away."),
		run:    realLaunch,
		broken: func(c *launch) bool { _, set := c.vpp(); return c.overlap() && set && c.fsdp() },
		say: func(c *launch) string {
			return fmt.Sprintf("EP overlap with VPP %d and --use-megatron-fsdp", c.Pipeline.VPP)
		},
		turn: []string{epOverlap, "--use-megatron-fsdp"},
	},
}

func stateType(id layout.RuleID, line int, dest, flag string) rule {
	return rule{
		Rule: headAt(id, "133", layout.Error, layout.AtConfig, fmt.Sprintf("%s%d", inOptimizer, line), flag+" other than fp32 needs --use-precision-aware-optimizer",
			"Other optimizers keep their state in fp32."),
		broken: func(c *launch) bool {
			return !c.on("use_precision_aware_optimizer") && !c.none(dest) && c.str(dest) != "fp32"
		},
		say:  func(c *launch) string { return flag + " " + c.str(dest) + " without --use-precision-aware-optimizer" },
		turn: []string{"--use-precision-aware-optimizer", flag + " fp32"},
	}
}

func fsdpV2(id layout.RuleID, line int, what string, broken func(c *launch) bool, turn ...string) rule {
	return rule{
		Rule: headAt(id, "152", layout.Error, layout.AtModelBuild, fmt.Sprintf("megatron/core/distributed/fsdp/mcore_fsdp_adapter.py:%d", line), "Megatron-FSDP version 2 needs "+what,
			"It is built on PyTorch's fully_shard, and the rest has not been combined with it."),
		run:    realLaunch,
		broken: func(c *launch) bool { return c.fsdp() && c.int("megatron_fsdp_version") == 2 && broken(c) },
		say:    says("--megatron-fsdp-version 2 needs " + what),
		turn:   append(turn, "--megatron-fsdp-version 1"),
	}
}
