package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// moeRules are about experts, shared experts and capacity.
var moeRules = []rule{
	{
		Rule: head("grouped-gemm-needs-ampere", "90", inArguments, 1380, "--moe-grouped-gemm needs compute capability 8",
			"Its kernels begin with Ampere."),
		broken: func(c *launch) bool { return c.on("moe_grouped_gemm") && c.capability < 8 },
		say: func(c *launch) string {
			return fmt.Sprintf("--moe-grouped-gemm on compute capability %d", c.capability)
		},
		turn: []string{"--moe-grouped-gemm"},
	},
	widened("ep-needs-experts",
		func(c *launch) bool { return c.Degrees.EP > 1 && !c.moe() },
		func(c *launch) string { return fmt.Sprintf("EP %d on a model without experts", c.Degrees.EP) },
		"--expert-model-parallel-size 1"),
	widened("ep-divides-experts",
		func(c *launch) bool { return c.Degrees.EP > 1 && c.moe() && c.Shape.NumExperts%c.Degrees.EP != 0 },
		func(c *launch) string {
			e, ep := c.Shape.NumExperts, c.Degrees.EP
			return fmt.Sprintf("%s not divisible by EP %d (%d %% %d = %d)", layout.Are(e, "expert"), ep, e, ep, e%ep)
		},
		"--expert-model-parallel-size", "--num-experts"),
	{
		Rule: head("moe-latent-positive", "28", inArguments, 1981, "--moe-latent-size is at least 1",
			"It is the width that routed experts work on."),
		broken: func(c *launch) bool { return !c.none("moe_latent_size") && c.int("moe_latent_size") <= 0 },
		say:    func(c *launch) string { return fmt.Sprintf("--moe-latent-size %d", c.int("moe_latent_size")) },
		turn:   []string{"--moe-latent-size"},
	},
	{
		Rule: head("moe-latent-needs-experts", "28", inArguments, 1982, "--moe-latent-size needs experts",
			"It projects their input and output."),
		broken: func(c *launch) bool { return !c.none("moe_latent_size") && !c.moe() },
		say: func(c *launch) string {
			return fmt.Sprintf("--moe-latent-size %d on a model without experts", c.int("moe_latent_size"))
		},
		turn: []string{"--moe-latent-size"},
	},
	{
		Rule: head("grouped-tensor-needs-grouped-gemm", "104", inConfig, 1414, "--moe-use-grouped-tensor needs --moe-grouped-gemm",
			"It is how grouped GEMMs get their weights."),
		broken: func(c *launch) bool { return c.on("moe_use_grouped_tensor") && !c.on("moe_grouped_gemm") },
		say:    says("--moe-use-grouped-tensor without --moe-grouped-gemm"),
		turn:   []string{"--moe-grouped-gemm", "--moe-use-grouped-tensor"},
	},
	{
		Rule: head("experts-positive", "86", inConfig, 1683, "the number of experts is not negative",
			"0 stands for a dense model."),
		broken: func(c *launch) bool { return c.Shape.NumExperts < 0 },
		say:    func(c *launch) string { return fmt.Sprintf("--num-experts %d", c.Shape.NumExperts) },
		turn:   []string{"--num-experts"},
	},
	{
		Rule: head("moe-ffn-needs-experts", "111", inConfig, 1702, "--moe-ffn-hidden-size needs experts",
			"Where --moe-layer-freq leaves layers dense the size is dropped without a word instead."),
		since:  "0.13.1",
		broken: func(c *launch) bool { return !c.moe() && !c.none("moe_ffn_hidden_size") && !c.mixed() },
		say: func(c *launch) string {
			return fmt.Sprintf("--moe-ffn-hidden-size %d on a model without experts", c.Shape.MoEFFN)
		},
		turn: []string{"--moe-ffn-hidden-size"},
	},
	singleGrouped("single-grouped-needs-gemm", 1709, "--moe-grouped-gemm", func(c *launch) bool { return !c.on("moe_grouped_gemm") }, "--moe-grouped-gemm"),
	singleGrouped("single-grouped-te", 1714, "Transformer Engine 2.14", func(c *launch) bool { return !c.te.atLeast("2.14.0") }),
	singleGrouped("single-grouped-recipe", 1726, "FP8 as mxfp8, FP4 as nvfp4", func(c *launch) bool {
		return c.on("moe_single_grouped_weight") && (c.fp8() && c.str("fp8_recipe") != "mxfp8" || c.Precision.FP4 != "" && c.str("fp4_recipe") != "nvfp4")
	}, "--fp8-recipe mxfp8"),
	singleGrouped("single-grouped-fp4-gather", 1731, "--fp4-param-gather in FP4", func(c *launch) bool {
		return c.on("moe_single_grouped_weight") && c.Precision.FP4 != "" && !c.on("fp4_param_gather")
	}, "--fp4-param-gather"),
	singleGrouped("single-grouped-weight-tensor", 1737, "--moe-use-grouped-tensor", func(c *launch) bool {
		return c.on("moe_single_grouped_weight") && !c.groupedTensor()
	}, "--moe-use-grouped-tensor"),
	singleGrouped("single-grouped-bias", 1739, "linear biases", func(c *launch) bool {
		return c.on("moe_single_grouped_bias") && !c.on("add_bias_linear")
	}, "--disable-bias-linear"),
	singleGrouped("single-grouped-bias-tensor", 1741, "--moe-use-grouped-tensor", func(c *launch) bool {
		return c.on("moe_single_grouped_bias") && !c.groupedTensor()
	}, "--moe-use-grouped-tensor"),
	{
		Rule: head("shared-experts-size", "92", inConfig, 1815, "--moe-shared-expert-intermediate-size is at least 1",
			"It is the width of all shared experts together; leave it out for none."),
		broken: func(c *launch) bool {
			return !c.none("moe_shared_expert_intermediate_size") && c.int("moe_shared_expert_intermediate_size") <= 0
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--moe-shared-expert-intermediate-size %d", c.int("moe_shared_expert_intermediate_size"))
		},
		turn: []string{"--moe-shared-expert-intermediate-size"},
	},
	{
		Rule: head("shared-overlap-dispatcher", "91", inConfig, 1824, "shared-expert overlap needs the alltoall or the flex dispatcher",
			"It hides the shared expert behind their exchange. Without shared experts the flag does nothing. Up to 0.17 only alltoall would do."),
		broken: func(c *launch) bool {
			return !c.none("moe_shared_expert_intermediate_size") && c.on("moe_shared_expert_overlap") && c.Dispatcher != "alltoall" &&
				!(c.Dispatcher == "flex" && c.from("0.18.2"))
		},
		say:  func(c *launch) string { return "--moe-shared-expert-overlap with dispatcher " + c.Dispatcher },
		turn: []string{"--moe-token-dispatcher-type alltoall", "--moe-shared-expert-overlap"},
	},
	capacity("capacity-balancing", func(c *launch) bool { return len(c.balancing()) == 1 }, 1857),
	capacity("capacity-balancing-list", func(c *launch) bool { return len(c.balancing()) > 1 }, 1847),
	{
		Rule: head("capacity-padding", "101", inConfig, 1864, "--moe-pad-expert-input-to-capacity needs a capacity factor",
			"It pads to that capacity. A negative factor means none."),
		broken: func(c *launch) bool { return c.on("moe_pad_expert_input_to_capacity") && !c.capacitySet() },
		say:    says("--moe-pad-expert-input-to-capacity without --moe-expert-capacity-factor"),
		turn:   []string{"--moe-pad-expert-input-to-capacity", "--moe-expert-capacity-factor 1.0"},
	},
	{
		Rule: head("rank-capacity-backend", "102", inConfig, 1870, "--moe-expert-rank-capacity-factor needs the flex backend hybridep or ncclep",
			"Only they work with buffers of fixed size."),
		broken: func(c *launch) bool {
			b := c.backendFlag()
			return !c.none("moe_expert_rank_capacity_factor") && b != "hybridep" && b != "ncclep"
		},
		say: func(c *launch) string {
			return "--moe-expert-rank-capacity-factor with --moe-flex-dispatcher-backend " + c.backendFlag()
		},
		turn: []string{"--moe-flex-dispatcher-backend hybridep", "--moe-expert-rank-capacity-factor"},
	},
	{
		Rule: head("rank-capacity-hybridep", "102", inConfig, 1879, "a rank capacity with hybridep needs the op fuser or grouped tensors",
			"Other GEMMs would read beyond what arrived."),
		broken: func(c *launch) bool {
			return !c.none("moe_expert_rank_capacity_factor") && c.backendFlag() == "hybridep" && !c.on("use_transformer_engine_op_fuser") && !c.groupedTensor()
		},
		say:  says("--moe-expert-rank-capacity-factor over hybridep without --use-transformer-engine-op-fuser or --moe-use-grouped-tensor"),
		turn: []string{"--use-transformer-engine-op-fuser", "--moe-use-grouped-tensor", "--moe-expert-rank-capacity-factor"},
	},
	since("0.15.3", widened("bias-needs-etp-1",
		func(c *launch) bool { return c.moe() && c.on("add_bias_linear") && c.Degrees.ETP != 1 },
		func(c *launch) string {
			text := fmt.Sprintf("linear layers have biases, so experts cannot be cut over ETP %d", c.Degrees.ETP)
			if c.ETPFromTP {
				text += ", which follows TP"
			}
			return text
		},
		"--expert-tensor-parallel-size 1", "--disable-bias-linear")),
	{
		Rule: headAt("moe-no-bias", "87", layout.Error, layout.AtConfig, "megatron/core/transformer/transformer_config.py:1198 (core_v0.14.0)", "from 0.12.1 to 0.14 experts have no biases",
			"Biases at ETP 1 came back with 0.15."),
		until: "0.14.0",
		broken: func(c *launch) bool {
			return c.rel.AtLeast("0.12.1") && c.moe() && c.on("add_bias_linear")
		},
		say:  func(c *launch) string { return "experts with linear biases in release " + c.rel.String() },
		turn: []string{"--disable-bias-linear"},
	},
}

