package megatron

import (
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// buildRules are noticed when the layers are built: stage by stage, chunk by chunk, layer by layer, part by part.
var buildRules = []rule{
	{
		Rule: headAt("moe-layer-list", "60", layout.Error, layout.AtModelBuild, "megatron/core/models/gpt/gpt_layer_specs.py:653", "a list of MoE layers has one entry for each layer",
			"Neither arguments nor config look at its length; only building the model does. Dense models ignore it."),
		broken: func(c *launch) bool {
			list, _ := c.moeFreq()
			return c.builds() && c.moe() && !c.hybrid() && list != nil && len(list) != c.Shape.NumLayers
		},
		say: func(c *launch) string {
			list, _ := c.moeFreq()
			return fmt.Sprintf("--moe-layer-freq has %d entries for %d layers", len(list), c.Shape.NumLayers)
		},
		turn: []string{"--moe-layer-freq 1", "--num-layers"},
	},
	lineAt(671, widened("moe-layer-freq",
		func(c *launch) bool {
			list, every := c.moeFreq()
			if !c.builds() || !c.moe() || c.hybrid() || list != nil && len(list) != c.Shape.NumLayers {
				return false
			}
			for _, e := range list {
				if e != 0 && e != 1 {
					return true
				}
			}
			return list == nil && every < 1
		},
		func(c *launch) string {
			return "--moe-layer-freq " + clipped(c.str("moe_layer_freq")) + " has entries other than 0 and 1"
		},
		"--moe-layer-freq 1")),
	layerRule(rule{
		Rule: head("block-pp", "44", inBlock, 157, "PP divides the layers that a block builds",
			"A number of virtual stages keeps argument check and config from looking, so the build is the first to notice."),
		broken: func(c *launch) bool { return c.evenChunks() && c.counted()%c.Degrees.PP != 0 },
		say:    sayCounted,
		turn:   []string{"--pipeline-model-parallel-size", virtualStagesFlag, "BALANCED"},
	}),
	layerRule(widened("vpp-divides-layers",
		func(c *launch) bool {
			vpp, set := c.vpp()
			return c.evenChunks() && set && c.Degrees.PP > 1 && c.counted()%c.Degrees.PP == 0 && c.counted()/c.Degrees.PP%vpp != 0
		},
		func(c *launch) string {
			return fmt.Sprintf("%s / PP %d = %d on a rank, not divisible by VPP %d", layout.Count(c.counted(), "layer"), c.Degrees.PP, c.counted()/c.Degrees.PP, c.Pipeline.VPP)
		},
		virtualStagesFlag, perStageFlag, "BALANCED")),
	layerRule(rule{
		Rule: headAt("uneven-pp-2-vpp", "48", layout.Error, layout.AtModelBuild, "megatron/core/transformer/transformer_layer.py:163", "counts for both ends at PP 2 exclude VPP",
			"The number of a layer on the last stage is worked out by dividing by the stages between, of which there are none. The config lets it pass."),
		since: "0.13.1",
		broken: func(c *launch) bool {
			_, set := c.vpp()
			return c.stage > 0 && c.countsDecide() && set && c.Degrees.PP == 2 && c.Pipeline.First != nil && c.Pipeline.Last != nil
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%s at PP 2 with VPP %d: the build divides by zero", c.countsText(), c.Pipeline.VPP)
		},
		turn: []string{virtualStagesFlag, "BALANCED"},
	}),
	layerRule(shared("tp-divides-qkv", "--tensor-model-parallel-size")),
	layerRule(rule{
		Rule: headAt("mla-fusion-tp", "23", layout.Error, layout.AtModelBuild, "megatron/core/transformer/multi_latent_attention.py:1271", "TP divides both latent widths of a fused down projection",
			"The joined projection is column parallel over both."),
		run: realLaunch,
		broken: func(c *launch) bool {
			m := c.model.MLA
			return m != nil && c.on("mla_down_proj_fusion") && c.looking.Mixer == arch.MLAttention &&
				(m.QLoraRank < 1 || m.QLoraRank%c.Degrees.TP != 0 || (m.KVLoraRank+m.QKPosEmbHeadDim)%c.Degrees.TP != 0)
		},
		say: func(c *launch) string {
			m := c.model.MLA
			return fmt.Sprintf("--mla-down-proj-fusion with q_lora_rank %d and kv_lora_rank %d + %d at TP %d", m.QLoraRank, m.KVLoraRank, m.QKPosEmbHeadDim, c.Degrees.TP)
		},
		turn: []string{"--mla-down-proj-fusion", "--tensor-model-parallel-size"},
	}),
	layerRule(inRun(realLaunch, shared("mamba-tp", "--tensor-model-parallel-size", "--mamba-num-groups"))),
	layerRule(inRun(realLaunch, shared("mamba-cp", "--context-parallel-size", "--tensor-model-parallel-size"))),
	layerRule(rule{
		Rule: headAt("mamba-fp8", "27", layout.Error, layout.AtModelBuild, "megatron/core/ssm/mamba_mixer.py:254", "in FP8 the input projection of a Mamba layer has a multiple of 16 rows",
			"FP8 GEMMs take no other widths."),
		run:    realLaunch,
		broken: func(c *launch) bool { return c.fp8() && c.looking.Mixer == arch.MambaMixer && c.mambaRows()%16 != 0 },
		say: func(c *launch) string {
			return fmt.Sprintf("%d rows of a Mamba input projection are no multiple of 16", c.mambaRows())
		},
		turn: []string{"--fp8-format", "--mamba-num-heads"},
	}),
	layerRule(shared("tp-divides-ffn", "--tensor-model-parallel-size", "--ffn-hidden-size")),
	layerRule(widened("deepep-needs-peers",
		func(c *launch) bool {
			return c.looking.Feedforward == arch.MoEMLP && c.FlexBackend == "deepep" && c.Degrees.ETP*c.Degrees.EP == 1
		},
		says("dispatcher flex over deepep with ETP 1 * EP 1"),
		"--expert-model-parallel-size", "--moe-token-dispatcher-type alltoall")),
	layerRule(rule{
		Rule: headAt("ncclep-needs-peers", "97", layout.Error, layout.AtModelBuild, "megatron/core/transformer/moe/token_dispatcher.py:1854", "NCCL EP needs ETP * EP > 1",
			"Its dispatcher has nobody to exchange tokens with otherwise."),
		broken: func(c *launch) bool {
			return c.looking.Feedforward == arch.MoEMLP && c.FlexBackend == "ncclep" && c.Degrees.ETP*c.Degrees.EP == 1
		},
		say:  says("dispatcher flex over ncclep with ETP 1 * EP 1"),
		turn: []string{"--expert-model-parallel-size", "--moe-token-dispatcher-type alltoall"},
	}),
	layerRule(rule{
		Rule: headAt("flex-needs-peers", "95", layout.Error, layout.AtModelBuild, "megatron/core/transformer/moe/token_dispatcher.py:1365 (core_v0.16.1)", "up to 0.16 the flex dispatcher needs ETP * EP > 1 with any backend",
			"HybridEP learned to run alone with 0.17."),
		until: "0.16.1",
		broken: func(c *launch) bool {
			return c.looking.Feedforward == arch.MoEMLP && c.FlexBackend == "hybridep" && c.Degrees.ETP*c.Degrees.EP == 1
		},
		say:  says("dispatcher flex over hybridep with ETP 1 * EP 1"),
		turn: []string{"--expert-model-parallel-size", "--moe-token-dispatcher-type alltoall"},
	}),
	layerRule(rule{
		Rule: headAt("ncclep-no-capacity", "97", layout.Error, layout.AtModelBuild, "megatron/core/transformer/moe/token_dispatcher.py:1556", "NCCL EP has no expert capacity",
			"Dropping and padding are not implemented there."),
		run: realLaunch,
		broken: func(c *launch) bool {
			return c.looking.Feedforward == arch.MoEMLP && c.FlexBackend == "ncclep" && (c.capacitySet() || c.on("moe_pad_expert_input_to_capacity"))
		},
		say:  says("dispatcher flex over ncclep with an expert capacity"),
		turn: []string{"--moe-expert-capacity-factor", "--moe-flex-dispatcher-backend hybridep"},
	}),
	layerRule(rule{
		Rule: headAt("flex-old-needs-deepep", "95", layout.Error, layout.AtModelBuild, "megatron/core/transformer/moe/token_dispatcher.py:1167 (core_v0.15.3)", "up to 0.15 the flex dispatcher needs --moe-enable-deepep",
			"It had no other backend and did not choose it by itself."),
		until: "0.15.3",
		run:   realLaunch,
		broken: func(c *launch) bool {
			return c.looking.Feedforward == arch.MoEMLP && c.Dispatcher == "flex" && !c.on("moe_enable_deepep")
		},
		say: func(c *launch) string {
			return "dispatcher flex without --moe-enable-deepep in release " + c.rel.String()
		},
		turn: []string{"--moe-enable-deepep", "--moe-token-dispatcher-type alltoall"},
	}),
	layerRule(rule{
		Rule: headAt("grouped-gemm-bias", "89", layout.Error, layout.AtModelBuild, "megatron/core/transformer/moe/experts.py:205", "grouped GEMM with biases needs --no-bias-dropout-fusion",
			"The fused kernel would add the bias of a token, not of its expert."),
		run: realLaunch,
		broken: func(c *launch) bool {
			return c.looking.Feedforward == arch.MoEMLP && !c.local() && c.on("moe_grouped_gemm") && c.on("add_bias_linear") && c.on("bias_dropout_fusion")
		},
		say:  says("--moe-grouped-gemm with linear biases and fused bias and dropout"),
		turn: []string{"--no-bias-dropout-fusion", "--disable-bias-linear"},
	}),
	layerRule(shared("etp-divides-moe-ffn", "--expert-tensor-parallel-size", "--moe-ffn-hidden-size", "--tensor-model-parallel-size")),
	layerRule(shared("shared-experts-bias", "--disable-bias-linear", "--moe-shared-expert-intermediate-size")),
	layerRule(shared("tp-divides-shared-ffn", "--tensor-model-parallel-size", "--moe-shared-expert-intermediate-size")),
}

// lineAt moves a rule to another line of its file.
func lineAt(line int, r rule) rule {
	file, _, _ := strings.Cut(r.Source, ":")
	r.Source = fmt.Sprintf("%s:%d", file, line)
	return r
}

// evenChunks: a number of virtual stages alone cuts the layers, which neither arguments nor config check.
func (c *launch) evenChunks() bool {
	return !c.none("num_virtual_stages_per_pipeline_rank") && !c.layoutGiven() && !c.uneven() && !c.hybrid() && !c.accounted()
}

// mambaRows is the width of a Mamba layer's input projection.
func (c *launch) mambaRows() int {
	b := c.model.Mamba
	if b == nil {
		return 0
	}
	return 2*b.NumHeads*b.HeadDim + 2*b.NumGroups*b.StateDim + b.NumHeads
}
