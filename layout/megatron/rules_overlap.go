package megatron

import (
	"fmt"
	"slices"

	"github.com/moeplan/moeplan/layout"
)

// overlapRules are about overlapping communication: of parameters and gradients, of tensor parallelism, of experts.
var overlapRules = []rule{
	{
		Rule: head("param-gather-needs-sharding", "119", inArguments, 1025, "--overlap-param-gather needs the distributed optimizer, Megatron-FSDP or dist_muon",
			"Otherwise parameters are not sharded and there is nothing to gather."),
		broken: func(c *launch) bool {
			return c.on("overlap_param_gather") && !c.on("use_distributed_optimizer") && !c.fsdp() && c.str("optimizer") != "dist_muon"
		},
		say:  func(c *launch) string { return "--overlap-param-gather with unsharded optimizer " + c.str("optimizer") },
		turn: []string{"--use-distributed-optimizer", "--overlap-param-gather"},
	},
	{
		Rule: head("param-gather-needs-grad-reduce", "119", inArguments, 1028, "--overlap-param-gather needs --overlap-grad-reduce",
			"Both work on the same buckets."),
		broken: func(c *launch) bool { return c.on("overlap_param_gather") && !c.on("overlap_grad_reduce") },
		say:    says("--overlap-param-gather without --overlap-grad-reduce"),
		turn:   []string{"--overlap-grad-reduce", "--overlap-param-gather"},
	},
	stepGather("step-gather-needs-optimizer", 1067, "the distributed optimizer", "It moves the optimizer's own gather.",
		func(c *launch) bool { return !c.on("use_distributed_optimizer") }, "--use-distributed-optimizer"),
	stepGather("step-gather-needs-param-gather", 1069, "--overlap-param-gather", "It extends that overlap into the step.",
		func(c *launch) bool { return !c.on("overlap_param_gather") }, "--overlap-param-gather"),
	stepGather("step-gather-needs-vpp", 1071, "VPP", "It works chunk by chunk.",
		func(c *launch) bool { _, set := c.vpp(); return !set }, virtualStagesFlag),
	stepGather("step-gather-needs-torch-checkpoint", 1073, "--ckpt-format torch", "Distributed checkpoints do not know its order.",
		func(c *launch) bool { return c.str("ckpt_format") != "torch" }, "--ckpt-format torch"),
	{
		Rule: head("tp-overlap-needs-sp", "31", inArguments, 1442, "--tp-comm-overlap needs sequence parallelism",
			"It overlaps the gathers and reduce-scatters of sequence parallelism, which is off at TP 1."),
		broken: func(c *launch) bool { return c.on("tp_comm_overlap") && !c.SequenceParallel },
		say: func(c *launch) string {
			return fmt.Sprintf("--tp-comm-overlap without sequence parallelism at TP %d", c.Degrees.TP)
		},
		turn: []string{"--sequence-parallel", "--tp-comm-overlap"},
	},
	{
		Rule: headAt("ep-overlap-torch", "114", layout.Error, layout.AtConfig, inConfig+"3004", "EP overlap needs PyTorch 2.6",
			"Older ones hang."),
		broken: func(c *launch) bool { return c.overlap() && !c.torch.atLeast("2.6.0") },
		say:    func(c *launch) string { return "EP overlap with PyTorch " + c.torch.String() },
		turn:   []string{epOverlap},
	},
	widened("overlap-needs-vpp",
		func(c *launch) bool { _, set := c.vpp(); return c.overlap() && c.Degrees.PP > 1 && !set },
		func(c *launch) string { return fmt.Sprintf("EP overlap at PP %d without VPP", c.Degrees.PP) },
		virtualStagesFlag, epOverlap),
	widened("overlap-needs-ep",
		func(c *launch) bool { return c.overlap() && c.Degrees.EP <= 1 },
		func(c *launch) string { return fmt.Sprintf("EP overlap at EP %d", c.Degrees.EP) },
		"--expert-model-parallel-size", epOverlap),
	widened("overlap-needs-all-to-all",
		func(c *launch) bool { return c.overlap() && c.Dispatcher != "alltoall" && c.Dispatcher != "flex" },
		func(c *launch) string { return "EP overlap with dispatcher " + c.Dispatcher },
		"--moe-token-dispatcher-type alltoall", epOverlap),
	widened("overlap-full-recompute",
		func(c *launch) bool { return c.overlap() && c.full() },
		says("EP overlap with full recompute"), "--recompute-granularity", epOverlap),
	{
		Rule: head("overlap-no-recompute-method", "114", inConfig, 3025, "EP overlap excludes --recompute-method, even without recompute",
			"It belongs to full recompute; the check looks at the flag alone."),
		broken: func(c *launch) bool { return c.overlap() && c.Recompute.Method != "" },
		say:    func(c *launch) string { return "EP overlap with --recompute-method " + c.Recompute.Method },
		turn:   []string{"--recompute-method", epOverlap},
	},
	{
		Rule: head("overlap-no-recompute-layers", "114", inConfig, 3028, "EP overlap excludes --recompute-num-layers, even without recompute",
			"It belongs to full recompute; the check looks at the flag alone."),
		broken: func(c *launch) bool { return c.overlap() && !c.none("recompute_num_layers") },
		say: func(c *launch) string {
			return fmt.Sprintf("EP overlap with --recompute-num-layers %d", c.Recompute.NumLayers)
		},
		turn: []string{"--recompute-num-layers", epOverlap},
	},
	since("0.17.1", widened("overlap-moe-recompute",
		func(c *launch) bool { return c.overlap() && c.recomputeListed("moe") },
		says("EP overlap with moe among the recompute modules, which counts even without selective recompute"), "--recompute-modules", "--moe-layer-recompute", epOverlap)),
	{
		Rule: head("overlap-needs-16-bit", "114", inConfig, 3036, "EP overlap needs bf16 or fp16",
			"Its kernels exist for 16 bits."),
		broken: func(c *launch) bool { return c.overlap() && c.Precision.Params == "fp32" },
		say:    says("EP overlap in fp32"),
		turn:   []string{"--bf16", epOverlap},
	},
	{
		Rule: head("overlap-no-shared-overlap", "114", inConfig, 3040, "EP overlap excludes shared-expert overlap",
			"Both want to fill the same gap. The flag counts even without shared experts."),
		broken: func(c *launch) bool { return c.overlap() && c.on("moe_shared_expert_overlap") },
		say:    says("EP overlap with --moe-shared-expert-overlap"),
		turn:   []string{"--moe-shared-expert-overlap", epOverlap},
	},
	widened("overlap-mtp-layers",
		func(c *launch) bool {
			return c.overlap() && c.Shape.MTPGiven && c.Shape.MTPLayers != 1 && (c.Shape.MTPLayers != 0 || !c.from("0.19.0"))
		},
		func(c *launch) string { return fmt.Sprintf("EP overlap with %d MTP layers", c.Shape.MTPLayers) },
		"--mtp-num-layers 1", epOverlap),
	{
		Rule: head("overlap-ncclep-offload", "114", inConfig, 3054, "EP overlap over NCCL EP excludes offload of expert_fc1",
			"The overlap frees the input that the offload would keep."),
		broken: func(c *launch) bool {
			return c.overlap() && c.FlexBackend == "ncclep" && c.offloads() && c.has("offload_modules", "expert_fc1")
		},
		say:  says("EP overlap over ncclep with offload of expert_fc1"),
		turn: []string{"--offload-modules", epOverlap},
	},
	{
		Rule: head("overlap-graph-modules", "114", inConfig, 3066, "EP overlap excludes graphs of moe and mlp",
			"The overlapped schedule takes these modules apart."),
		broken: func(c *launch) bool {
			return c.overlap() && c.Graph.Impl == "transformer_engine" && (c.graphed("moe") || c.graphed("mlp"))
		},
		say:  func(c *launch) string { return fmt.Sprintf("EP overlap with graphs of %v", c.Graph.Modules) },
		turn: []string{"--cuda-graph-modules", epOverlap},
	},
	{
		Rule: head("delay-wgrad-needs-te-layers", "116", inArguments, 1904, "delayed weight gradients need --transformer-impl transformer_engine",
			"Its linears can split the two halves of the backward pass."),
		broken: func(c *launch) bool {
			return c.on("delay_wgrad_compute") && c.str("transformer_impl") != "transformer_engine"
		},
		say: func(c *launch) string {
			return "--delay-wgrad-compute with --transformer-impl " + c.str("transformer_impl")
		},
		turn: []string{"--transformer-impl transformer_engine", "--delay-wgrad-compute"},
	},
	{
		Rule: head("delay-wgrad-te-reduce", "116", inArguments, 1907, "delayed weight gradients with gradient overlap need TE 2.8",
			"Buckets must wait for the late gradients."),
		since: "0.15.3",
		broken: func(c *launch) bool {
			return c.on("delay_wgrad_compute") && c.on("overlap_grad_reduce") && !c.te.atLeast("2.8.0")
		},
		say: func(c *launch) string {
			return "--delay-wgrad-compute with --overlap-grad-reduce and TE " + c.te.String()
		},
		turn: []string{"--delay-wgrad-compute", "--overlap-grad-reduce"},
	},
	{
		Rule: headAt("delay-wgrad-no-reduce", "116", layout.Error, layout.AtArguments, "megatron/training/arguments.py:1061 (core_v0.13.1)", "in 0.13 delayed weight gradients exclude gradient overlap",
			"Buckets did not wait for the late gradients yet."),
		until:  "0.13.1",
		broken: func(c *launch) bool { return c.on("delay_wgrad_compute") && c.on("overlap_grad_reduce") },
		say:    says("--delay-wgrad-compute with --overlap-grad-reduce in release 0.13"),
		turn:   []string{"--overlap-grad-reduce", "--delay-wgrad-compute"},
	},
	wgradGraph("delay-wgrad-graph-te", 1916, "TE 2.12", "Graphs need gradients at fixed addresses.",
		func(c *launch) bool { return !c.te.atLeast("2.12.0") }, "--cuda-graph-modules"),
	wgradGraph("delay-wgrad-graph-fusion", 1919, "gradient accumulation fusion", "Without it gradients have no fixed address.",
		func(c *launch) bool { return !c.on("gradient_accumulation_fusion") }, "--no-gradient-accumulation-fusion"),
	wgradGraph("delay-wgrad-graph-bias", 1926, "attention without biases", "Gradients of biases are not delayed.",
		func(c *launch) bool { return c.graphed("attn") && c.Shape.QKVBias }, "--disable-bias-linear", "--add-qkv-bias"),
	{
		Rule: head("delay-wgrad-te-unfused", "116", inArguments, 1930, "delayed weight gradients without accumulation fusion need TE 2.7",
			"Older ones add them only in the fused way."),
		since: "0.14.0",
		broken: func(c *launch) bool {
			return c.on("delay_wgrad_compute") && !c.on("gradient_accumulation_fusion") && !c.te.atLeast("2.7.0")
		},
		say: func(c *launch) string {
			return "--delay-wgrad-compute with --no-gradient-accumulation-fusion and TE " + c.te.String()
		},
		turn: []string{"--no-gradient-accumulation-fusion", "--delay-wgrad-compute"},
	},
	{
		Rule: head("delay-wgrad-needs-overlap", "116", inConfig, 3076, "delayed weight gradients need EP overlap",
			"They fill the gaps that it opens."),
		since:  "0.14.0",
		broken: func(c *launch) bool { return c.on("delay_wgrad_compute") && !c.overlap() },
		say:    says("--delay-wgrad-compute without --overlap-moe-expert-parallel-comm"),
		turn:   []string{"--delay-wgrad-compute", epOverlap},
	},
	{
		Rule: head("delay-wgrad-graph-te-210", "116", inConfig, 3079, "delayed weight gradients with Transformer Engine graphs need TE 2.10",
			"Older graphs capture both halves of the backward pass."),
		since: "0.16.1",
		broken: func(c *launch) bool {
			return c.on("delay_wgrad_compute") && c.Graph.Impl == "transformer_engine" && !c.te.atLeast("2.10.0")
		},
		say: func(c *launch) string {
			return "--delay-wgrad-compute with --cuda-graph-impl transformer_engine and TE " + c.te.String()
		},
		turn: []string{"--cuda-graph-impl none", "--delay-wgrad-compute"},
	},
	dispatchWgrad("dispatch-wgrad-no-overlap", 3085, "excludes EP overlap", "It is the other way to hide the backward exchange.",
		func(c *launch) bool { return c.overlap() }, epOverlap),
	dispatchWgrad("dispatch-wgrad-te", 3089, "needs TE 2.3", "Experts' weight gradients must be separable.",
		func(c *launch) bool { return !c.te.atLeast("2.3.0") }),
	dispatchWgrad("dispatch-wgrad-no-delay", 3092, "excludes --delay-wgrad-compute", "Both move the same gradients.",
		func(c *launch) bool { return c.on("delay_wgrad_compute") }, "--delay-wgrad-compute"),
	{
		Rule: head("early-release-needs-overlap", "118", inConfig, 3098, "--ep-overlap-early-attn-memory-release needs EP overlap",
			"It frees what the overlapped schedule keeps."),
		broken: func(c *launch) bool { return c.on("ep_overlap_early_attn_memory_release") && !c.overlap() },
		say:    says("--ep-overlap-early-attn-memory-release without --overlap-moe-expert-parallel-comm"),
		turn:   []string{"--ep-overlap-early-attn-memory-release", epOverlap},
	},
}

