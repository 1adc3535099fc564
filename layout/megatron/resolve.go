package megatron

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
)

// ErrWorld is returned for a world that is no number of GPUs.
var ErrWorld = errors.New("megatron: the world is not a number of GPUs")

// Resolve derives what Megatron-LM derives from its arguments on a world of that many ranks (NVIDIA/Megatron-LM@d98e8a64dd
// megatron/training/arguments.py validate_args and the __post_init__ of model_parallel_config.py and
// transformer_config.py). It checks nothing and never fails on what a command line can say. The environment is kept for
// the checks that read it; nil is an empty one.
func Resolve(s *Settings, world int, env map[string]string) (*Resolved, error) {
	if world < 1 || world > layout.MaxSize {
		return nil, fmt.Errorf("%w: %d", ErrWorld, world)
	}
	r := &Resolved{Settings: s, Env: maps.Clone(env)}
	r.meshes(world)
	r.recompute()
	r.graphs()
	r.batch()
	r.shape()
	r.pipeline()
	r.precision()
	r.moe()
	r.vocabulary()
	for _, dest := range []string{"yaml_cfg", "spec", "use_checkpoint_args", "heterogeneous_layers_config_path",
		"heterogeneous_layers_config_encoded_json", "te_precision_config_file", "kitchen_config_file"} {
		if s.IsGiven(dest) {
			r.External = append(r.External, OptionOf(dest, s.release).Name)
		}
	}
	return r, nil
}

// meshes: arguments.py:418-448 and 587, model_parallel_config.py:506-530.
func (r *Resolved) meshes(world int) {
	s := r.Settings
	r.Degrees = folding.Degrees{
		World: world,
		TP:    s.Int("tensor_model_parallel_size"),
		CP:    s.Int("context_parallel_size"),
		PP:    s.Int("pipeline_model_parallel_size"),
		EP:    s.Int("expert_model_parallel_size"),
		ETP:   s.Int("expert_tensor_parallel_size"),
	}
	if s.IsNone("expert_tensor_parallel_size") {
		r.Degrees.ETP, r.ETPFromTP = r.Degrees.TP, true
		if r.Degrees.TP > 1 {
			r.change("--expert-tensor-parallel-size", "not given", strconv.Itoa(r.Degrees.TP), "it follows --tensor-model-parallel-size",
				"megatron/training/arguments.py:587")
		}
	}
	if s.Bool("use_tp_pp_dp_mapping") {
		r.Order = folding.TPPPDPOrder
	}
	r.WeightRemat = shardsOver(s, "tensor_parallel_num_weight_shards", r.Degrees.TP)
	r.ExpertWeightRemat = shardsOver(s, "expert_tensor_parallel_num_weight_shards", r.Degrees.ETP)
	d := r.Degrees
	r.DP = quotient(world, product(d.TP, d.CP, d.PP, r.WeightRemat))
	r.EDP = quotient(world, product(d.ETP, d.EP, d.PP, r.ExpertWeightRemat))
	r.OptimizerInstances = s.IntOr("num_distributed_optimizer_instances", 1)
	r.CPCommType = slices.Clone(s.Strings("cp_comm_type"))

	r.SequenceParallel = s.Bool("sequence_parallel")
	if r.SequenceParallel && d.TP == 1 {
		r.SequenceParallel = false
		r.change("--sequence-parallel", "on", "off", "tensor model parallel size is 1", "megatron/training/arguments.py:1433")
	}
	optimizer := s.String("optimizer")
	r.DistributedOptimizer = s.Bool("use_distributed_optimizer")
	if s.Bool("use_megatron_fsdp") && s.IntOr("megatron_fsdp_version", 1) != 2 && !r.DistributedOptimizer {
		r.DistributedOptimizer = true
		r.change("--use-distributed-optimizer", "off", "on", "Megatron-FSDP works with nothing else", "megatron/training/arguments.py:1134")
	}
	if optimizer != "adam" && optimizer != "sgd" && s.release.From("0.18.2") {
		r.LayerWiseOptimizer = optimizer == "dist_muon" || r.DistributedOptimizer
		r.DistributedOptimizer = false
	}
}

// shardsOver is how many weight shards each shard of a degree is cut into: 1 without the flag, 0 where it does not divide.
func shardsOver(s *Settings, dest string, degree int) int {
	switch {
	case s.IsNone(dest):
		return 1
	case degree < 1 || s.Int(dest)%degree != 0:
		return 0
	}
	return s.Int(dest) / degree
}

// quotient is a/b rounded down, 0 where that is not defined.
func quotient(a, b int) int {
	if a < 1 || b < 1 {
		return 0
	}
	return a / b
}

// product multiplies sizes; 0 where one is below 1 or the result is beyond any world.
func product(sizes ...int) int {
	p := 1
	for _, n := range sizes {
		if n < 1 || n > layout.MaxSequence {
			return 0
		}
		if p *= n; p > 1<<40 {
			return 0
		}
	}
	return p
}

