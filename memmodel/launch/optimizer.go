package launch

import (
	"strings"

	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/memmodel"
)

// typeBytes is the size of an optimizer type flag's element, fp32 where it says nothing.
func typeBytes(s *megatron.Settings, dest string) int {
	switch s.String(dest) {
	case "bf16", "fp16":
		return 2
	case "fp8":
		return 1
	}
	return 4
}

// optimizer fills in the state's algorithm, types and sharding.
func optimizer(out *memmodel.Run, r *megatron.Resolved) {
	s := r.Settings
	out.GradientBytes, out.MasterBytes, out.MomentBytes = 4, 4, 4
	if !r.Precision.GradientsInFP32 && r.Precision.Params != "fp32" {
		out.GradientBytes = 2
	}
	out.DistributedOptimizer = r.DistributedOptimizer
	out.OptimizerInstances = r.OptimizerInstances
	out.PadBuckets = s.Bool("ddp_pad_buckets_for_high_nccl_busbw")
	out.GatherQuantized = s.Bool("fp8_param_gather") || s.Bool("fp4_param_gather")
	precisionAware(out, r)
	switch name := s.String("optimizer"); {
	case name == "sgd":
		out.Optimizer = memmodel.SGD
	case strings.Contains(name, "muon"):
		out.Optimizer = memmodel.Muon
		out.LayerWise = r.LayerWiseOptimizer
		out.LayerWiseLayout = r.LayerWiseOptimizer && s.Bool("use_layer_wise_param_layout")
	}
	if s.Bool("use_megatron_fsdp") {
		fsdp(out, s)
	}
}

// precisionAware: narrow moments stay narrow in every case; the master copy is kept as the half that a bf16 parameter
// lacks only where the optimizer itself holds it (memory-model.md 2.3).
func precisionAware(out *memmodel.Run, r *megatron.Resolved) {
	s := r.Settings
	if !s.Bool("use_precision_aware_optimizer") {
		return
	}
	out.MomentBytes, out.SecondMomentBytes = typeBytes(s, "exp_avg_dtype"), typeBytes(s, "exp_avg_sq_dtype")
	if s.String("main_grads_dtype") == "bf16" {
		out.GradientBytes = 2
	}
	master := typeBytes(s, "main_params_dtype")
	inside := master != 4 || r.Precision.FP8 == "" || r.Precision.Recipe == "delayed" || s.Bool("optimizer_cpu_offload")
	out.PrecisionAware = inside
	switch {
	case master != 4:
		out.MasterBytes = master
	case inside && r.Precision.Params == "bf16":
		out.MasterBytes = 2
	}
}

// fsdp: main gradients and main parameters have types of their own; by default gradients follow the parameters, but fp32
// accumulation makes them fp32 (memory-findings.md C14).
func fsdp(out *memmodel.Run, s *megatron.Settings) {
	switch s.String("data_parallel_sharding_strategy") {
	case "optim_grads_params":
		out.FSDP = memmodel.ShardAll
	case "optim_grads":
		out.FSDP = memmodel.ShardOptimizerGradients
	case "optim":
		out.FSDP = memmodel.ShardOptimizer
	default:
		out.FSDP = memmodel.ShardNothing
	}
	out.DoubleBuffer = s.Bool("fsdp_double_buffer")
	if s.Has("megatron_fsdp_main_grads_dtype") {
		switch s.String("megatron_fsdp_main_grads_dtype") {
		case "fp32":
			out.GradientBytes = 4
		case "bf16", "fp16":
			out.GradientBytes = 2
		}
	}
}
