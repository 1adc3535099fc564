package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// dispatchRules are about how tokens reach their experts.
var dispatchRules = []rule{
	{
		Rule: headAt("alltoall-seq", "93", layout.Error, layout.AtConfig, "megatron/core/transformer/transformer_config.py:950 (core_v0.12.3)", "up to 0.12 dispatcher alltoall_seq needs ETP = TP",
			"It is the sequence-parallel forerunner of alltoall and is gone from 0.13 on."),
		until: "0.12.3",
		broken: func(c *launch) bool {
			return c.Dispatcher == "alltoall_seq" && c.Degrees.ETP != c.Degrees.TP
		},
		say: func(c *launch) string {
			return fmt.Sprintf("dispatcher alltoall_seq with ETP %d and TP %d", c.Degrees.ETP, c.Degrees.TP)
		},
		turn: []string{"--moe-token-dispatcher-type alltoall", "--expert-tensor-parallel-size"},
	},
	{
		Rule: head("deepep-needs-flex", "95", inConfig, 1745, "--moe-enable-deepep needs the flex dispatcher",
			"DeepEP is one of its backends."),
		broken: func(c *launch) bool { return c.on("moe_enable_deepep") && c.Dispatcher != "flex" },
		say:    func(c *launch) string { return "--moe-enable-deepep with dispatcher " + c.Dispatcher },
		turn:   []string{"--moe-enable-deepep", "--moe-token-dispatcher-type flex"},
	},
	{
		Rule: head("one-flex-backend", "95", inConfig, 1747, "--moe-enable-deepep excludes the backend hybridep",
			"The flex dispatcher has one backend."),
		broken: func(c *launch) bool {
			return c.on("moe_enable_deepep") && c.Dispatcher == "flex" && c.str("moe_flex_dispatcher_backend") == "hybridep"
		},
		say:  says("--moe-enable-deepep with --moe-flex-dispatcher-backend hybridep"),
		turn: []string{"--moe-enable-deepep", "--moe-flex-dispatcher-backend"},
	},
	{
		Rule: head("deepep-no-padding", "95", inConfig, 1758, "DeepEP excludes --moe-pad-expert-input-to-capacity",
			"It sends what was routed. deepep is the default backend of flex."),
		broken: func(c *launch) bool {
			return c.Dispatcher == "flex" && (c.FlexBackend == "deepep" || !c.from("0.16.1")) && c.on("moe_pad_expert_input_to_capacity")
		},
		say:  says("--moe-pad-expert-input-to-capacity with dispatcher flex over deepep"),
		turn: []string{"--moe-pad-expert-input-to-capacity", "--moe-token-dispatcher-type alltoall", "--moe-flex-dispatcher-backend hybridep"},
	},
	{
		Rule: head("ncclep-needs-flex", "97", inConfig, 1765, "backend ncclep needs the flex dispatcher",
			"The backend is checked whatever the dispatcher."),
		broken: func(c *launch) bool { return c.backendFlag() == "ncclep" && c.Dispatcher != "flex" },
		say:    func(c *launch) string { return "--moe-flex-dispatcher-backend ncclep with dispatcher " + c.Dispatcher },
		turn:   []string{"--moe-flex-dispatcher-backend", "--moe-token-dispatcher-type flex"},
	},
	{
		Rule: head("ncclep-grouped-tensor", "97", inConfig, 1770, "ncclep takes grouped tensors only with the op fuser",
			"Its receive buffer is read by the fused operation alone."),
		broken: func(c *launch) bool {
			return c.backendFlag() == "ncclep" && c.Dispatcher == "flex" && c.groupedTensor() && !c.on("use_transformer_engine_op_fuser")
		},
		say:  says("ncclep with --moe-use-grouped-tensor but not --use-transformer-engine-op-fuser"),
		turn: []string{"--use-transformer-engine-op-fuser", "--moe-use-grouped-tensor", "--moe-flex-dispatcher-backend"},
	},
	{
		Rule: head("wire-format-backend", "98", inConfig, 1781, "mxfp8 on the wire needs flex over ncclep",
			"Other dispatchers send bf16."),
		broken: func(c *launch) bool {
			return c.quantisedWire() && (c.Dispatcher != "flex" || c.backendFlag() != "ncclep")
		},
		say: func(c *launch) string {
			return c.wireText() + " with dispatcher " + c.Dispatcher + " and backend " + c.backendFlag()
		},
		turn: []string{"--moe-dispatch-fwd-dtype bf16", "--moe-combine-bwd-dtype bf16"},
	},
	{
		Rule: head("wire-format-fuser", "98", inConfig, 1786, "mxfp8 on the wire needs the op fuser and grouped GEMM",
			"Only they read tokens that arrive quantised."),
		broken: func(c *launch) bool {
			return c.quantisedWire() && !(c.on("use_transformer_engine_op_fuser") && c.on("moe_grouped_gemm"))
		},
		say: func(c *launch) string {
			return c.wireText() + " without --use-transformer-engine-op-fuser and --moe-grouped-gemm"
		},
		turn: []string{"--moe-dispatch-fwd-dtype bf16", "--moe-combine-bwd-dtype bf16"},
	},
	{
		Rule: head("router-padding-needs-quantisation", "130", inConfig, 2651, "router padding needs FP8 or FP4",
			"It pads each expert's tokens to what their GEMMs take."),
		broken: func(c *launch) bool {
			return c.routerPadding() && !c.fp8() && c.Precision.FP4 == ""
		},
		say:  says("--moe-router-padding-for-quantization in 16 bits"),
		turn: []string{"--moe-router-padding-for-quantization", "--moe-router-padding-for-fp8"},
	},
	{
		Rule: head("router-padding-dispatcher", "94", inConfig, 2656, "router padding excludes the allgather dispatcher",
			"There every rank sees all tokens and pads for itself."),
		broken: func(c *launch) bool {
			return c.routerPadding() && (c.Dispatcher == "allgather" || c.Dispatcher == "alltoall_seq")
		},
		say:  func(c *launch) string { return "--moe-router-padding-for-quantization with dispatcher " + c.Dispatcher },
		turn: []string{"--moe-token-dispatcher-type alltoall", "--moe-router-padding-for-quantization", "--moe-router-padding-for-fp8"},
	},
	{
		Rule: head("permute-fusion-te", "109", inConfig, 3000, "--moe-permute-fusion needs Transformer Engine 2.1",
			"The fused permutation is part of it."),
		broken: func(c *launch) bool { return c.on("moe_permute_fusion") && !c.te.atLeast("2.1.0") },
		say:    func(c *launch) string { return "--moe-permute-fusion with Transformer Engine " + c.te.String() },
		turn:   []string{"--moe-permute-fusion"},
	},
}

