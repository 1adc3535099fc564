package megatron

import (
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout"
)

// graphRules are about CUDA graphs.
var graphRules = []rule{
	{
		Rule: head("graph-flags", "142", inArguments, 613, "one flag chooses the kind of CUDA graph",
			"--enable-cuda-graph and --external-cuda-graph are old names of two kinds."),
		since: "0.15.3",
		broken: func(c *launch) bool {
			e, x := c.on("enable_cuda_graph"), c.on("external_cuda_graph")
			return (e || x) && c.str("cuda_graph_impl") != "none" || e && x
		},
		say:  says("more than one of --cuda-graph-impl, --enable-cuda-graph and --external-cuda-graph is given"),
		turn: []string{"--enable-cuda-graph", "--external-cuda-graph", "--cuda-graph-impl none"},
	},
	{
		Rule: head("graph-scope-and-modules", "142", inArguments, 634, "--cuda-graph-scope and --cuda-graph-modules exclude each other",
			"The first is the old name of the second."),
		since:  "0.18.2",
		broken: func(c *launch) bool { return c.given("cuda_graph_scope") && len(c.list("cuda_graph_modules")) > 0 },
		say:    says("--cuda-graph-scope with --cuda-graph-modules"),
		turn:   []string{"--cuda-graph-scope", "--cuda-graph-modules"},
	},
	{
		Rule: headAt("graph-scope-full-iteration", "142", layout.Error, layout.AtArguments, "megatron/core/transformer/cuda_graph_config.py:108", "the old scope full_iteration excludes Transformer Engine graphs",
			"A graph of the whole iteration is captured by Megatron itself."),
		since: "0.16.1",
		broken: func(c *launch) bool {
			return c.graphImplFlag() == "transformer_engine" && (c.has("cuda_graph_scope", "full_iteration") || c.has("cuda_graph_modules", "full_iteration"))
		},
		say:  says("scope full_iteration with --cuda-graph-impl transformer_engine"),
		turn: []string{"--cuda-graph-scope", "--cuda-graph-modules", "--cuda-graph-impl none", "--external-cuda-graph"},
	},
	{
		Rule: head("graph-iteration-nan-check", "142", inArguments, 1236, "a graph of the whole iteration needs --no-check-for-nan-in-loss-and-grad",
			"The check reads a value from the GPU, which a graph cannot. The fake process group switches it off too late."),
		since: "0.18.2",
		broken: func(c *launch) bool {
			off := c.on("fp16") && !c.on("bf16") && c.s.Float("loss_scale") == 0
			return c.Graph.Impl == "full_iteration" && c.on("check_for_nan_in_loss_and_grad") && !off
		},
		say:  says("--cuda-graph-impl full_iteration with the check for NaN on"),
		turn: []string{"--no-check-for-nan-in-loss-and-grad", "--cuda-graph-impl none"},
	},
	{
		Rule: head("graph-no-pipelined-inference", "150", inArguments, 1859, "pipelined inference excludes CUDA graphs",
			"Its micro-batches change their shape."),
		since: "0.13.1",
		broken: func(c *launch) bool {
			return c.int("inference_batch_times_seqlen_threshold") > -1 && c.Degrees.PP > 1 && c.graphs()
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--inference-batch-times-seqlen-threshold %d with --cuda-graph-impl %s", c.int("inference_batch_times_seqlen_threshold"), c.Graph.Impl)
		},
		turn: []string{"--inference-batch-times-seqlen-threshold", "--cuda-graph-impl none"},
	},
	{
		Rule: head("pipelined-inference-needs-pp", "150", inArguments, 1856, "--inference-batch-times-seqlen-threshold needs PP > 1",
			"It cuts a batch into micro-batches for the pipeline."),
		broken: func(c *launch) bool {
			return c.int("inference_batch_times_seqlen_threshold") > -1 && c.Degrees.PP <= 1
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--inference-batch-times-seqlen-threshold %d at PP %d", c.int("inference_batch_times_seqlen_threshold"), c.Degrees.PP)
		},
		turn: []string{"--inference-batch-times-seqlen-threshold"},
	},
	{
		Rule: head("graph-expandable-segments", "146", inArguments, 1963, "Transformer Engine graphs with expandable segments need NCCL_GRAPH_REGISTER=0",
			"NCCL would register addresses that the allocator remaps."),
		since: "0.16.1",
		broken: func(c *launch) bool {
			return c.Graph.Impl == "transformer_engine" && c.expandable() && !c.isEnv("NCCL_GRAPH_REGISTER", "0")
		},
		say: func(c *launch) string {
			return "--cuda-graph-impl transformer_engine and PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True with " + c.envText("NCCL_GRAPH_REGISTER")
		},
		turn: []string{"NCCL_GRAPH_REGISTER=0", "--cuda-graph-impl none"},
	},
	{
		Rule: headAt("graph-no-expandable-segments", "146", layout.Error, layout.AtArguments, "megatron/training/arguments.py:1199 (core_v0.15.3)", "in 0.15 CUDA graphs exclude expandable segments",
			"Later releases ask only that NCCL registers nothing."),
		since: "0.15.3", until: "0.15.3",
		broken: func(c *launch) bool { return c.graphs() && c.expandable() },
		say: func(c *launch) string {
			return "--cuda-graph-impl " + c.Graph.Impl + " with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
		},
		turn: []string{"PYTORCH_CUDA_ALLOC_CONF=", "--cuda-graph-impl none"},
	},
	{
		Rule: head("graph-iteration-modules", "142", inArguments, 1969, "a graph of the whole iteration takes no modules",
			"It holds all of them."),
		since:  "0.18.2",
		broken: func(c *launch) bool { return c.Graph.Impl == "full_iteration" && len(c.Graph.Modules) > 0 },
		say: func(c *launch) string {
			return fmt.Sprintf("--cuda-graph-impl full_iteration with modules %v", c.Graph.Modules)
		},
		turn: []string{"--cuda-graph-modules", "--cuda-graph-scope"},
	},
	{
		Rule: headAt("graph-experts-padding", "143", layout.Error, layout.AtArguments, "megatron/training/arguments.py:1459 (core_v0.17.1)", "in 0.16 and 0.17 local graphs with EP need --moe-pad-experts-for-cuda-graph-inference",
			"The check was meant for inference and binds training too."),
		since: "0.16.1", until: "0.17.1",
		broken: func(c *launch) bool {
			return c.Graph.Impl == "local" && c.Degrees.EP > 1 && !c.on("moe_pad_experts_for_cuda_graph_inference")
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--cuda-graph-impl local at EP %d in release %s without --moe-pad-experts-for-cuda-graph-inference", c.Degrees.EP, c.rel)
		},
		turn: []string{"--moe-pad-experts-for-cuda-graph-inference", "--cuda-graph-impl none"},
	},
	{
		Rule: headAt("graph-rng-tracker", "146", layout.Error, layout.AtArguments, "megatron/training/arguments.py:1083 (core_v0.13.1)", "in 0.13 external graphs need --te-rng-tracker",
			"Later releases switch it on by themselves."),
		since: "0.13.1", until: "0.13.1",
		broken: func(c *launch) bool { return c.on("external_cuda_graph") && !c.on("te_rng_tracker") },
		say:    says("--external-cuda-graph without --te-rng-tracker in release 0.13"),
		turn:   []string{"--te-rng-tracker", "--external-cuda-graph"},
	},
	since("0.16.1", layers("graph-moe-or-router", "143", 2818, "the graphed modules are moe or moe_router, not both", "The first contains the second.",
		func(c *launch) bool { return c.graphed("moe") && c.graphed("moe_router") })),
	since("0.16.1", layers("graph-preprocess-needs-router", "143", 2823, "a graph of moe_preprocess needs one of moe_router", "Preprocessing works on the router's output. Local graphs add the missing one by themselves.",
		func(c *launch) bool { return c.graphed("moe_preprocess") && !c.graphed("moe_router") })),
	since("0.16.1", layers("graph-moe-needs-experts", "143", 2827, "graphs of moe and moe_router need experts", "A dense model has none.",
		func(c *launch) bool { return c.Shape.NumExperts <= 1 && (c.graphed("moe") || c.graphed("moe_router")) })),
	since("0.16.1", layers("graph-mlp-needs-dense", "143", 2834, "a graph of mlp needs a dense layer", "Every layer of this model is MoE.",
		func(c *launch) bool { return c.Shape.NumExperts > 1 && c.graphed("mlp") && c.everyLayerMoE() })),
	since("0.16.1", layers("graph-moe-needs-padding", "143", 2843, "a graph of moe needs capacity and padding", "Only then do experts see the same number of tokens every time.",
		func(c *launch) bool { return c.Shape.NumExperts > 1 && !c.dropAndPad() && c.graphed("moe") },
		"--moe-pad-expert-input-to-capacity")),
	since("0.16.1", layers("graph-preprocess-sync", "143", 2849, "a graph of moe_preprocess needs preprocessing without copies to the host", "Alltoall with a capacity but no padding, or with router padding, reads counts from the GPU.",
		func(c *launch) bool {
			return c.Shape.NumExperts > 1 && !c.dropAndPad() && c.Dispatcher == "alltoall" && c.graphed("moe_preprocess") &&
				(c.capacitySet() || c.on("moe_router_padding_for_fp8"))
		}, "--moe-router-padding-for-fp8", "--moe-expert-capacity-factor")),
	{
		Rule: head("graph-full-recompute", "144", inConfig, 2857, "full recompute goes only with a graph of the whole iteration",
			"Graphs of layers would be captured inside the checkpoint."),
		since: "0.15.3",
		broken: func(c *launch) bool {
			return c.graphs() && c.full() && c.Graph.Impl != "full_iteration"
		},
		say:  func(c *launch) string { return "full recompute with --cuda-graph-impl " + c.Graph.Impl },
		turn: []string{"--recompute-granularity", "--cuda-graph-impl none"},
	},
	{
		Rule: headAt("graph-attention-recompute", "145", layout.Error, layout.AtConfig, "megatron/core/transformer/transformer_config.py:1407 (core_v0.15.3)", "in 0.15 graphs exclude recompute of attention",
			"Graphs allowed recompute only outside of what they held."),
		since: "0.15.3", until: "0.15.3",
		broken: func(c *launch) bool {
			return c.graphs() && c.selective() && (c.Graph.Impl != "transformer_engine" || !c.graphed("attn") || c.recomputes("core_attn") || c.recomputes("mla_up_proj"))
		},
		say: func(c *launch) string {
			return fmt.Sprintf("recompute of %v with --cuda-graph-impl %s in release %s", c.Recompute.Modules, c.Graph.Impl, c.rel)
		},
		turn: []string{"--recompute-granularity", "--cuda-graph-impl none"},
	},
	since("0.16.1", layers("graph-router-moe-recompute", "145", 2867, "Transformer Engine graphs of moe_router exclude recompute of moe", "The checkpoint would cut through the graph.",
		func(c *launch) bool {
			return c.Graph.Impl == "transformer_engine" && c.recomputes("moe") && c.graphed("moe_router")
		}, "--recompute-modules")),
	since("0.16.1", graphed("graph-attention-dropout", 2879, "dropout of attention that is graphed and recomputed", func(c *launch) bool {
		return c.dropout("attention_dropout") != 0 && c.inGraph("attn") && c.recomputes("core_attn")
	}, "--attention-dropout 0.0")),
	since("0.16.1", graphed("graph-hidden-dropout", 2887, "dropout of MLPs that are graphed and recomputed", func(c *launch) bool {
		return c.dropout("hidden_dropout") != 0 && (c.inGraph("mlp") && c.recomputes("mlp") || c.inGraph("moe") && c.recomputes("moe"))
	}, "--hidden-dropout 0.0")),
	since("0.16.1", graphed("graph-input-jitter", 2901, "input jitter of MoE layers that are graphed and recomputed", func(c *launch) bool {
		return !c.none("moe_input_jitter_eps") && c.inGraph("moe") && c.recomputes("moe")
	}, "--moe-input-jitter-eps")),
	graphOffload("graph-local-offload", 2934, "local graphs offload only expert_fc1, moe_act and fused_group_mlp", func(c *launch) bool {
		return c.Graph.Impl == "local" && !c.onlyExpertOffload()
	}, "--offload-modules"),
	graphOffload("graph-local-whole-layer", 2940, "local graphs of whole layers exclude offload", func(c *launch) bool {
		return c.Graph.Impl == "local" && len(c.Graph.Modules) == 0
	}, "--cuda-graph-modules attn"),
	graphOffload("graph-moe-offload", 2961, "graphs of moe exclude offload", func(c *launch) bool { return c.graphed("moe") }, "--cuda-graph-modules"),
	graphOffload("graph-warmup-offload", 2963, "offload needs warm-up steps before a graph is captured", func(c *launch) bool { return c.int("cuda_graph_warmup_steps") <= 0 },
		"--cuda-graph-warmup-steps 3"),
	graphOffload("graph-iteration-offload", 2969, "offload in a graph of the whole iteration bounds its copies in flight (--fine-grained-offloading-max-inflight-offloads)", func(c *launch) bool {
		return c.Graph.Impl == "full_iteration" && (c.none("fine_grained_offloading_max_inflight_offloads") || c.int("fine_grained_offloading_max_inflight_offloads") < 0)
	}, "--fine-grained-offloading-max-inflight-offloads 1"),
}

