package megatron

import (
	"fmt"
	"math"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
)

// sizesRule is first of all: the other rules divide by the sizes, and multiply them.
var sizesRule = widened(folding.RuleDegreePositive,
	func(c *launch) bool { return c.badSize() != "" },
	func(c *launch) string { return c.badSize() },
	"--tensor-model-parallel-size", "--context-parallel-size", "--pipeline-model-parallel-size", "--expert-model-parallel-size", "--expert-tensor-parallel-size",
	"--seq-length", "--micro-batch-size", "--global-batch-size", virtualStagesFlag, "--num-distributed-optimizer-instances")

// badSize names a size that is below 1, or beyond what anybody trains with, "" if there is none. A batch below 1 is a rule of
// its own.
func (c *launch) badSize() string {
	d := &c.Degrees
	for _, s := range []struct {
		flag           string
		n, least, most int
	}{{"--tensor-model-parallel-size", d.TP, 1, layout.MaxSize}, {"--context-parallel-size", d.CP, 1, layout.MaxSize},
		{"--pipeline-model-parallel-size", d.PP, 1, layout.MaxSize}, {"--expert-model-parallel-size", d.EP, 1, layout.MaxSize},
		{"--expert-tensor-parallel-size", d.ETP, 1, layout.MaxSize}, {"--seq-length", c.l.SeqLength, 1, layout.MaxSequence},
		{"--micro-batch-size", c.Batch.MicroBatchSize, math.MinInt, layout.MaxSize}, {"--global-batch-size", c.Batch.GlobalBatchSize, math.MinInt, layout.MaxSequence},
		{"virtual stages", c.l.VPP, 1, layout.MaxSize}, {"--num-distributed-optimizer-instances", c.OptimizerInstances, math.MinInt, layout.MaxSize}} {
		switch {
		case s.n < s.least:
			return fmt.Sprintf("%s %d: must be at least %d", s.flag, s.n, s.least)
		case s.n > s.most:
			return fmt.Sprintf("%s %d: at most %d is read", s.flag, s.n, s.most)
		}
	}
	return ""
}

