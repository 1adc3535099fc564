package megatron

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout/arch"
)

// ErrVocabulary is returned beside a model whose vocabulary the command line does not give: tokenizer files are never
// opened.
var ErrVocabulary = errors.New("megatron: neither --padded-vocab-size nor --vocab-size is given, so the vocabulary is unknown")

// UnmodelledError names parts of a command line that moeplan's models or layouts cannot hold. It is never a guess: what is
// returned beside it holds the rest.
type UnmodelledError struct {
	Parts []string // a flag with its value each
}

// Error lists the parts.
func (e *UnmodelledError) Error() string {
	return "megatron: not modelled: " + strings.Join(e.Parts, ", ")
}

// Model returns the architecture that a command line describes. Launcher and MegatronFlags (those of its flags that
// describe the model, so that Training can write it again) are filled, names and sources are not.
//
// Beside ErrVocabulary and an *UnmodelledError the model is returned too, with a vocabulary of 0, or without the parts that
// cannot be held. Every other error (a size that is missing or makes no sense, a layer list that cannot be read) comes
// alone.
func Model(r *Resolved) (*arch.Model, error) {
	m, parts := unchecked(r)
	m.MegatronFlags = architecture(r.Settings)
	paddedVocabulary(r, m)
	return finished(m, parts)
}

// unchecked is the model as it stands on the command line, whether or not there can be one, and what it cannot hold.
func unchecked(r *Resolved) (m *arch.Model, parts []string) {
	s, shape := r.Settings, &r.Shape
	m = &arch.Model{
		Kind:                     arch.GPT,
		Launcher:                 "pretrain_gpt.py",
		NumLayers:                shape.NumLayers,
		HiddenSize:               shape.HiddenSize,
		FFNHiddenSize:            shape.FFN,
		NumAttentionHeads:        shape.Heads,
		NumQueryGroups:           shape.QueryGroups,
		KVChannels:               shape.KVChannels,
		VocabSize:                shape.VocabSize,
		MakeVocabSizeDivisibleBy: s.Int("make_vocab_size_divisible_by"),
		MaxPositionEmbeddings:    r.Batch.MaxPositionEmbeddings,
		TiedEmbeddings:           !s.Bool("untie_embeddings_and_output_weights"),
		LearnedPositions:         shape.PositionEmbedding == "learned_absolute",
		LinearBias:               s.Bool("add_bias_linear"),
		QKVBias:                  shape.QKVBias,
		AttentionOutputGate:      s.Bool("attention_output_gate"),
		SoftmaxType:              strings.TrimPrefix(s.String("softmax_type"), "vanilla"),
		Activation:               activation(s),
		Normalization:            arch.Normalization(s.String("normalization")),
		QKNorm:                   qkNorm(r),
		MTPNumLayers:             shape.MTPLayers,
		MTPRepeatedLayer:         shape.MTPLayers > 0 && s.Bool("mtp_use_repeated_layer"),
	}
	if shape.NumExperts > 0 {
		m.MoE = moe(r)
	}
	if shape.Latent {
		m.MLA = &arch.MLA{QLoraRank: s.Int("q_lora_rank"), KVLoraRank: s.Int("kv_lora_rank"), QKHeadDim: s.Int("qk_head_dim"),
			QKPosEmbHeadDim: s.Int("qk_pos_emb_head_dim"), VHeadDim: s.Int("v_head_dim")}
	}
	if h := shape.Hybrid; h != nil {
		m.Kind, m.Launcher = arch.Hybrid, "pretrain_hybrid.py"
		m.HybridLayerPattern = strings.ReplaceAll(h.Main(), "+", "*")
		m.MTPHybridPattern = strings.ReplaceAll(h.MTP, "+", "*")
		if strings.Contains(h.Main()+h.MTP, "M") {
			m.Mamba = mamba(r)
		}
	}
	return m, variants(r, m)
}

// finished validates a model and puts what it lacks into the error.
func finished(m *arch.Model, parts []string) (*arch.Model, error) {
	check := *m
	if check.VocabSize == 0 {
		check.VocabSize = 1
	}
	if err := check.Validate(); err != nil {
		return nil, fmt.Errorf("megatron: %w", err)
	}
	var errs []error
	if len(parts) > 0 {
		errs = append(errs, &UnmodelledError{parts})
	}
	if m.VocabSize == 0 {
		errs = append(errs, ErrVocabulary)
	}
	return m, errors.Join(errs...)
}

// activation: argument_utils.py:315-330.
func activation(s *Settings) arch.Activation {
	switch {
	case s.Bool("swiglu"):
		return arch.SwiGLU
	case s.Bool("squared_relu"):
		return arch.SquaredReLU
	case s.Bool("quick_geglu"):
		return arch.QuickGEGLU
	}
	return arch.GELU
}

func qkNorm(r *Resolved) arch.QKNorm {
	switch s := r.Settings; {
	case s.Bool("qk_layernorm") && r.Shape.Latent:
		return arch.MLALatentNorm
	case s.Bool("qk_layernorm"):
		return arch.PerHeadQKNorm
	case s.Bool("qk_l2_norm") && !r.Shape.Latent:
		return arch.L2QKNorm
	}
	return arch.NoQKNorm
}