func layers(id layout.RuleID, constraint string, line int, title, why string, broken func(c *launch) bool, turn ...string) rule {
	return rule{Rule: head(id, constraint, inConfig, line, title, why), turn: append(turn, "--cuda-graph-modules", "--cuda-graph-scope", "--cuda-graph-impl none"),
		broken: func(c *launch) bool {
			return (c.Graph.Impl == "local" || c.Graph.Impl == "transformer_engine") && broken(c)
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--cuda-graph-impl %s of %v: %s", c.Graph.Impl, c.Graph.Modules, title)
		}}
}

func graphed(id layout.RuleID, line int, what string, broken func(c *launch) bool, turn ...string) rule {
	return rule{Rule: head(id, "145", inConfig, line, "CUDA graphs exclude "+what, "Recomputing inside a graph would draw other random numbers."),
		turn:   append(turn, "--recompute-modules", "--recompute-granularity", "--cuda-graph-impl none"),
		broken: func(c *launch) bool { return c.graphs() && broken(c) },
		say: func(c *launch) string {
			return fmt.Sprintf("--cuda-graph-impl %s of %v: %s (recomputed: %v)", c.Graph.Impl, c.Graph.Modules, what, c.Recompute.Modules)
		}}
}

func graphOffload(id layout.RuleID, line int, title string, broken func(c *launch) bool, turn ...string) rule {
	return rule{Rule: head(id, "139", inConfig, line, title, "A graph replays the same copies every step, so they must be known when it is captured."),
		turn:   append(turn, fineOffload, "--cuda-graph-impl none"),
		broken: func(c *launch) bool { return c.graphs() && c.offloads() && broken(c) },
		say: func(c *launch) string {
			return fmt.Sprintf("offload of %v with --cuda-graph-impl %s of %v: %s", c.list("offload_modules"), c.Graph.Impl, c.Graph.Modules, title)
		}}
}