// mixed: some layers stay dense, so that sizes of experts may stand there for nothing.
func (c *launch) mixed() bool {
	list, every := c.moeFreq()
	for _, e := range list {
		if e == 0 {
			return true
		}
	}
	return list == nil && every > 1
}

// groupedTensor: the op fuser with grouped GEMM switches it on.
func (c *launch) groupedTensor() bool {
	return c.on("moe_use_grouped_tensor") || c.on("use_transformer_engine_op_fuser") && c.on("moe_grouped_gemm")
}

// backendFlag is --moe-flex-dispatcher-backend, whatever the dispatcher.
func (c *launch) backendFlag() string {
	if c.on("moe_enable_deepep") {
		return "deepep"
	}
	return c.str("moe_flex_dispatcher_backend")
}

func (c *launch) balancing() []string { return c.list("moe_router_load_balancing_type") }

func capacity(id layout.RuleID, which func(c *launch) bool, line int) rule {
	return rule{Rule: head(id, "100", inConfig, line, "a capacity factor needs balancing by aux_loss, seq_aux_loss, global_aux_loss or none",
		"Dropped tokens are counted by the auxiliary losses. A negative factor means none, but is checked all the same."),
		turn: []string{"--moe-expert-capacity-factor", "--moe-router-load-balancing-type aux_loss"},
		broken: func(c *launch) bool {
			return !c.none("moe_expert_capacity_factor") && which(c) && c.badBalancing() != ""
		},
		say: func(c *launch) string {
			return fmt.Sprintf("--moe-expert-capacity-factor %s with balancing %s", c.str("moe_expert_capacity_factor"), c.badBalancing())
		}}
}

// badBalancing returns a kind of balancing that knows no capacity.
func (c *launch) badBalancing() string {
	for _, b := range c.balancing() {
		switch {
		case b == "aux_loss", b == "seq_aux_loss", b == "none", b == "global_aux_loss" && c.from("0.15.3"):
		default:
			return b
		}
	}
	return ""
}

func singleGrouped(id layout.RuleID, line int, what string, broken func(c *launch) bool, turn ...string) rule {
	return rule{Rule: head(id, "105", inConfig, line, "single grouped parameters need "+what, "All experts of a rank are one parameter, which only newer kernels read."),
		turn: append(turn, "--moe-single-grouped-weight", "--moe-single-grouped-bias"),
		broken: func(c *launch) bool {
			return (c.on("moe_single_grouped_weight") || c.on("moe_single_grouped_bias")) && broken(c)
		},
		say: says("--moe-single-grouped-weight or --moe-single-grouped-bias needs " + what)}
}
