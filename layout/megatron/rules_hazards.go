package megatron

import (
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout"
)

// hazardRules are about what starts but does not do what the command line says, and what is worth knowing. No recorder
// judges them.
var hazardRules = []rule{
	widened("sp-without-tp",
		func(c *launch) bool { return c.on("sequence_parallel") && c.Degrees.TP == 1 },
		says("--sequence-parallel at TP 1 will be switched off"), "--sequence-parallel"),
	hazard("etp-follows-tp", "", layout.AtArguments, inArguments+"587", "ETP is given where TP > 1 and there are experts",
		"Without --expert-tensor-parallel-size the experts are cut over TP ranks too.",
		func(c *launch) bool { return c.ETPFromTP && c.moe() && c.Degrees.TP > 1 },
		func(c *launch) string {
			return fmt.Sprintf("no --expert-tensor-parallel-size: ETP becomes TP %d, and EDP %d", c.Degrees.TP, c.EDP)
		},
		"--expert-tensor-parallel-size 1"),
	hazard("layers-dropped-or-added", "48", layout.AtMoeplan, inBlock+"100", "the counts of the ends leave no negative number of layers",
		"The config compares only zero with nonzero. Stages between get no layers then, and the ends build theirs all the same.",
		func(c *launch) bool {
			n, _ := c.middle()
			return c.countsDecide() && n != 0 && c.builtLayers() != c.Shape.NumLayers
		},
		func(c *launch) string {
			return fmt.Sprintf("%s: %d layers would be built, the model has %d", c.countsText(), c.builtLayers(), c.Shape.NumLayers)
		},
		"--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"),
	hazard("both-ends-on-one-stage", "48", layout.AtMoeplan, inBlock+"100", "counts for the ends need PP > 1",
		"One stage is first and last; the count of the last one wins, whatever the model has.",
		func(c *launch) bool { return c.countsDecide() && c.Degrees.PP == 1 },
		func(c *launch) string {
			return fmt.Sprintf("%s at PP 1: %d layers would be built, the model has %d", c.countsText(), c.builtLayers(), c.Shape.NumLayers)
		},
		"--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"),
	hazard("last-count-vpp-offsets", "48", layout.AtModelBuild, "megatron/core/transformer/transformer_layer.py:37 (core_v0.13.1)", "up to 0.13 a count for the last stage alone excludes VPP",
		"The second rank repeats the first one's layer numbers, which misplaces MoE layers and checkpoint keys.",
		func(c *launch) bool {
			_, set := c.vpp()
			return !c.from("0.14.0") && c.countsDecide() && set && c.Pipeline.First == nil && c.Pipeline.Last != nil
		},
		func(c *launch) string {
			return fmt.Sprintf("%s with VPP %d in release %s: layers are numbered wrongly", c.countsText(), c.Pipeline.VPP, c.rel)
		},
		virtualStagesFlag),
	hazard("mtp-left-out", "64", layout.AtConfig, "megatron/core/transformer/pipeline_parallel_layer_layout.py:109 (core_v0.13.1)", "in 0.13 MTP goes without a layout string",
		"A layout string there holds no m, and the MTP layers are left out without a word.",
		func(c *launch) bool {
			return !c.from("0.14.0") && c.layoutGiven() && c.Shape.MTPLayers > 0 && c.layoutCount("m") == 0
		},
		func(c *launch) string {
			return fmt.Sprintf("%d MTP layers and a layout string in release %s: no MTP layer would be built", c.Shape.MTPLayers, c.rel)
		},
		layoutFlag, "--mtp-num-layers"),
	rule{Rule: layoutRule("split-ends-moved"), turn: []string{layoutFlag},
		broken: func(c *launch) bool { return c.textBroken("split-ends-moved") != nil },
		say:    func(c *launch) string { return c.textBroken("split-ends-moved").Message }},
	hazard("num-layers-ignored", "75", layout.AtArguments, inArguments+"791", "--num-layers agrees with the hybrid pattern",
		"The pattern decides.",
		func(c *launch) bool {
			return c.hybrid() && c.given("num_layers") && c.int("num_layers") != c.Shape.NumLayers && c.s.Has("hybrid_layer_pattern")
		},
		func(c *launch) string {
			return fmt.Sprintf("--num-layers %d is ignored: the hybrid pattern has %d layers", c.int("num_layers"), c.Shape.NumLayers)
		},
		"--num-layers"),
	hazard("mtp-depth-ignored", "69", layout.AtArguments, inArguments+"871", "--mtp-num-layers agrees with the hybrid pattern",
		"The pattern decides.",
		func(c *launch) bool {
			return c.hybrid() && c.Shape.Hybrid.Depths > 0 && c.given("mtp_num_layers") && c.int("mtp_num_layers") != c.Shape.MTPLayers
		},
		func(c *launch) string {
			return fmt.Sprintf("--mtp-num-layers %d is ignored: the hybrid pattern has %d", c.int("mtp_num_layers"), c.Shape.MTPLayers)
		},
		"--mtp-num-layers"),
	hazard("recompute-modules-ignored", "2.9", layout.AtConfig, inConfig+"1943", "--recompute-modules goes with selective recompute",
		"Without --recompute-granularity selective nothing is recomputed.",
		func(c *launch) bool { return c.given("recompute_modules") && c.Recompute.Granularity == "" },
		func(c *launch) string {
			return fmt.Sprintf("--recompute-modules %s without --recompute-granularity selective: nothing is recomputed", strings.Join(c.Recompute.Modules, " "))
		},
		"--recompute-granularity selective", "--recompute-modules"),
	hazard("recompute-method-ignored", "2.9", layout.AtConfig, inConfig+"1901", "--recompute-method and --recompute-num-layers go with full recompute",
		"Without --recompute-granularity full they do nothing.",
		func(c *launch) bool {
			return c.Recompute.Granularity == "" && (c.Recompute.Method != "" || !c.none("recompute_num_layers"))
		},
		says("--recompute-method or --recompute-num-layers without --recompute-granularity: nothing is recomputed"),
		"--recompute-granularity full", "--recompute-method", "--recompute-num-layers"),
	hazard("recompute-overwritten", "2.9", layout.AtArguments, inArguments+"608", "--recompute-activations goes without full recompute",
		"It means selective recompute and overwrites full.",
		func(c *launch) bool { return c.on("recompute_activations") && c.str("recompute_granularity") == "full" },
		says("--recompute-activations turns --recompute-granularity full into selective"),
		"--recompute-activations", "--recompute-granularity"),
	hazard("capacity-ignored", "100", layout.AtConfig, inConfig+"1838", "a capacity factor is not negative",
		"A negative one means none.",
		func(c *launch) bool { return !c.none("moe_expert_capacity_factor") && !c.capacitySet() },
		func(c *launch) string {
			return "--moe-expert-capacity-factor " + c.str("moe_expert_capacity_factor") + " is dropped: tokens are not limited"
		},
		"--moe-expert-capacity-factor"),
	hazard("layer-offload-ignored", "140", layout.AtArguments, inArguments+"1950", "--cpu-offloading-num-layers is not negative",
		"A negative number offloads nothing.",
		func(c *launch) bool { return c.int("cpu_offloading_num_layers") < 0 },
		func(c *launch) string {
			return fmt.Sprintf("--cpu-offloading-num-layers %d: nothing is offloaded", c.int("cpu_offloading_num_layers"))
		},
		"--cpu-offloading-num-layers"),
	hazard("expert-width-ignored", "111", layout.AtConfig, inConfig+"1694", "--moe-ffn-hidden-size goes with experts",
		"Where --moe-layer-freq leaves layers dense, the size is dropped on a model without experts.",
		func(c *launch) bool {
			return !c.moe() && !c.none("moe_ffn_hidden_size") && c.mixed() && c.from("0.13.1")
		},
		func(c *launch) string {
			return fmt.Sprintf("--moe-ffn-hidden-size %d is dropped: there are no experts", c.int("moe_ffn_hidden_size"))
		},
		"--moe-ffn-hidden-size"),
	hazard("mtp-mixing-off", "73", layout.AtArguments, inArguments+"888", "--mtp-hsm needs two MTP layers",
		"It mixes hidden states of several depths and is switched off otherwise.",
		func(c *launch) bool { return c.on("mtp_hsm") && c.Shape.MTPLayers < 2 },
		func(c *launch) string {
			return fmt.Sprintf("--mtp-hsm with %d MTP layers will be switched off", c.Shape.MTPLayers)
		},
		"--mtp-hsm"),
	hazard("vocabulary-unknown", "21", layout.AtMoeplan, "megatron/core/tokenizers/utils/build_tokenizer.py:133", "the vocabulary is given",
		"A tokenizer's file would have to be opened. Parameters and memory of embedding and output layer are unknown without it.",
		func(c *launch) bool { return c.Shape.PaddedVocab < 1 },
		says("neither --padded-vocab-size nor --vocab-size says how large the vocabulary is")),
	hazard("vocabulary-plus-one", "21", layout.AtArguments, "megatron/core/tokenizers/text/libraries/null_tokenizer.py:52 (core_v0.17.1)", "up to 0.17 NullTokenizer's vocabulary is one more than --vocab-size",
		"Its end of document comes on top, which may pad the embedding to the next multiple.",
		func(c *launch) bool {
			return !c.none("vocab_size") && c.Shape.VocabSize != c.int("vocab_size") && c.none("padded_vocab_size")
		},
		func(c *launch) string {
			return fmt.Sprintf("--vocab-size %d is %d with NullTokenizer in release %s, padded to %d", c.int("vocab_size"), c.Shape.VocabSize, c.rel, c.Shape.PaddedVocab)
		}),
	hazard("eval-interval-missing", "83", layout.AtFirstStep, "megatron/training/training.py:5436", "--eval-interval is given where a run has --train-iters",
		"It has no default from 0.16 on, and the number of validation steps is worked out by dividing by it, even for --eval-iters 0.",
		func(c *launch) bool {
			return c.from("0.16.1") && !c.none("train_iters") && c.none("eval_interval") && !c.on("full_validation")
		},
		says("--train-iters without --eval-interval: building the data fails"), "--eval-interval 1000"),
	hazard("op-fuser-not-used", "106", layout.AtModelBuild, "megatron/core/transformer/moe/experts.py:382", "the op fuser can serve the experts",
		"It needs ETP 1, no offload of expert_fc1 or moe_act, no probabilities on the input, and TE 2.14; otherwise experts run unfused.",
		func(c *launch) bool {
			return c.moe() && c.on("use_transformer_engine_op_fuser") && c.on("moe_grouped_gemm") && (c.Degrees.ETP > 1 || c.on("moe_apply_probs_on_input") ||
				!c.te.atLeast("2.14.0") || c.offloads() && (c.has("offload_modules", "expert_fc1") || c.has("offload_modules", "moe_act")))
		},
		func(c *launch) string {
			return fmt.Sprintf("--use-transformer-engine-op-fuser at ETP %d with TE %s: experts run unfused", c.Degrees.ETP, c.te)
		},
		"--expert-tensor-parallel-size 1", "--moe-apply-probs-on-input", "--use-transformer-engine-op-fuser"),
	hazard("shared-overlap-latent", "91", layout.AtFirstStep, "megatron/core/transformer/moe/moe_layer.py:478", "shared-expert overlap goes without a latent expert width",
		"The overlapped path does not project.",
		func(c *launch) bool {
			return c.moe() && !c.none("moe_shared_expert_intermediate_size") && c.on("moe_shared_expert_overlap") && !c.none("moe_latent_size")
		},
		says("--moe-shared-expert-overlap with --moe-latent-size: the first step fails"), "--moe-shared-expert-overlap"),
	hazard("probs-on-input-topk", "110", layout.AtFirstStep, "megatron/core/transformer/moe/experts.py:919", "--moe-apply-probs-on-input needs top-1 routing",
		"A token's input could not carry several probabilities.",
		func(c *launch) bool {
			return c.moe() && c.on("moe_apply_probs_on_input") && c.int("moe_router_topk") != 1
		},
		func(c *launch) string {
			return fmt.Sprintf("--moe-apply-probs-on-input with top-%d routing: the first step fails", c.int("moe_router_topk"))
		},
		"--moe-apply-probs-on-input"),
	hazard("whole-layer-graph-dropless", "148", layout.AtFirstStep, "megatron/core/transformer/moe/token_dispatcher.py:958", "Transformer Engine graphs of whole MoE layers need capacity and padding",
		"Dropless dispatch copies counts to the host, which fails while a graph is captured; the config lets it pass.",
		func(c *launch) bool {
			return c.moe() && c.Graph.Impl == "transformer_engine" && len(c.Graph.Modules) == 0 && !c.dropAndPad()
		},
		says("--cuda-graph-impl transformer_engine of whole layers with dropless experts: capturing fails"), "--cuda-graph-modules attn moe_router moe_preprocess"),
	hazard("flex-probs-type", "95", layout.AtFirstStep, "megatron/core/transformer/moe/token_dispatcher.py:1439", "DeepEP gets router probabilities in fp32",
		"Without --moe-router-dtype fp32 they have the type of the activations, which it refuses.",
		func(c *launch) bool {
			return c.moe() && c.FlexBackend == "deepep" && c.none("moe_router_dtype") && c.Precision.Params != "fp32"
		},
		says("dispatcher flex over deepep without --moe-router-dtype fp32"), "--moe-router-dtype fp32"),
	hazard("userbuffers-segments", "123", layout.AtModelBuild, "megatron/core/distributed/distributed_data_parallel_config.py:264", "NCCL user buffers go without expandable segments before PyTorch 2.11",
		"Their memory pool does not work on remapped addresses.",
		func(c *launch) bool { return c.on("nccl_ub") && c.expandable() && !c.torch.atLeast("2.11.0") },
		says("--use-nccl-ub with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"), "--use-nccl-ub", "PYTORCH_CUDA_ALLOC_CONF="),
	shared("kv-heads-duplicated", "--tensor-model-parallel-size"),
	shared("pipeline-underfilled", "--global-batch-size"),
	shared("split-mtp-standalone"),
	shared("pipeline-rank-empty"),
	shared("flex-group-over-64", "--expert-model-parallel-size"),
	shared("recompute-no-effect", "--recompute-modules"),
	widened("recompute-core-attn",
		func(c *launch) bool { return c.recomputes("core_attn") && !c.local() },
		says("recompute of core_attn with fused attention"), "--recompute-modules"),
}

func hazard(id layout.RuleID, constraint string, when layout.NoticedAt, source, title, why string, broken func(c *launch) bool, say func(c *launch) string, turn ...string) rule {
	return rule{Rule: headAt(id, constraint, layout.Hazard, when, source, title, why), run: realLaunch, broken: broken, say: say, turn: turn}
}

// builtLayers is how many decoder layers the framework builds where the ends have counts of their own.
func (c *launch) builtLayers() int {
	left, stages := c.middle()
	if c.Degrees.PP == 1 {
		if c.Pipeline.Last != nil {
			return *c.Pipeline.Last
		}
		return *c.Pipeline.First
	}
	n := c.Shape.NumLayers - left
	if stages > 0 && left > 0 {
		n += left
	}
	return n
}