// meshRules are about the world, both meshes and the process groups.
var meshRules = []rule{
	sizesRule,
	widened(folding.RuleWorldDivisible,
		func(c *launch) bool {
			d := c.Degrees
			p := product(d.TP, d.CP, d.PP, max(1, c.WeightRemat))
			return p == 0 || d.World%p != 0
		},
		func(c *launch) string {
			d := c.Degrees
			text := fmt.Sprintf("TP %d * CP %d * PP %d", d.TP, d.CP, d.PP)
			if c.WeightRemat > 1 {
				text += fmt.Sprintf(" * %d weight shards", c.WeightRemat)
			}
			return fmt.Sprintf("%s not divisible by %s = %d", layout.Are(d.World, "GPU"), text, product(d.TP, d.CP, d.PP, max(1, c.WeightRemat)))
		},
		"--tensor-model-parallel-size", "--context-parallel-size", "--pipeline-model-parallel-size", "WORLD_SIZE"),
	{
		Rule: head("hierarchical-cp-product", "41", inArguments, 582, "the levels of hierarchical CP multiply to CP",
			"The first level exchanges by all-to-all, the second by ring; together they are the context parallel group."),
		broken: func(c *launch) bool {
			return len(c.hierarchy()) > 0 && product(c.hierarchy()...) != c.Degrees.CP
		},
		say: func(c *launch) string {
			return fmt.Sprintf("hierarchical sizes %v multiply to %d, CP is %d", c.hierarchy(), product(c.hierarchy()...), c.Degrees.CP)
		},
		turn: []string{"--hierarchical-context-parallel-sizes", "--context-parallel-size"},
	},
	{
		Rule: head("hierarchical-cp-missing", "41", inArguments, 584, "--cp-comm-type a2a+p2p names its two levels",
			"Without --hierarchical-context-parallel-sizes nobody knows how far the all-to-all reaches."),
		broken: func(c *launch) bool {
			return c.has("cp_comm_type", "a2a+p2p") && c.none("hierarchical_context_parallel_sizes")
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--cp-comm-type a2a+p2p at CP %d without --hierarchical-context-parallel-sizes", c.Degrees.CP)
		},
		turn: []string{"--hierarchical-context-parallel-sizes", "--cp-comm-type p2p", "--cp-comm-type a2a"},
	},
	{
		Rule: head("hybrid-cp-no-pp", "12", inArguments, 1445, "hybrid context parallelism needs PP 1",
			"It deals sequences of different lengths over data and context ranks, which no pipeline schedule follows."),
		broken: func(c *launch) bool { return c.on("hybrid_context_parallel") && c.Degrees.PP > 1 },
		say:    func(c *launch) string { return fmt.Sprintf("--hybrid-context-parallel at PP %d", c.Degrees.PP) },
		turn:   []string{"--hybrid-context-parallel", "--pipeline-model-parallel-size"},
	},
	{
		Rule: head("hybrid-cp-no-graphs", "12", inArguments, 1446, "hybrid context parallelism excludes --enable-cuda-graph",
			"Its shapes change from step to step."),
		broken: func(c *launch) bool { return c.on("hybrid_context_parallel") && c.on("enable_cuda_graph") },
		say:    says("--hybrid-context-parallel with --enable-cuda-graph"),
		turn:   []string{"--enable-cuda-graph", "--hybrid-context-parallel"},
	},
	{
		Rule: head("hybrid-cp-no-fsdp", "12", inArguments, 1447, "hybrid context parallelism excludes Megatron-FSDP",
			"FSDP shards over groups that stay the same."),
		broken: func(c *launch) bool { return c.on("hybrid_context_parallel") && c.fsdp() },
		say:    says("--hybrid-context-parallel with --use-megatron-fsdp"),
		turn:   []string{"--hybrid-context-parallel", "--use-megatron-fsdp"},
	},
	{
		Rule: head("hybrid-cp-single-dataloader", "12", inArguments, 1448, "hybrid context parallelism reads with --dataloader-type single",
			"Its scheduler takes over the sampling."),
		broken: func(c *launch) bool {
			t := c.str("dataloader_type")
			return c.on("hybrid_context_parallel") && t != "" && t != "single"
		},
		say: func(c *launch) string {
			return "--hybrid-context-parallel with --dataloader-type " + c.str("dataloader_type")
		},
		turn: []string{"--dataloader-type", "--hybrid-context-parallel"},
	},
	{
		Rule: head("hybrid-cp-per-token-loss", "12", inArguments, 1449, "hybrid context parallelism needs --calculate-per-token-loss",
			"Ranks work on different numbers of tokens, so the loss is averaged over tokens, not over ranks."),
		broken: func(c *launch) bool { return c.on("hybrid_context_parallel") && !c.on("calculate_per_token_loss") },
		say:    says("--hybrid-context-parallel without --calculate-per-token-loss"),
		turn:   []string{"--calculate-per-token-loss", "--hybrid-context-parallel"},
	},
	{
		Rule: head("connections-one", "8", inArguments, 1477, "before Blackwell TP or CP needs CUDA_DEVICE_MAX_CONNECTIONS=1",
			"Overlap of communication and GEMMs relies on kernels starting in the order in which they were launched. With FSDP or EP overlap it is only a warning."),
		since: "0.12.3", env: true,
		broken: func(c *launch) bool {
			return (c.Degrees.TP > 1 || c.Degrees.CP > 1) && c.capability < 10 && !c.on("use_torch_fsdp2") && !c.fsdp() && !c.on("use_custom_fsdp") && !c.overlap() &&
				!c.isEnv(connections, "1")
		},
		say: func(c *launch) string {
			return fmt.Sprintf("TP %d and CP %d on a GPU before Blackwell with %s", c.Degrees.TP, c.Degrees.CP, c.envText(connections))
		},
		turn: []string{connections + "=1"},
	},
	{
		Rule: headAt("connections-one-sp", "8", layout.Error, layout.AtArguments, "megatron/training/arguments.py:658 (core_v0.11.0)", "up to 0.11 SP and asynchronous all-reduce need CUDA_DEVICE_MAX_CONNECTIONS=1",
			"0.11 asks for it even at TP 1, because the asynchronous all-reduce is on by default."),
		until: "0.11.0", env: true,
		broken: func(c *launch) bool {
			return !c.isEnv(connections, "1") && (c.SequenceParallel || c.on("async_tensor_model_parallel_allreduce"))
		},
		say:  func(c *launch) string { return "release " + c.rel.String() + " with " + c.envText(connections) },
		turn: []string{connections + "=1"},
	},
	{
		Rule: head("sharp-needs-instances", "11", inGroups, 786, "--sharp-enabled-group dp_replica needs several optimizer instances",
			"The replica group joins the instances of the distributed optimizer."),
		broken: func(c *launch) bool {
			return c.on("use_sharp") && c.str("sharp_enabled_group") == "dp_replica" && c.OptimizerInstances <= 1
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--sharp-enabled-group dp_replica with %d distributed optimizer instance", c.OptimizerInstances)
		},
		turn: []string{"--sharp-enabled-group", "--num-distributed-optimizer-instances"},
	},
	{
		Rule: head("sharp-group-without-sharp", "11", inGroups, 790, "--sharp-enabled-group needs --use-sharp",
			"It names the group that SHARP speeds up."),
		broken: func(c *launch) bool { return !c.on("use_sharp") && !c.none("sharp_enabled_group") },
		say: func(c *launch) string {
			return "--sharp-enabled-group " + c.str("sharp_enabled_group") + " without --use-sharp"
		},
		turn: []string{"--sharp-enabled-group", "--use-sharp"},
	},
	widened(folding.RuleExpertWorldDivisible,
		func(c *launch) bool {
			d := c.Degrees
			p := product(d.ETP, d.EP, d.PP, max(1, c.ExpertWeightRemat))
			return p == 0 || d.World%p != 0
		},
		func(c *launch) string {
			d := c.Degrees
			text := fmt.Sprintf("%s not divisible by ETP %d * EP %d * PP %d", layout.Are(d.World, "GPU"), d.ETP, d.EP, d.PP)
			if c.ExpertWeightRemat > 1 {
				text += fmt.Sprintf(" * %d expert weight shards", c.ExpertWeightRemat)
			}
			if c.ETPFromTP {
				text += "; ETP follows TP"
			}
			return text
		},
		"--expert-model-parallel-size", "--expert-tensor-parallel-size", "--pipeline-model-parallel-size", "--tensor-model-parallel-size", "WORLD_SIZE"),
	shared(folding.RuleEDPEqualsDP, "--use-tp-pp-dp-mapping", "--expert-model-parallel-size", "--expert-tensor-parallel-size", "--context-parallel-size"),
	shared(folding.RulePPGroupsEqual, "--use-tp-pp-dp-mapping", "--expert-model-parallel-size", "--expert-tensor-parallel-size"),
	{
		Rule: head("instances-divide-dp", "5", inGroups, 922, "the optimizer instances divide DP * CP",
			"Each instance shards the dense optimizer state over an equal part of the data and context parallel ranks."),
		broken: func(c *launch) bool {
			n := c.OptimizerInstances
			return c.wholeDP() && (n < 1 || c.DP*c.Degrees.CP%n != 0)
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%d distributed optimizer instances do not divide DP %d * CP %d = %d", c.OptimizerInstances, c.DP, c.Degrees.CP, c.DP*c.Degrees.CP)
		},
		turn: []string{"--num-distributed-optimizer-instances"},
	},
	{
		Rule: head("hybrid-cp-even", "12", inGroups, 1044, "hybrid context parallelism needs an even DP * CP",
			"It halves the group again and again."),
		broken: func(c *launch) bool {
			return c.wholeDP() && c.on("hybrid_context_parallel") && c.DP*c.Degrees.CP%2 != 0
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--hybrid-context-parallel with DP %d * CP %d = %d", c.DP, c.Degrees.CP, c.DP*c.Degrees.CP)
		},
		turn: []string{"--hybrid-context-parallel", "--tensor-model-parallel-size"},
	},
	{
		Rule: head("ucc-connections", "10", inGroups, 1206, "the UCC pipeline backend excludes CUDA_DEVICE_MAX_CONNECTIONS=1",
			"All its transfers would wait for one another."),
		broken: func(c *launch) bool {
			return c.str("pipeline_model_parallel_comm_backend") == "ucc" && c.isEnv(connections, "1")
		},
		say:  says("--pipeline-model-parallel-comm-backend ucc with CUDA_DEVICE_MAX_CONNECTIONS=1"),
		turn: []string{"--pipeline-model-parallel-comm-backend", connections + "=8"},
	},
	{
		Rule: head("instances-divide-edp", "5", inGroups, 1448, "the optimizer instances divide EDP",
			"Expert optimizer state is sharded over an equal part of the expert data parallel ranks."),
		since: "0.13.1",
		broken: func(c *launch) bool {
			n := c.OptimizerInstances
			return c.EDP > 0 && (n < 1 || c.EDP%n != 0)
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%d distributed optimizer instances do not divide EDP %d", c.OptimizerInstances, c.EDP)
		},
		turn: []string{"--num-distributed-optimizer-instances", "--expert-model-parallel-size"},
	},
}

// hierarchy is --hierarchical-context-parallel-sizes.
func (c *launch) hierarchy() []int { return c.s.Value("hierarchical_context_parallel_sizes").Ints() }

// envText says how a variable stands.
func (c *launch) envText(name string) string {
	switch v, set := c.env(name); {
	case c.Env == nil:
		return name + " unknown"
	case !set:
		return name + " not set"
	default:
		return name + "=" + quoted(v)
	}
}
