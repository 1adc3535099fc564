package megatron

import (
	"fmt"
	"slices"

	"github.com/moeplan/moeplan/layout"
)

// offloadRules are about what is moved to the host.
var offloadRules = []rule{
	{
		Rule: head("layer-offload-count", "140", inConfig, 1887, "fewer layers are offloaded than there are",
			"The last layer's activations are needed at once. A negative number is ignored."),
		broken: func(c *launch) bool {
			return c.offloadsLayers() && c.int("cpu_offloading_num_layers") >= c.Shape.NumLayers
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--cpu-offloading-num-layers %d of %d layers", c.int("cpu_offloading_num_layers"), c.Shape.NumLayers)
		},
		turn: []string{"--cpu-offloading-num-layers"},
	},
	{
		Rule: head("layer-offload-no-pp", "140", inConfig, 1892, "offload of layers needs PP 1",
			"It counts on one forward before one backward."),
		broken: func(c *launch) bool { return c.offloadsLayers() && c.Degrees.PP > 1 },
		say: func(c *launch) string {
			return fmt.Sprintf("--cpu-offloading-num-layers %d at PP %d", c.int("cpu_offloading_num_layers"), c.Degrees.PP)
		},
		turn: []string{"--cpu-offloading-num-layers", "--pipeline-model-parallel-size 1"},
	},
	{
		Rule: head("layer-offload-no-recompute", "140", inConfig, 1897, "offload of layers excludes recompute",
			"A layer's activations are either kept on the host or computed again."),
		broken: func(c *launch) bool {
			return c.offloadsLayers() && c.str("recompute_granularity") != "" || c.offloadsLayers() && c.on("recompute_activations")
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--cpu-offloading-num-layers %d with %s recompute", c.int("cpu_offloading_num_layers"), c.Recompute.Granularity)
		},
		turn: []string{"--cpu-offloading-num-layers", "--recompute-granularity", "--recompute-activations"},
	},
	{
		Rule: head("layer-offload-no-graphs", "140", inConfig, 2801, "offload of layers excludes CUDA graphs of layers",
			"Copies to the host are not captured."),
		broken: func(c *launch) bool { return c.graphs() && c.offloadsLayers() && c.Graph.Impl != "full_iteration" },
		say: func(c *launch) string {
			return fmt.Sprintf("--cpu-offloading-num-layers %d with --cuda-graph-impl %s", c.int("cpu_offloading_num_layers"), c.Graph.Impl)
		},
		turn: []string{"--cpu-offloading-num-layers", "--cuda-graph-impl none"},
	},
	{
		Rule: head("optimizer-offload-aware", "141", inArguments, 1885, "--optimizer-cpu-offload needs --use-precision-aware-optimizer",
			"The optimizer that works on both sides is reached through it."),
		since:  "0.12.3",
		broken: func(c *launch) bool { return c.on("optimizer_cpu_offload") && !c.on("use_precision_aware_optimizer") },
		say:    says("--optimizer-cpu-offload without --use-precision-aware-optimizer"),
		turn:   []string{"--use-precision-aware-optimizer", "--optimizer-cpu-offload"},
	},
	{
		Rule: head("optimizer-offload-fp8", "141", inArguments, 1889, "--optimizer-cpu-offload with --fp8-param-gather needs the delayed recipe",
			"Only per-tensor scales can be updated on the host."),
		since: "0.14.0",
		broken: func(c *launch) bool {
			return c.on("optimizer_cpu_offload") && c.fp8Gather() && c.str("fp8_recipe") != "delayed"
		},
		say: func(c *launch) string {
			return "--optimizer-cpu-offload and --fp8-param-gather with --fp8-recipe " + c.str("fp8_recipe")
		},
		turn: []string{"--fp8-param-gather", "--fp8-recipe delayed", "--optimizer-cpu-offload"},
	},
	fine("offload-needs-te-layers", "137", inArguments, 1936, "--transformer-impl transformer_engine", "Its hooks sit in Transformer Engine's modules.",
		func(c *launch) bool { return c.str("transformer_impl") != "transformer_engine" }, "--transformer-impl transformer_engine"),
	{
		Rule: head("offload-needs-v1", "137", inArguments, 1939, "fine-grained offload with TE 2.10 or newer needs NVTE_CPU_OFFLOAD_V1=1",
			"The newer offload of Transformer Engine would move weights too."),
		env: true,
		broken: func(c *launch) bool {
			return c.offloads() && c.te.atLeast("2.10.0") && !c.isEnv("NVTE_CPU_OFFLOAD_V1", "1")
		},
		say: func(c *launch) string {
			return "--fine-grained-activation-offloading with " + c.envText("NVTE_CPU_OFFLOAD_V1")
		},
		turn: []string{"NVTE_CPU_OFFLOAD_V1=1", fineOffload},
	},
	fine("offload-no-layer-offload", "137", inConfig, 2129, "no --cpu-offloading-num-layers", "Each would move what the other has moved.",
		func(c *launch) bool { return c.offloadsLayers() }, "--cpu-offloading-num-layers"),
	fine("offload-needs-modules", "137", inConfig, 2131, "--offload-modules", "There is no default.",
		func(c *launch) bool { return len(c.list("offload_modules")) == 0 }, "--offload-modules core_attn"),
	{
		Rule: head("offload-module-names", "137", inConfig, 2144, "offload modules are known ones",
			"Each names the saved input of one part of a layer."),
		broken: func(c *launch) bool { return c.offloads() && c.unknownOffload() != "" },
		say: func(c *launch) string {
			return "--offload-modules " + quoted(c.unknownOffload()) + " is no module of release " + c.rel.String()
		},
		turn: []string{"--offload-modules", fineOffload},
	},
	fine("offload-proj-needs-core", "137", inConfig, 2149, "core_attn beside attn_proj", "The input of the projection is the output of the core, which the core's backward needs.",
		func(c *launch) bool {
			return c.has("offload_modules", "attn_proj") && !c.has("offload_modules", "core_attn")
		}, "--offload-modules"),
	fine("offload-gdp-recompute", "137", inConfig, 2159, "gdp_qkv or recompute of gdp_in_proj, not both", "The recompute discards what the offload would keep.",
		func(c *launch) bool { return c.has("offload_modules", "gdp_qkv") && c.recomputes("gdp_in_proj") }, "--offload-modules", "--recompute-modules"),
	since("0.19.0", fine("offload-inside-recompute", "138", inConfig, 2169, "no module of experts while moe is recomputed", "The checkpoint around the MoE layer already drops them.",
		func(c *launch) bool { return c.recomputes("moe") && c.expertOffload() != "" }, "--recompute-modules", "--offload-modules")),
	fine("offload-min-size", "137", inConfig, 2177, "--min-offloaded-tensor-size of at least 0", "It is a number of elements.",
		func(c *launch) bool { return c.int("min_offloaded_tensor_size") < 0 }, "--min-offloaded-tensor-size"),
	fine("offload-fraction", "137", inConfig, 2180, "--activation-offload-fraction between 0 and 1", "It is a part of what is offered.",
		func(c *launch) bool {
			f := c.s.Float("activation_offload_fraction")
			return c.s.Has("activation_offload_fraction") && (f < 0 || f > 1)
		}, "--activation-offload-fraction"),
	fine("offload-delta", "137", inConfig, 2183, "--delta-offload-bytes-across-pp-ranks of at least 0", "Later stages offload less by that much.",
		func(c *launch) bool { return c.int("delta_offload_bytes_across_pp_ranks") < 0 }, "--delta-offload-bytes-across-pp-ranks"),
	fine("offload-fused-needs-fuser", "137", inConfig, 2188, "--use-transformer-engine-op-fuser for fused_group_mlp", "Only the fused operation has that one input.",
		func(c *launch) bool {
			return c.has("offload_modules", "fused_group_mlp") && !c.on("use_transformer_engine_op_fuser")
		}, "--use-transformer-engine-op-fuser", "--offload-modules"),
	fine("offload-fused-alone", "137", inConfig, 2191, "fused_group_mlp without expert_fc1 and moe_act", "It moves the whole MLP at once.",
		func(c *launch) bool {
			return c.has("offload_modules", "fused_group_mlp") && (c.has("offload_modules", "expert_fc1") || c.has("offload_modules", "moe_act"))
		}, "--offload-modules"),
	paged("stash-no-layer-offload", 2212, "no --cpu-offloading-num-layers", func(c *launch) bool { return c.offloadsLayers() }, "--cpu-offloading-num-layers"),
	paged("stash-needs-rank-capacity", 2214, "--moe-expert-rank-capacity-factor", func(c *launch) bool { return c.none("moe_expert_rank_capacity_factor") }),
	paged("stash-no-expert-offload", 2222, "no offload of expert modules", func(c *launch) bool { return c.expertOffload() != "" }, "--offload-modules"),
}

