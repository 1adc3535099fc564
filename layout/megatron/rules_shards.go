package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// shardRules are about weight shards (GTP) and about what their presence excludes.
var shardRules = []rule{
	{
		Rule: headAt("weight-shards-cover-tp", "N1", layout.Error, layout.AtArguments, inParallel+"32", "there are at least TP weight shards",
			"Tensor parallelism already cuts a weight into TP parts; --tensor-parallel-num-weight-shards cuts further."),
		broken: func(c *launch) bool { return tooFewShards(c.s, "tensor_parallel_num_weight_shards", c.Degrees.TP) },
		say: func(c *launch) string {
			return fmt.Sprintf("%s fewer than TP %d", layout.Are(c.int("tensor_parallel_num_weight_shards"), "weight shard"), c.Degrees.TP)
		},
		turn: []string{"--tensor-parallel-num-weight-shards", "--tensor-model-parallel-size"},
	},
	{
		Rule: headAt("tp-divides-weight-shards", "N1", layout.Error, layout.AtArguments, inParallel+"37", "TP divides the weight shards",
			"Each tensor parallel part is cut into the same number of shards."),
		broken: func(c *launch) bool { return oddShards(c.s, "tensor_parallel_num_weight_shards", c.Degrees.TP) },
		say: func(c *launch) string {
			return fmt.Sprintf("%s not divisible by TP %d", layout.Are(c.int("tensor_parallel_num_weight_shards"), "weight shard"), c.Degrees.TP)
		},
		turn: []string{"--tensor-parallel-num-weight-shards", "--tensor-model-parallel-size"},
	},
	{
		Rule: headAt("weight-shards-cover-etp", "N1", layout.Error, layout.AtArguments, inParallel+"32", "there are at least ETP expert weight shards",
			"As for dense weights, against ETP, which follows TP where it is not given."),
		broken: func(c *launch) bool {
			return tooFewShards(c.s, "expert_tensor_parallel_num_weight_shards", c.Degrees.ETP)
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%s fewer than ETP %d", layout.Are(c.int("expert_tensor_parallel_num_weight_shards"), "expert weight shard"), c.Degrees.ETP)
		},
		turn: []string{"--expert-tensor-parallel-num-weight-shards", "--expert-tensor-parallel-size"},
	},
	{
		Rule: headAt("etp-divides-weight-shards", "N1", layout.Error, layout.AtArguments, inParallel+"37", "ETP divides the expert weight shards",
			"As for dense weights, against ETP."),
		broken: func(c *launch) bool { return oddShards(c.s, "expert_tensor_parallel_num_weight_shards", c.Degrees.ETP) },
		say: func(c *launch) string {
			return fmt.Sprintf("%s not divisible by ETP %d", layout.Are(c.int("expert_tensor_parallel_num_weight_shards"), "expert weight shard"), c.Degrees.ETP)
		},
		turn: []string{"--expert-tensor-parallel-num-weight-shards", "--expert-tensor-parallel-size"},
	},
	gtp(head("shards-fp4-gather", "154", inArguments, 1517, "weight shards in FP4 need --fp4-param-gather",
		"Shards are gathered in the number format in which the GEMM reads them."),
		func(c *launch) bool { return c.Precision.FP4 != "" && !c.on("fp4_param_gather") },
		"--fp4-format without --fp4-param-gather", "--fp4-param-gather"),
	{
		Rule: head("shards-graph-priority", "147", inArguments, 1541, "weight shards under CUDA graphs on Blackwell need CUDA_GRAPHS_USE_NODE_PRIORITY=1",
			"Only then do the gathers overtake GEMMs inside a graph."),
		env: true,
		broken: func(c *launch) bool {
			return c.remat() && c.capability >= 10 && c.graphs() && !c.isEnv("CUDA_GRAPHS_USE_NODE_PRIORITY", "1")
		},
		say: func(c *launch) string {
			return "weight shards and --cuda-graph-impl " + c.Graph.Impl + " with " + c.envText("CUDA_GRAPHS_USE_NODE_PRIORITY")
		},
		turn: []string{"CUDA_GRAPHS_USE_NODE_PRIORITY=1", "--tensor-parallel-num-weight-shards"},
	},
	gtp(head("shards-no-average", "154", inArguments, 1553, "weight shards exclude --ddp-average-in-collective",
		"Each buffer would need a scale of its own."),
		func(c *launch) bool { return c.on("ddp_average_in_collective") }, "--ddp-average-in-collective", "--ddp-average-in-collective"),
	gtp(head("shards-checkpoint-format", "154", inArguments, 1558, "weight shards are saved as torch or torch_dist",
		"No other checkpoint format knows them."),
		func(c *launch) bool { return c.str("ckpt_format") != "torch" && c.str("ckpt_format") != "torch_dist" },
		"another --ckpt-format than torch and torch_dist", "--ckpt-format torch_dist", "--ckpt-format torch"),
	gtp(head("shards-reshardable", "154", inArguments, 1562, "weight shards exclude fully reshardable, memory-efficient optimizer checkpoints",
		"That way of saving does not know the additional axis."),
		func(c *launch) bool {
			return c.on("dist_ckpt_optim_fully_reshardable") && c.on("distrib_optim_fully_reshardable_mem_efficient")
		},
		"--dist-ckpt-optim-fully-reshardable and --distrib-optim-fully-reshardable-mem-efficient", "--distrib-optim-fully-reshardable-mem-efficient"),
	gtp(head("shards-mxfp8-gather", "154", inArguments, 1576, "weight shards with the mxfp8 recipe need --fp8-param-gather",
		"The optimizer keeps the FP8 shard; there is no bf16 weight to quantise again. The recipe counts even without --fp8-format."),
		func(c *launch) bool { return c.str("fp8_recipe") == "mxfp8" && !c.on("fp8_param_gather") },
		"--fp8-recipe mxfp8 without --fp8-param-gather", "--fp8-param-gather", "--fp8-recipe"),
	gtp(head("shards-mxfp8-reuse", "154", inArguments, 1583, "weight shards with the mxfp8 recipe need --reuse-grad-buf-for-mxfp8-param-ag",
		"MXFP8 parameters cannot be mapped into the parameter buffer."),
		func(c *launch) bool {
			return c.str("fp8_recipe") == "mxfp8" && !(c.on("reuse_grad_buf_for_mxfp8_param_ag") && !c.fsdp())
		},
		"--fp8-recipe mxfp8 without --reuse-grad-buf-for-mxfp8-param-ag", "--reuse-grad-buf-for-mxfp8-param-ag", "--fp8-recipe"),
	{
		Rule: head("shards-one-instance", "6", inGroups, 808, "weight shards exclude several optimizer instances",
			"The two ways of splitting data parallelism have not been combined."),
		broken: func(c *launch) bool { return c.remat() && c.OptimizerInstances > 1 },
		say: func(c *launch) string {
			return fmt.Sprintf("%d optimizer instances with %d weight and %d expert weight shards of each part", c.OptimizerInstances, c.WeightRemat, c.ExpertWeightRemat)
		},
		turn: []string{"--num-distributed-optimizer-instances", "--tensor-parallel-num-weight-shards"},
	},
	{
		Rule: headAt("shards-need-te", "154", layout.Error, layout.AtTE, "megatron/training/initialize.py:372", "weight shards need Transformer Engine 2.19",
			"Its linears gather the shards."),
		run:    realLaunch,
		broken: func(c *launch) bool { return c.remat() && !c.te.atLeast("2.19.0") },
		say:    func(c *launch) string { return fmt.Sprintf("weight shards with Transformer Engine %v", c.te) },
		turn:   []string{"--tensor-parallel-num-weight-shards", "--expert-tensor-parallel-num-weight-shards"},
	},
}

// gtp is a rule that binds only with weight shards.
func gtp(r layout.Rule, broken func(c *launch) bool, what string, turn ...string) rule {
	return rule{Rule: r, turn: append(turn, "--tensor-parallel-num-weight-shards", "--expert-tensor-parallel-num-weight-shards"),
		broken: func(c *launch) bool { return c.remat() && broken(c) },
		say: func(c *launch) string {
			return fmt.Sprintf("%s, with %d weight and %d expert weight shards of each part", what, c.WeightRemat, c.ExpertWeightRemat)
		}}
}

func tooFewShards(s *Settings, dest string, degree int) bool {
	return !s.IsNone(dest) && s.Int(dest) < degree
}

func oddShards(s *Settings, dest string, degree int) bool {
	return !s.IsNone(dest) && s.Int(dest) >= degree && s.Int(dest)%degree != 0
}
