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