func (c *launch) quantisedWire() bool {
	return c.s.Has("moe_dispatch_fwd_dtype") && (c.str("moe_dispatch_fwd_dtype") != "bf16" || c.str("moe_combine_bwd_dtype") != "bf16")
}

func (c *launch) wireText() string {
	return "--moe-dispatch-fwd-dtype " + c.str("moe_dispatch_fwd_dtype") + " --moe-combine-bwd-dtype " + c.str("moe_combine_bwd_dtype")
}

func (c *launch) routerPadding() bool {
	return c.on("moe_router_padding_for_fp8") || c.on("moe_router_padding_for_quantization")
}

// routerRules are about the router. They bind dense models too.
var routerRules = []rule{
	{
		Rule: head("balancing-coefficients", "108", inConfig, 1829, "several kinds of balancing have a coefficient each",
			"Losses are weighted one by one."),
		since: "0.14.0",
		broken: func(c *launch) bool {
			n := len(c.s.Value("moe_aux_loss_coeff").Texts())
			return len(c.balancing()) > 1 && (n != len(c.balancing()) || n == 1)
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%d values of --moe-router-load-balancing-type and %d of --moe-aux-loss-coeff", len(c.balancing()), len(c.s.Value("moe_aux_loss_coeff").Texts()))
		},
		turn: []string{"--moe-router-load-balancing-type aux_loss"},
	},
	widened("router-expert-bias",
		func(c *launch) bool {
			f := c.str("moe_router_score_function")
			return c.on("moe_router_enable_expert_bias") && f != "sigmoid" && f != "sqrtsoftplus"
		},
		func(c *launch) string {
			return "expert bias with score function " + quoted(c.str("moe_router_score_function"))
		},
		"--moe-router-score-function sigmoid", "--moe-router-enable-expert-bias"),
	widened("router-topk-1-softmax",
		func(c *launch) bool {
			return c.int("moe_router_topk") == 1 && c.str("moe_router_score_function") == "softmax" && !c.on("moe_router_pre_softmax") &&
				!(len(c.balancing()) == 1 && c.balancing()[0] == "sinkhorn")
		},
		says("top-1 routing with softmax after the selection"),
		"--moe-router-pre-softmax", "--moe-router-topk"),
	{
		Rule: head("router-groups-given", "107", inConfig, 2678, "--moe-router-group-topk needs --moe-router-num-groups",
			"Groups are selected first, experts inside them next."),
		broken: func(c *launch) bool { return c.groupTopK() && c.int("moe_router_num_groups") == 0 },
		say: func(c *launch) string {
			return fmt.Sprintf("--moe-router-group-topk %d without --moe-router-num-groups", c.int("moe_router_group_topk"))
		},
		turn: []string{"--moe-router-group-topk", "--moe-router-num-groups"},
	},
	widened("router-groups",
		func(c *launch) bool {
			n := c.int("moe_router_num_groups")
			return c.groupTopK() && n != 0 && (!c.moe() || c.Shape.NumExperts%n != 0)
		},
		func(c *launch) string {
			return fmt.Sprintf("%s not divisible into %d groups", layout.Are(c.Shape.NumExperts, "expert"), c.int("moe_router_num_groups"))
		},
		"--moe-router-num-groups", "--moe-router-group-topk"),
	{
		Rule: head("router-groups-selected", "107", inConfig, 2686, "no more groups are selected than exist",
			"--moe-router-group-topk counts groups."),
		broken: func(c *launch) bool {
			n := c.int("moe_router_num_groups")
			return c.groupTopK() && n != 0 && c.moe() && c.Shape.NumExperts%n == 0 && c.int("moe_router_group_topk") > n
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%d of %d groups are selected", c.int("moe_router_group_topk"), c.int("moe_router_num_groups"))
		},
		turn: []string{"--moe-router-group-topk", "--moe-router-num-groups"},
	},
	{
		Rule: headAt("router-groups-too-small", "", layout.Error, layout.AtFirstStep, "megatron/core/transformer/moe/moe_utils.py:712", "a selected group has enough experts",
			"Groups are ranked by the sum of their best topk / group_topk scores, which a smaller group does not have."),
		run: realLaunch,
		broken: func(c *launch) bool {
			n, g := c.int("moe_router_num_groups"), c.int("moe_router_group_topk")
			return g > 0 && n > 0 && c.moe() && c.Shape.NumExperts%n == 0 && c.int("moe_router_topk")/g > c.Shape.NumExperts/n
		},
		say: func(c *launch) string {
			n, g := c.int("moe_router_num_groups"), c.int("moe_router_group_topk")
			return fmt.Sprintf("top-%d / %d groups = %d experts of a group that has %d / %d = %d", c.int("moe_router_topk"), g, c.int("moe_router_topk")/g,
				c.Shape.NumExperts, n, c.Shape.NumExperts/n)
		},
		turn: []string{"--moe-router-num-groups", "--moe-router-group-topk", "--moe-router-topk"},
	},
}

func (c *launch) groupTopK() bool { return c.int("moe_router_group_topk") != 0 }