const fineOffload = "--fine-grained-activation-offloading"

func fine(id layout.RuleID, constraint, file string, line int, what, why string, broken func(c *launch) bool, turn ...string) rule {
	return rule{Rule: head(id, constraint, file, line, "fine-grained offload needs "+what, why), turn: append(turn, fineOffload),
		broken: func(c *launch) bool { return c.offloads() && broken(c) },
		say: func(c *launch) string {
			return fmt.Sprintf("fine-grained offload of %v needs %s", c.list("offload_modules"), what)
		}}
}

func paged(id layout.RuleID, line int, what string, broken func(c *launch) bool, turn ...string) rule {
	return rule{Rule: head(id, "103", inConfig, line, "--moe-paged-stash needs "+what, "It keeps the experts' activations in pages sized by the rank's capacity."),
		turn:   append(turn, "--moe-paged-stash"),
		broken: func(c *launch) bool { return c.on("moe_paged_stash") && broken(c) },
		say:    says("--moe-paged-stash needs " + what)}
}

// fp8Gather: FSDP2 switches it off.
func (c *launch) fp8Gather() bool {
	return c.on("fp8_param_gather") && !(c.on("use_torch_fsdp2") && c.te.atLeast("2.0.0"))
}

// offloadModules are the modules of --offload-modules with the release that first takes them.
var offloadModules = map[string]string{"core_attn": "", "attn_proj": "", "expert_fc1": "", "moe_act": "", "attn_norm": "", "mlp_norm": "", "qkv_linear": "",
	"fused_group_mlp": "0.19.0", "gdp_qkv": "main"}

func (c *launch) unknownOffload() string {
	for _, m := range c.list("offload_modules") {
		if since, ok := offloadModules[m]; !ok || since != "" && !c.rel.From(since) {
			return m
		}
	}
	return ""
}

// expertOffload returns an offloaded module that lies inside MoE layers.
func (c *launch) expertOffload() string {
	for _, m := range c.list("offload_modules") {
		if slices.Contains([]string{"moe_act", "expert_fc1", "fused_group_mlp"}, m) {
			return m
		}
	}
	return ""
}