const epOverlap = "--overlap-moe-expert-parallel-comm"

// recomputeListed reports whether a module stands in --recompute-modules, whatever the granularity.
func (c *launch) recomputeListed(module string) bool {
	return slices.Contains(c.Recompute.Modules, module)
}

func stepGather(id layout.RuleID, line int, what, why string, broken func(c *launch) bool, turn ...string) rule {
	const flag = "--overlap-param-gather-with-optimizer-step"
	return rule{Rule: head(id, "120", inArguments, line, flag+" needs "+what, why), turn: append(turn, flag),
		broken: func(c *launch) bool { return c.on("overlap_param_gather_with_optimizer_step") && broken(c) },
		say:    says(flag + " without " + what)}
}

func wgradGraph(id layout.RuleID, line int, what, why string, broken func(c *launch) bool, turn ...string) rule {
	return rule{Rule: head(id, "116", inArguments, line, "delayed weight gradients inside graphs need "+what, why), turn: append(turn, "--delay-wgrad-compute"),
		since: "0.17.1",
		broken: func(c *launch) bool {
			in := c.graphed("attn") || c.graphed("moe_router") && !c.none("moe_shared_expert_intermediate_size") && !c.on("moe_shared_expert_overlap")
			return c.on("delay_wgrad_compute") && c.on("overlap_grad_reduce") && in && broken(c)
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--delay-wgrad-compute and --overlap-grad-reduce with graphs of %v need %s", c.Graph.Modules, what)
		}}
}

func dispatchWgrad(id layout.RuleID, line int, what, why string, broken func(c *launch) bool, turn ...string) rule {
	const flag = "--overlap-dispatch-backward-with-experts-wgrad"
	return rule{Rule: head(id, "117", inConfig, line, flag+" "+what, why), turn: append(turn, flag),
		broken: func(c *launch) bool { return c.on("overlap_dispatch_backward_with_experts_wgrad") && broken(c) },
		say:    says(flag + " " + what)}
}