// batch: arguments.py:693-725, global_vars.py:148.
func (r *Resolved) batch() {
	s, b := r.Settings, &r.Batch
	b.MicroBatchSize = s.Int("micro_batch_size")
	b.GlobalBatchSize, b.GlobalGiven = s.Int("global_batch_size"), !s.IsNone("global_batch_size")
	if !b.GlobalGiven {
		b.GlobalBatchSize = product(b.MicroBatchSize, r.DP)
	}
	b.EvalGlobalBatchSize = s.IntOr("eval_global_batch_size", b.GlobalBatchSize)
	b.EvalMicroBatchSize = s.IntOr("eval_micro_batch_size", b.MicroBatchSize)
	if each := product(b.MicroBatchSize, r.DP, r.WeightRemat); each > 0 {
		b.NumMicrobatches = quotient(b.GlobalBatchSize, each)
		b.Whole = b.NumMicrobatches > 0 && b.GlobalBatchSize%each == 0
	}
	b.SeqLength = s.IntOr("seq_length", s.Int("encoder_seq_length"))
	b.MaxPositionEmbeddings = s.Int("max_position_embeddings")
}

// recompute: arguments.py:608, transformer_config.py:1938 and 2012-2024. --moe-layer-recompute of 0.11 is older than the
// modules and recomputes the MoE layer beside whatever else; it is shown in the same words.
func (r *Resolved) recompute() {
	s, c := r.Settings, &r.Recompute
	c.Granularity = s.String("recompute_granularity")
	c.Method = s.String("recompute_method")
	c.NumLayers = s.Int("recompute_num_layers")
	if s.Bool("recompute_activations") {
		if c.Granularity == "full" {
			r.change("--recompute-granularity", "full", "selective", "--recompute-activations overwrites it", "megatron/training/arguments.py:609")
		}
		c.Granularity = "selective"
	}
	c.Modules = slices.Clone(s.Strings("recompute_modules"))
	if s.IsNone("recompute_modules") {
		c.Modules = []string{"core_attn"}
	}
	if s.Bool("moe_layer_recompute") && c.Granularity != "full" {
		if c.Granularity == "" && !s.Has("recompute_modules") {
			c.Modules = nil // 0.11.0: selective means core attention there, and was not asked for
		}
		c.Granularity = "selective"
		if !slices.Contains(c.Modules, "moe") {
			c.Modules = append(c.Modules, "moe")
		}
	}
	if c.Granularity == "" && s.IsGiven("recompute_modules") {
		r.change("--recompute-modules", "given", "ignored", "without --recompute-granularity selective nothing is recomputed",
			"megatron/core/transformer/transformer_config.py:1941")
	}
}

// graphs: arguments.py:612-664, transformer/cuda_graph_config.py. Before 0.15.3 there are two switches instead of
// --cuda-graph-impl, and before 0.18.2 a scope instead of modules.
func (r *Resolved) graphs() {
	s, g := r.Settings, &r.Graph
	g.Impl = "none"
	if s.Has("cuda_graph_impl") {
		g.Impl = s.String("cuda_graph_impl")
	}
	switch {
	case g.Impl != "none":
	case s.Bool("enable_cuda_graph"):
		g.Impl = "local"
	case s.Bool("external_cuda_graph"):
		g.Impl = "transformer_engine"
	}
	g.Modules = slices.Clone(s.Strings("cuda_graph_modules"))
	if s.IsGiven("cuda_graph_scope") || !s.Has("cuda_graph_modules") {
		g.Modules = slices.Clone(s.Strings("cuda_graph_scope"))
	}
	g.Modules = slices.DeleteFunc(g.Modules, func(m string) bool {
		if m == "full_iteration" && s.Has("cuda_graph_modules") {
			g.Impl = "full_iteration"
		}
		return m == "full" || s.Has("cuda_graph_modules") && (m == "full_iteration" || m == "full_iteration_inference")
	})
	// Local graphs capture router and preprocessing together (transformer_config.py:2804-2815).
	router, preprocess := slices.Contains(g.Modules, "moe_router"), slices.Contains(g.Modules, "moe_preprocess")
	switch {
	case g.Impl != "local" || router == preprocess || !s.Has("cuda_graph_modules"):
	case router:
		g.Modules = append(g.Modules, "moe_preprocess")
	default:
		g.Modules = append(g.Modules, "moe_router")
	}
}

// precision: arguments.py:1191-1216. FP16 gradients stay as they are unless asked for.
func (r *Resolved) precision() {
	s, p := r.Settings, &r.Precision
	p.Params = "fp32"
	switch {
	case s.Bool("bf16"):
		p.Params = "bf16"
	case s.Bool("fp16"):
		p.Params = "fp16"
	}
	p.FP8, p.FP4 = s.String("fp8"), s.String("fp4")
	switch {
	case p.FP4 != "":
		p.Recipe = s.String("fp4_recipe")
	case p.FP8 != "" && s.Has("fp8_recipe"):
		p.Recipe = s.String("fp8_recipe")
	case p.FP8 != "":
		p.Recipe = "delayed" // the only one before 0.12.3
	}
	p.GradientsInFP32 = s.Bool("accumulate_allreduce_grads_in_fp32")
	switch {
	case p.Params != "bf16":
	case s.Bool("grad_reduce_in_bf16"):
		p.GradientsInFP32 = false
	case s.IsNone("main_grads_dtype") || s.String("main_grads_dtype") == "fp32":
		p.GradientsInFP32 = true
	}
}

// moe: the dispatcher, transformer_config.py:1744-1757. A flex dispatcher had DeepEP only before 0.16.1.
func (r *Resolved) moe() {
	s := r.Settings
	r.Dispatcher = s.String("moe_token_dispatcher_type")
	if r.Dispatcher == "flex" {
		r.FlexBackend = "deepep"
		if s.Has("moe_flex_dispatcher_backend") && !s.Bool("moe_enable_deepep") {
			r.FlexBackend = s.String("moe_flex_dispatcher_backend")
		}
	}
}
