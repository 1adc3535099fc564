package evidence

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// dumped says which arguments of a log's dump a field of the contract decides, and what they must be; nil: the field is
// blank or has no say.
type dumped struct {
	path string
	args func(*Contract) map[string]string
}

func one(name string, value func(*Contract) string) func(*Contract) map[string]string {
	return func(c *Contract) map[string]string {
		if v := value(c); v != "" {
			return map[string]string{name: v}
		}
		return nil
	}
}

func size(name string, value func(*Contract) int) func(*Contract) map[string]string {
	return one(name, func(c *Contract) string {
		if n := value(c); n > 0 {
			return strconv.Itoa(n)
		}
		return ""
	})
}

func python(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// dumpedFields ties the contract to the dump of arguments (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/arguments.py; the
// older releases use the same names). Fields that several arguments express list them all, so that an A/B may vary them.
var dumpedFields = []dumped{
	{"hardware.gpus", size("world_size", func(c *Contract) int { return c.Hardware.GPUs })},
	{"workload.data_path", one("mock_data", func(c *Contract) string {
		if c.Workload.Data == "" {
			return ""
		}
		return python(c.Workload.Data == "mock")
	})},
	{"workload.routing", one("moe_router_force_load_balancing", func(c *Contract) string {
		if c.Workload.Routing == "none" || c.Workload.Routing == "" {
			return ""
		}
		return python(c.Workload.Routing == "forced")
	})},
	{"workload.seq_length", size("seq_length", func(c *Contract) int { return c.Workload.SeqLength })},
	{"workload.micro_batch_size", size("micro_batch_size", func(c *Contract) int { return c.Workload.MBS })},
	{"workload.global_batch_size", size("global_batch_size", func(c *Contract) int { return c.Workload.GBS })},
	{"workload.precision", func(c *Contract) map[string]string {
		switch c.Workload.Precision {
		case "bf16":
			return map[string]string{"bf16": "True", "fp8": "None", "fp8_recipe": "", "fp4": "None", "params_dtype": ""}
		case "":
			return nil
		}
		return map[string]string{"bf16": "", "fp16": "", "fp8": "", "fp8_recipe": "", "fp4": "", "fp4_recipe": "", "params_dtype": "", "fp8_param_gather": ""}
	}},
	{"workload.main_grads_dtype", func(c *Contract) map[string]string {
		return map[string]string{"grad_reduce_in_bf16": python(c.Workload.Grads == "bf16"), "accumulate_allreduce_grads_in_fp32": "", "main_grads_dtype": ""}
	}},
	{"workload.exp_avg_dtype", func(*Contract) map[string]string {
		return map[string]string{"exp_avg_dtype": "", "exp_avg_sq_dtype": "", "use_precision_aware_optimizer": ""}
	}},
	{"workload.optimizer", one("optimizer", func(c *Contract) string {
		if c.Workload.Optimizer == "none" {
			return ""
		}
		return c.Workload.Optimizer
	})},
	{"layout.tensor_model_parallel_size", size("tensor_model_parallel_size", func(c *Contract) int { return c.Layout.TP })},
	{"layout.context_parallel_size", size("context_parallel_size", func(c *Contract) int { return c.Layout.CP })},
	{"layout.pipeline_model_parallel_size", size("pipeline_model_parallel_size", func(c *Contract) int { return c.Layout.PP })},
	{"layout.virtual_pipeline_model_parallel_size", func(c *Contract) map[string]string {
		if c.Layout.VPP <= 1 {
			return map[string]string{"num_virtual_stages_per_pipeline_rank": "", "num_layers_per_virtual_pipeline_stage": ""}
		}
		return map[string]string{"virtual_pipeline_model_parallel_size": strconv.Itoa(c.Layout.VPP), "num_virtual_stages_per_pipeline_rank": "",
			"num_layers_per_virtual_pipeline_stage": ""}
	}},
	{"layout.expert_model_parallel_size", size("expert_model_parallel_size", func(c *Contract) int { return c.Layout.EP })},
	{"layout.expert_tensor_parallel_size", size("expert_tensor_parallel_size", func(c *Contract) int { return c.Layout.ETP })},
	{"layout.pipeline_model_parallel_layout", func(*Contract) map[string]string {
		return map[string]string{"pipeline_model_parallel_layout": "", "decoder_first_pipeline_num_layers": "", "decoder_last_pipeline_num_layers": ""}
	}},
	{"layout.sequence_parallel", one("sequence_parallel", func(c *Contract) string { return python(c.Layout.SP) })},
	{"layout.moe_token_dispatcher", func(c *Contract) map[string]string {
		d := c.Layout.Dispatcher
		switch d {
		case "", "none":
			return nil
		case "deepep", "hybridep":
			return map[string]string{"moe_token_dispatcher_type": "flex", "moe_flex_dispatcher_backend": "", "moe_enable_deepep": "",
				"moe_deepep_num_sms": "", "moe_hybridep_num_sms": "", "moe_flex_dispatcher_num_sms": ""}
		}
		return map[string]string{"moe_token_dispatcher_type": d, "moe_flex_dispatcher_backend": "", "moe_enable_deepep": ""}
	}},
	{"layout.overlap_moe_expert_parallel_comm", one("overlap_moe_expert_parallel_comm", func(c *Contract) string { return python(c.Layout.EPOverlap) })},
	{"layout.delay_wgrad_compute", one("delay_wgrad_compute", func(c *Contract) string { return python(c.Layout.DelayWgrad) })},
	{"layout.moe_shared_expert_overlap", one("moe_shared_expert_overlap", func(c *Contract) string { return python(c.Layout.SharedOverlap) })},
	{"layout.overlap_grad_reduce", one("overlap_grad_reduce", func(c *Contract) string { return python(c.Layout.GradOverlap) })},
	{"layout.overlap_param_gather", one("overlap_param_gather", func(c *Contract) string { return python(c.Layout.ParamOverlap) })},
	{"layout.tp_comm_overlap", one("tp_comm_overlap", func(c *Contract) string { return python(c.Layout.TPOverlap) })},
	{"layout.recompute", func(c *Contract) map[string]string {
		granularity := "selective"
		switch r := c.Layout.Recompute; {
		case r == "":
			return nil
		case r == "none":
			granularity = "None"
		case strings.HasPrefix(r, "full"):
			granularity = "full"
		}
		return map[string]string{"recompute_granularity": granularity, "recompute_modules": "", "recompute_method": "", "recompute_num_layers": ""}
	}},
	{"layout.cuda_graph_impl", func(c *Contract) map[string]string {
		return map[string]string{"cuda_graph_impl": c.Layout.GraphImpl, "cuda_graph_scope": "", "cuda_graph_modules": "", "enable_cuda_graph": "",
			"external_cuda_graph": "", "te_rng_tracker": ""}
	}},
	{"layout.cuda_graph_scope", func(*Contract) map[string]string {
		return map[string]string{"cuda_graph_scope": "", "cuda_graph_modules": ""}
	}},
}

// contradictions lists where a log's configuration differs from its contract, features apart: those are checked by name.
func contradictions(c *Contract, log *Log) []string {
	if c.Layout.TP == 0 {
		return nil // no contract: nothing is fixed
	}
	var out []string
	for _, d := range dumpedFields {
		want := d.args(c)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			got, shown := log.Arguments[name]
			if shown && want[name] != "" && got != want[name] && !isFeature(c, d.path) {
				out = append(out, fmt.Sprintf("the contract fixes %s, and the run was configured with %s %s instead of %s", d.path, name, clipped(got), want[name]))
			}
		}
	}
	for name, field := range map[string]string{"megatron_core": c.Software.MegatronCore, "transformer_engine": c.Software.TransformerEngine, "pytorch": c.Software.PyTorch} {
		if got, ok := log.Versions[name]; ok && field != "" && got != field {
			out = append(out, fmt.Sprintf("the contract fixes software.%s_version %s, and the run printed %s", name, field, got))
		}
	}
	slices.Sort(out)
	return out
}

