package megatron

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// Bridge are the Megatron-Bridge overrides of a layout, to be put behind a recipe of the same model.
type Bridge struct {
	Overrides []string `json:"overrides"` // section.field=value, each one word
	Comments  []string `json:"comments"`  // where Bridge differs, and what has no equivalent
}

// BridgeOverrides writes a layout as overrides of a Megatron-Bridge recipe
// (NVIDIA-NeMo/Megatron-Bridge@067f987df src/megatron/bridge/training/config.py and models/gpt_provider.py, whose fields
// are Megatron-Core's). The architecture is the recipe's.
//
// The error is that of a layout whose split does not fit the model, or of a rank order that Bridge cannot ask for.
func BridgeOverrides(l *layout.Layout, m *arch.Model, o LaunchOptions) (*Bridge, error) {
	if err := checkSplit(l, m); err != nil {
		return nil, err
	}
	mapping, err := tpPPDPMapping(l)
	if err != nil {
		return nil, err
	}
	b := &Bridge{}
	set := func(field, value string) { b.Overrides = append(b.Overrides, field+"="+value) }
	size := func(field string, n int) { set(field, strconv.Itoa(n)) }
	size("model.tensor_model_parallel_size", l.TP)
	size("model.context_parallel_size", l.CP)
	size("model.pipeline_model_parallel_size", l.PP)
	if l.VPP > 1 {
		size("model.virtual_pipeline_model_parallel_size", l.VPP)
	} else {
		set("model.virtual_pipeline_model_parallel_size", "null")
	}
	if l.PP > 1 {
		set("model.pipeline_model_parallel_layout", l.Split.String())
	} else {
		set("model.pipeline_model_parallel_layout", "null")
	}
	size("model.expert_model_parallel_size", l.EP)
	size("model.expert_tensor_parallel_size", l.ETP)
	set("model.sequence_parallel", strconv.FormatBool(l.SequenceParallel))
	size("model.seq_length", l.SeqLength)
	size("train.micro_batch_size", l.MicroBatchSize)
	size("train.global_batch_size", l.GlobalBatchSize)
	b.recompute(l.Recompute, set)
	if m.MoE != nil {
		switch l.Dispatcher {
		case layout.DeepEP, layout.HybridEP:
			set("model.moe_token_dispatcher_type", "flex")
			set("model.moe_flex_dispatcher_backend", l.Dispatcher.String())
		default:
			set("model.moe_token_dispatcher_type", l.Dispatcher.String())
		}
	}
	switch l.Precision {
	case layout.BF16:
		set("mixed_precision", "bf16_mixed")
	case layout.FP16:
		set("mixed_precision", "fp16_mixed")
	default:
		b.Comments = append(b.Comments, fmt.Sprintf("precision %s: choose the recipe's mixed_precision yourself; what each keeps in FP8 depends on the release", l.Precision))
	}
	if mapping {
		set("dist.use_tp_pp_dp_mapping", "true")
	}
	set("ddp.use_distributed_optimizer", "true")
	set("ddp.grad_reduce_in_fp32", strconv.FormatBool(!o.BF16Gradients))
	if o.BF16Moments {
		set("optimizer.use_precision_aware_optimizer", "true")
		set("optimizer.exp_avg_dtype", "torch.bfloat16")
		set("optimizer.exp_avg_sq_dtype", "torch.bfloat16")
	}
	if len(o.OffloadModules) > 0 || o.OffloadOptimizer {
		b.Comments = append(b.Comments, "offload is not written: set it in the recipe as your release of Bridge names it")
	}
	b.Comments = append(b.Comments,
		"Put these behind a recipe of "+m.ID+"; its architecture, data, graphs and overlap stay its own.",
		"Bridge differs from Megatron-LM: without model.expert_tensor_parallel_size recent releases take 1, Megatron-LM takes TP; its benchmark recipes reduce gradients in bf16, Megatron-LM in fp32; with a precision-aware optimizer it keeps an fp32 master copy, because its fp8_recipe is set even in bf16.",
		"Bridge has no fake process group: check the layout with Megatron-LM (moeplan emit --for check).")
	return b, nil
}

func (b *Bridge) recompute(r layout.Recompute, set func(field, value string)) {
	switch r.Granularity {
	case layout.Selective:
		set("model.recompute_granularity", "selective")
		set("model.recompute_modules", "["+r.Modules.String()+"]")
	case layout.Full:
		method := "uniform"
		if r.Block {
			method = "block"
		}
		set("model.recompute_granularity", "full")
		set("model.recompute_method", method)
		set("model.recompute_num_layers", strconv.Itoa(r.NumLayers))
	default:
		set("model.recompute_granularity", "null")
	}
}

// Text writes the overrides one a line, quoted for a shell, below their comments.
func (b *Bridge) Text() string {
	var out strings.Builder
	for _, c := range b.Comments {
		comment(&out, c)
	}
	for i, o := range b.Overrides {
		out.WriteString("  " + Quote(o))
		if i < len(b.Overrides)-1 {
			out.WriteString(" \\")
		}
		out.WriteByte('\n')
	}
	return out.String()
}
