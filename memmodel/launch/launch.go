package launch

import (
	"errors"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/memmodel"
)

// Hardware is what decides memory and stands on no command line.
type Hardware struct {
	SM int // compute capability times ten
	// TorchWorkspace is the size of PyTorch's cuBLAS workspace in bytes where the container is known; 0 takes the
	// default of the GPU's generation. A CUBLAS_WORKSPACE_CONFIG goes before both.
	TorchWorkspace int64
	// Attention is the kernel where it is known and the command line does not say.
	Attention memmodel.AttentionKernel
	// TEFusedCE is which of TE's cross entropies its version has: memmodel.TEFusedCE or memmodel.TEFusedBF16CE, for
	// --cross-entropy-fusion-impl te. The zero value stands for the former.
	TEFusedCE memmodel.CrossEntropy
	// Imbalance is memmodel.Run's; 0 is 1.
	Imbalance float64
	// DomainSize is memmodel.Run's.
	DomainSize int
}

// Setup is a command line as memory sees it.
type Setup struct {
	Model  *arch.Model
	Layout layout.Layout
	Run    memmodel.Run
	// Unmodelled lists what is asked for and not priced, each a flag with its value.
	Unmodelled []string
}

// Read turns a command line into what memmodel prices. Parts that neither the model, the layout nor the run can hold are
// named in Setup.Unmodelled. The error is that of megatron.Model or megatron.Layout where arithmetic defines no model
// or no layout, among them megatron.ErrVocabulary, or a *memmodel.UnsupportedError.
func Read(r *megatron.Resolved, h Hardware) (Setup, error) {
	var s Setup
	var err error
	if s.Model, err = megatron.Model(r); !s.passes(err) {
		return Setup{}, err
	}
	if s.Layout, err = megatron.Layout(r); !s.passes(err) {
		return Setup{}, err
	}
	if err := memmodel.Supported(s.Model); err != nil {
		return Setup{}, err
	}
	s.Run = run(r, h)
	s.unpriced(r)
	return s, nil
}

// passes reports whether an error is about unmodelled parts alone, and takes them down. fp32 and the delayed recipe are
// the run's to hold.
func (s *Setup) passes(err error) bool {
	var part *megatron.UnmodelledError
	if err == nil {
		return true
	}
	if !errors.As(err, &part) || errors.Is(err, megatron.ErrVocabulary) {
		return false
	}
	for _, p := range part.Parts {
		if !strings.HasPrefix(p, "fp32 ") && p != "--fp8-recipe delayed" {
			s.Unmodelled = append(s.Unmodelled, p)
		}
	}
	return true
}

// run fills in everything that the layout does not hold.
func run(r *megatron.Resolved, h Hardware) memmodel.Run {
	s := r.Settings
	out := memmodel.Run{
		SM:                  h.SM,
		FP32:                r.Precision.Params == "fp32",
		Local:               s.String("transformer_impl") == "local",
		UnfusedSoftmax:      !s.Bool("masked_softmax_fusion"),
		Deterministic:       s.Bool("deterministic_mode"),
		HiddenDropout:       s.Float("hidden_dropout") > 0,
		AttentionDropout:    s.Float("attention_dropout") > 0,
		WeightedSquaredReLU: s.Bool("use_fused_weighted_squared_relu"),
		NoGradientFusion:    !s.Bool("gradient_accumulation_fusion"),
		CrossEntropy:        crossEntropy(s, h),
		CausalMask:          s.Bool("create_attention_mask_in_dataloader") || !s.Has("create_attention_mask_in_dataloader"),
		CPAllToAll:          anyKind(r.CPCommType, "a2a"),
		CPGather:            anyKind(r.CPCommType, "all_gather"),
		SequentialExperts:   !s.Bool("moe_grouped_gemm"),
		FusedPermute:        s.Bool("moe_permute_fusion"),
		ScatterUnpermute:    !s.Release().From("0.15.3"),
		CapacityFactor:      max(0, s.Float("moe_expert_capacity_factor")), // a negative one is dropped (rule capacity-ignored)
		PadToCapacity:       s.Bool("moe_pad_expert_input_to_capacity"),
		SharedExpertOverlap: s.Bool("moe_shared_expert_overlap"),
		Imbalance:           max(1, h.Imbalance),
		GroupSize:           r.Pipeline.GroupSize,
		NoP2POverlap:        !r.OverlapP2P,
		WarmupFlushOverlap:  s.Bool("overlap_p2p_comm_warmup_flush"),
		DelayWeightGradient: s.Bool("delay_wgrad_compute"),
		DomainSize:          h.DomainSize,
		ExpandableSegments:  strings.Contains(r.Env["PYTORCH_CUDA_ALLOC_CONF"], "expandable_segments:True"),
	}
	out.NoActivationFusion = !s.Bool("bias_gelu_fusion")
	if s.Bool("swiglu") {
		out.NoActivationFusion = !s.Bool("bias_swiglu_fusion")
	}
	if s.Bool("defer_embedding_wgrad_compute") {
		out.DeferEmbeddingGradient, out.DeferralLimit = true, s.Int("wgrad_deferral_limit")
	}
	if s.Bool("first_last_layers_bf16") {
		out.BF16LayersAtStart, out.BF16LayersAtEnd = s.Int("num_layers_at_start_in_bf16"), s.Int("num_layers_at_end_in_bf16")
	}
	attention(&out, r, h)
	workspace(&out, r, h)
	optimizer(&out, r)
	out.Offload = offload(s)
	out.Graphs = graphs(r)
	return out
}