func moe(r *Resolved) *arch.MoE {
	s := r.Settings
	return &arch.MoE{
		NumExperts:          r.Shape.NumExperts,
		TopK:                s.Int("moe_router_topk"),
		FFNHiddenSize:       r.Shape.MoEFFN,
		SharedFFNSize:       s.Int("moe_shared_expert_intermediate_size"),
		SharedExpertGate:    s.Bool("moe_shared_expert_gate"),
		LatentSize:          s.Int("moe_latent_size"),
		LayerFreq:           arch.LayerFreq(s.String("moe_layer_freq")),
		RouterScoreFunction: s.String("moe_router_score_function"),
		RouterPreSoftmax:    s.Bool("moe_router_pre_softmax"),
		RouterNumGroups:     s.Int("moe_router_num_groups"),
		RouterGroupTopK:     s.Int("moe_router_group_topk"),
		RouterScalingFactor: s.Float("moe_router_topk_scaling_factor"),
		RouterExpertBias:    s.Bool("moe_router_enable_expert_bias"),
		LoadBalancing:       strings.Join(s.Strings("moe_router_load_balancing_type"), ","),
		AuxLossCoeff:        s.Float("moe_aux_loss_coeff"),
	}
}

// mamba: core/ssm/mamba_mixer.py:179-251: a convolution of 4 and, without --mamba-num-heads, twice the hidden size.
func mamba(r *Resolved) *arch.Mamba {
	s := r.Settings
	m := &arch.Mamba{NumHeads: s.Int("mamba_num_heads"), HeadDim: s.Int("mamba_head_dim"), StateDim: s.Int("mamba_state_dim"),
		NumGroups: s.Int("mamba_num_groups"), ConvKernel: 4}
	if s.IsNone("mamba_num_heads") {
		m.NumHeads = quotient(2*min(r.Shape.HiddenSize, maxDerived), m.HeadDim)
	}
	return m
}

// variants fills in what belongs to single kinds of attention and returns what cannot be held.
func variants(r *Resolved, m *arch.Model) (parts []string) {
	s := r.Settings
	switch v := s.String("experimental_attention_variant"); v {
	case "":
	case "gdn", "gdn2", "gated_delta_net":
		if v == "gated_delta_net" {
			v = "gdn"
		}
		freq, ok := every(s.Value("linear_attention_freq"), m.NumLayers, func(i, n int) bool { return (i+1)%n != 0 })
		if !ok {
			parts = append(parts, "--linear-attention-freq "+clipped(s.String("linear_attention_freq")))
		}
		m.LinearAttention = linearAttention(s, v, freq)
	default:
		parts = append(parts, "--experimental-attention-variant "+v)
	}
	if h := r.Shape.Hybrid; h != nil {
		if m.LinearAttention == nil && strings.Contains(h.Main()+h.MTP, "G") {
			m.LinearAttention = linearAttention(s, "gdn", 0)
		}
		if strings.Contains(h.Main()+h.MTP, "D") {
			parts = append(parts, "--hybrid-layer-pattern with sparse attention (D)")
			m.HybridLayerPattern = strings.ReplaceAll(m.HybridLayerPattern, "D", "*")
			m.MTPHybridPattern = strings.ReplaceAll(m.MTPHybridPattern, "D", "*")
		}
	}
	if window := s.Value("window_size").Ints(); len(window) > 0 && window[0] >= 0 {
		skip, ok := every(s.Value("window_attn_skip_freq"), m.NumLayers, func(i, n int) bool { return (i+1)%n != 0 })
		if !ok {
			parts = append(parts, "--window-attn-skip-freq "+clipped(s.String("window_attn_skip_freq")))
		}
		// A window of (127, 0) is 128 tokens: the token itself and 127 before it.
		m.SlidingWindow = &arch.SlidingWindow{Window: window[0] + 1, Flag: "--window-size " + s.String("window_size"), SkipFreq: skip}
	}
	for _, dest := range []string{"enable_mhc_connections", "heterogeneous_layers_config_path", "heterogeneous_layers_config_encoded_json"} {
		if s.IsGiven(dest) {
			parts = append(parts, OptionOf(dest, s.release).Name)
		}
	}
	return parts
}

func linearAttention(s *Settings, variant string, freq int) *arch.LinearAttention {
	return &arch.LinearAttention{Variant: variant, Freq: freq, ConvKernelDim: s.Int("linear_conv_kernel_dim"),
		KeyHeadDim: s.Int("linear_key_head_dim"), ValueHeadDim: s.Int("linear_value_head_dim"),
		NumKeyHeads: s.Int("linear_num_key_heads"), NumValueHeads: s.Int("linear_num_value_heads")}
}

// every reads a frequency as one number N: as written, or where a list of zeros and ones says the same for every layer. 0
// stands for None. It is false for a list that no N gives.
func every(v Value, layers int, marked func(i, n int) bool) (int, bool) {
	if v.IsNone() || !v.IsList() {
		return max(0, v.Int()), true
	}
	list := v.Ints()
	if len(list) != layers {
		return 0, false
	}
	for n := 1; n <= layers; n++ {
		same := true
		for i, e := range list {
			same = same && (e == 1) == marked(i, n) && (e == 0 || e == 1)
		}
		if same {
			return n, true
		}
	}
	return 0, !slices.ContainsFunc(list, func(e int) bool { return e != 1 })
}

// paddedVocabulary makes arch.Model.PaddedVocab agree with what the framework allocates: a padded size that was given is
// kept as it is, unless it is what the vocabulary is padded to anyway.
func paddedVocabulary(r *Resolved, m *arch.Model) {
	padded := r.Shape.PaddedVocab
	unit := product(m.MakeVocabSizeDivisibleBy, r.Degrees.TP)
	if unit > 0 && m.VocabSize > 0 && m.VocabSize <= padded && padded-m.VocabSize < unit && padded%unit == 0 {
		return
	}
	m.VocabSize, m.MakeVocabSizeDivisibleBy = padded, 1
}