// isFeature: what features already contradicts, where the contract asks for it.
func isFeature(c *Contract, path string) bool {
	switch path {
	case "layout.moe_token_dispatcher":
		return true
	case "layout.overlap_moe_expert_parallel_comm":
		return c.Layout.EPOverlap
	case "layout.moe_shared_expert_overlap":
		return c.Layout.SharedOverlap
	case "layout.overlap_grad_reduce":
		return c.Layout.GradOverlap
	case "layout.overlap_param_gather":
		return c.Layout.ParamOverlap
	case "layout.tp_comm_overlap":
		return c.Layout.TPOverlap
	}
	return false
}

// runArguments are those that differ between any two runs and change no work: where it ran, what it wrote and how long.
var runArguments = []string{"rank", "local_rank", "save", "load", "tensorboard_dir", "wandb_exp_name", "wandb_project", "wandb_save_dir", "train_iters",
	"exit_interval", "exit_duration_in_mins", "save_interval", "eval_interval", "eval_iters", "log_interval", "log_memory_interval", "data_cache_path",
	"master_addr", "master_port", "app_tag_run_name", "app_tag_run_version", "memory_snapshot_path", "distributed_timeout_minutes", "lr_decay_iters",
	"train_samples", "iteration", "start_time", "one_logger_project", "one_logger_run_name", "num_floating_point_operations_so_far"}

// differingArguments lists the arguments in which two dumps differ, but for those of runArguments. nil where one log has no
// dump.
func differingArguments(a, b *Log) []string {
	if len(a.Arguments) == 0 || len(b.Arguments) == 0 {
		return nil
	}
	names := map[string]bool{}
	for _, log := range []*Log{a, b} {
		for name := range log.Arguments {
			if x, y := a.Arguments[name], b.Arguments[name]; x != y && !slices.Contains(runArguments, name) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// argumentsOf are the arguments that express a field.
func argumentsOf(path string, contracts ...*Contract) []string {
	var out []string
	for _, d := range dumpedFields {
		if d.path != path {
			continue
		}
		for _, c := range contracts {
			for name := range d.args(c) {
				out = append(out, name)
			}
		}
	}
	return out
}
