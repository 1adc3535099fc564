package evidence

import (
	"strconv"
	"strings"
)

// entry is one field of a contract.
type entry struct {
	section, key string
	what         string // for the comment
	choices      []string
	into         func(*Contract) any // *string, *int, *bool, *float64 or *[]string
}

// ContractField is one field of a contract, for forms and schemas.
type ContractField struct {
	Section, Key string
	// What says what belongs there, "" where the key says it all.
	What string
	// Choices are the values that it takes; nil takes any.
	Choices []string
	// Type is that of its JSON form: string, integer, boolean, number or array.
	Type string
}

// ContractFields lists the fields of a contract in their order.
func ContractFields() []ContractField {
	var c Contract
	out := make([]ContractField, len(contractFields))
	for i := range contractFields {
		e := &contractFields[i]
		out[i] = ContractField{Section: e.section, Key: e.key, What: e.what, Choices: e.choices}
		switch e.into(&c).(type) {
		case *int:
			out[i].Type = "integer"
		case *bool:
			out[i].Type = "boolean"
		case *float64:
			out[i].Type = "number"
		case *[]string:
			out[i].Type = "array"
		default:
			out[i].Type = "string"
		}
	}
	return out
}

func (e *entry) path() string { return e.section + "." + e.key }

func str(section, key, what string, into func(*Contract) *string, choices ...string) entry {
	return entry{section, key, what, choices, func(c *Contract) any { return into(c) }}
}

func num(section, key, what string, into func(*Contract) *int) entry {
	return entry{section, key, what, nil, func(c *Contract) any { return into(c) }}
}

func flag(section, key, what string, into func(*Contract) *bool) entry {
	return entry{section, key, what, nil, func(c *Contract) any { return into(c) }}
}