// graphImplFlag is the implementation that the flags name, before an old scope changes it.
func (c *launch) graphImplFlag() string {
	if c.on("external_cuda_graph") {
		return "transformer_engine"
	}
	return c.str("cuda_graph_impl")
}

func (c *launch) expandable() bool {
	v, _ := c.env("PYTORCH_CUDA_ALLOC_CONF")
	return strings.Contains(v, "expandable_segments:True")
}

// inGraph reports whether a module is captured: named, or part of whole layers or of the iteration.
func (c *launch) inGraph(module string) bool {
	return c.Graph.Impl == "full_iteration" || len(c.Graph.Modules) == 0 || c.graphed(module)
}

func (c *launch) everyLayerMoE() bool {
	list, every := c.moeFreq()
	if list == nil {
		return every == 1
	}
	for _, e := range list {
		if e == 0 {
			return false
		}
	}
	return true
}

// capacitySet reports whether the config keeps a capacity factor: a negative one becomes None.
func (c *launch) capacitySet() bool {
	return !c.none("moe_expert_capacity_factor") && c.s.Float("moe_expert_capacity_factor") >= 0
}

func (c *launch) dropAndPad() bool {
	return c.capacitySet() && c.on("moe_pad_expert_input_to_capacity")
}

func (c *launch) onlyExpertOffload() bool {
	for _, m := range c.list("offload_modules") {
		if m != "expert_fc1" && m != "moe_act" && m != "fused_group_mlp" {
			return false
		}
	}
	return true
}