func crossEntropy(s *megatron.Settings, h Hardware) memmodel.CrossEntropy {
	switch {
	case !s.Bool("cross_entropy_loss_fusion"):
		return memmodel.UnfusedCE
	case s.String("cross_entropy_fusion_impl") != "te":
		return memmodel.NativeFusedCE
	case h.TEFusedCE == memmodel.TEFusedBF16CE:
		return memmodel.TEFusedBF16CE
	}
	return memmodel.TEFusedCE
}

// anyKind reports whether some layer's kind of context parallelism begins with a name; a2a+p2p is both.
func anyKind(kinds []string, name string) bool {
	for _, k := range kinds {
		if strings.HasPrefix(k, name) {
			return true
		}
	}
	return false
}

// attention is the kernel: --attention-backend, else TE's own switches, else what is known of the run.
func attention(out *memmodel.Run, r *megatron.Resolved, h Hardware) {
	out.Attention = h.Attention
	switch backend := r.Settings.String("attention_backend"); {
	case backend == "flash" || r.Settings.Bool("use_flash_attn"):
		out.Attention = memmodel.FlashAttention2
	case backend == "fused":
		out.Attention = memmodel.CuDNNAttention
	case backend == "unfused" || backend == "local":
		out.Attention = memmodel.UnfusedAttention
	case out.Attention != memmodel.KernelAuto:
	case r.Env["NVTE_FUSED_ATTN"] == "0" && r.Env["NVTE_FLASH_ATTN"] == "0":
		out.Attention = memmodel.UnfusedAttention
	case r.Env["NVTE_FUSED_ATTN"] == "0":
		out.Attention = memmodel.FlashAttention2
	case r.Env["NVTE_FLASH_ATTN"] == "0":
		out.Attention = memmodel.CuDNNAttention
	}
}

// workspace is PyTorch's cuBLAS workspace: deterministic mode asks for a CUBLAS_WORKSPACE_CONFIG, whose common value
// :4096:8 is eight buffers of 4 MiB (memory-findings.md C1).
func workspace(out *memmodel.Run, r *megatron.Resolved, h Hardware) {
	out.TorchWorkspace = h.TorchWorkspace
	switch config := r.Env["CUBLAS_WORKSPACE_CONFIG"]; {
	case config == ":16:8":
		out.TorchWorkspace = 16 << 10 * 8
	case config == ":4096:8" || config == "" && out.Deterministic && h.TorchWorkspace == 0:
		out.TorchWorkspace = 32 << 20
	}
}

func graphs(r *megatron.Resolved) (g memmodel.Graphs) {
	switch r.Graph.Impl {
	case "none", "":
		return g
	case "full_iteration":
		g.FullIteration = true
		return g
	}
	g.Modules = memmodel.ParseGraphModules(r.Graph.Modules)
	return g
}

// offload: fine-grained modules, whole layers, optimizer state.
func offload(s *megatron.Settings) (o memmodel.Offload) {
	if s.Bool("fine_grained_activation_offloading") {
		for _, name := range s.Strings("offload_modules") {
			m, _ := memmodel.ParseOffloadModule(name)
			o.Modules |= m
		}
		o.MinimumElements = int64(s.Int("min_offloaded_tensor_size"))
	}
	o.Layers = max(0, s.Int("cpu_offloading_num_layers")) // a negative number offloads nothing (rule layer-offload-ignored)
	if s.Bool("optimizer_cpu_offload") {
		o.OptimizerFraction = s.Float("optimizer_offload_fraction")
	}
	return o
}