// contractFields is the table of all fields: issue item 3, in its order.
var contractFields = []entry{
	str("software", "framework", "", func(c *Contract) *string { return &c.Software.Framework }, "", "megatron-lm", "megatron-bridge"),
	str("software", "megatron_core_version", "", func(c *Contract) *string { return &c.Software.MegatronCore }),
	str("software", "megatron_core_commit", "", func(c *Contract) *string { return &c.Software.MegatronCoreCommit }),
	str("software", "megatron_bridge_version", "", func(c *Contract) *string { return &c.Software.Bridge }),
	str("software", "megatron_bridge_commit", "", func(c *Contract) *string { return &c.Software.BridgeCommit }),
	str("software", "transformer_engine_version", "", func(c *Contract) *string { return &c.Software.TransformerEngine }),
	str("software", "pytorch_version", "", func(c *Contract) *string { return &c.Software.PyTorch }),
	str("software", "container", "image with its digest", func(c *Contract) *string { return &c.Software.Container }),
	str("software", "cuda_version", "", func(c *Contract) *string { return &c.Software.CUDA }),
	str("software", "nccl_version", "", func(c *Contract) *string { return &c.Software.NCCL }),
	str("software", "driver_version", "", func(c *Contract) *string { return &c.Software.Driver }),

	num("hardware", "gpus", "", func(c *Contract) *int { return &c.Hardware.GPUs }),
	str("hardware", "sku", "", func(c *Contract) *string { return &c.Hardware.SKU }),
	num("hardware", "gpus_per_node", "", func(c *Contract) *int { return &c.Hardware.Node }),
	num("hardware", "gpus_per_nvlink_domain", "", func(c *Contract) *int { return &c.Hardware.Domain }),
	str("hardware", "nodes", "which ones, or the allocation", func(c *Contract) *string { return &c.Hardware.Nodes }),
	str("hardware", "network", "rails and switches between the domains", func(c *Contract) *string { return &c.Hardware.Network }),

	str("launch", "launcher", "such as torchrun or srun", func(c *Contract) *string { return &c.Launch.Launcher }),
	{"launch", "environment", "NAME=VALUE, one an item", nil, func(c *Contract) any { return &c.Launch.Environment }},

	str("workload", "model", "", func(c *Contract) *string { return &c.Workload.Model }),
	str("workload", "task", "", func(c *Contract) *string { return &c.Workload.Task }, "", "pretrain", "finetune", "sft", "rl"),
	str("workload", "data_path", "mock for synthetic data", func(c *Contract) *string { return &c.Workload.Data }),
	str("workload", "tokenizer", "", func(c *Contract) *string { return &c.Workload.Tokenizer }),
	str("workload", "routing", "forced: --moe-router-force-load-balancing", func(c *Contract) *string { return &c.Workload.Routing }, "learned", "forced", "none"),
	str("workload", "moe_expert_capacity_factor", "blank keeps every token", func(c *Contract) *string { return &c.Workload.CapacityFactor }),
	num("workload", "seq_length", "", func(c *Contract) *int { return &c.Workload.SeqLength }),
	num("workload", "micro_batch_size", "", func(c *Contract) *int { return &c.Workload.MBS }),
	num("workload", "global_batch_size", "", func(c *Contract) *int { return &c.Workload.GBS }),
	str("workload", "precision", "", func(c *Contract) *string { return &c.Workload.Precision }, "bf16", "fp16", "fp8-tensorwise", "fp8-blockwise", "mxfp8", "nvfp4"),
	str("workload", "main_grads_dtype", "", func(c *Contract) *string { return &c.Workload.Grads }, "fp32", "bf16"),
	str("workload", "exp_avg_dtype", "", func(c *Contract) *string { return &c.Workload.Moments }, "fp32", "bf16", "fp16", "fp8"),
	str("workload", "optimizer", "none: steps are not taken", func(c *Contract) *string { return &c.Workload.Optimizer }),
	str("workload", "save", "where checkpoints go; none: not written", func(c *Contract) *string { return &c.Workload.Checkpoint }),

	num("layout", "tensor_model_parallel_size", "", func(c *Contract) *int { return &c.Layout.TP }),
	num("layout", "context_parallel_size", "", func(c *Contract) *int { return &c.Layout.CP }),
	num("layout", "pipeline_model_parallel_size", "", func(c *Contract) *int { return &c.Layout.PP }),
	num("layout", "virtual_pipeline_model_parallel_size", "1: not interleaved", func(c *Contract) *int { return &c.Layout.VPP }),
	num("layout", "expert_model_parallel_size", "", func(c *Contract) *int { return &c.Layout.EP }),
	num("layout", "expert_tensor_parallel_size", "", func(c *Contract) *int { return &c.Layout.ETP }),
	str("layout", "pipeline_model_parallel_layout", "", func(c *Contract) *string { return &c.Layout.Split }),
	str("layout", "order", "", func(c *Contract) *string { return &c.Layout.Order }),
	flag("layout", "sequence_parallel", "", func(c *Contract) *bool { return &c.Layout.SP }),
	str("layout", "moe_token_dispatcher", "", func(c *Contract) *string { return &c.Layout.Dispatcher }, "alltoall", "allgather", "deepep", "hybridep", "none"),
	flag("layout", "overlap_moe_expert_parallel_comm", "", func(c *Contract) *bool { return &c.Layout.EPOverlap }),
	flag("layout", "delay_wgrad_compute", "", func(c *Contract) *bool { return &c.Layout.DelayWgrad }),
	flag("layout", "moe_shared_expert_overlap", "", func(c *Contract) *bool { return &c.Layout.SharedOverlap }),
	flag("layout", "overlap_grad_reduce", "", func(c *Contract) *bool { return &c.Layout.GradOverlap }),
	flag("layout", "overlap_param_gather", "", func(c *Contract) *bool { return &c.Layout.ParamOverlap }),
	flag("layout", "tp_comm_overlap", "", func(c *Contract) *bool { return &c.Layout.TPOverlap }),
	str("layout", "recompute", "none, full, or modules", func(c *Contract) *string { return &c.Layout.Recompute }),
	str("layout", "offload", "", func(c *Contract) *string { return &c.Layout.Offload }),
	str("layout", "cuda_graph_impl", "", func(c *Contract) *string { return &c.Layout.GraphImpl }, "none", "local", "transformer_engine", "full_iteration"),
	str("layout", "cuda_graph_scope", "", func(c *Contract) *string { return &c.Layout.GraphScope }),
	str("layout", "other_args", "what else the command line sets", func(c *Contract) *string { return &c.Layout.OtherArgs }),

	str("measure", "strength", "a screen can only reject", func(c *Contract) *string { return &c.Measure.Strength }, "screen", "validation"),
	num("measure", "warmup_iterations", "never counted; graphs are captured in them", func(c *Contract) *int { return &c.Measure.WarmUp }),
	num("measure", "window_first", "first steady iteration", func(c *Contract) *int { return &c.Measure.First }),
	num("measure", "window_last", "a validation needs 50 steps", func(c *Contract) *int { return &c.Measure.Last }),
	flag("measure", "profiled", "times of a profiled run are not taken", func(c *Contract) *bool { return &c.Measure.Profiled }),
	{"measure", "noise_percent", "smallest difference that one run each can show", nil, func(c *Contract) any { return &c.Measure.Tolerance }},
}

// fieldAt finds a field by its path.
func fieldAt(path string) *entry {
	for i := range contractFields {
		if contractFields[i].path() == path {
			return &contractFields[i]
		}
	}
	return nil
}

// text is a field's value as a person writes it; "" is unknown or empty.
func (e *entry) text(c *Contract) string {
	switch v := e.into(c).(type) {
	case *string:
		return *v
	case *int:
		if *v == 0 {
			return ""
		}
		return strconv.Itoa(*v)
	case *bool:
		return strconv.FormatBool(*v)
	case *float64:
		return strconv.FormatFloat(*v, 'g', -1, 64)
	case *[]string:
		return strings.Join(*v, " ")
	}
	panic("bug: a contract field of another type")
}
