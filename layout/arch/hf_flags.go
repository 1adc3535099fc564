package arch

import (
	"math"
	"strconv"
	"strings"
)

// flags writes an imported model as Megatron-LM flags, in the form and order of the catalogue. What a config.json does
// not say and Megatron-LM needs (grouped GEMM, router type, dropout 0) is as in the catalogue.
func (c *hfConfig) flags(m *Model) []string {
	var f []string
	add := func(words ...string) { f = append(f, words...) }
	put := func(flag string, n int) { f = append(f, flag, strconv.Itoa(n)) }
	when := func(on bool, words ...string) {
		if on {
			add(words...)
		}
	}
	if m.Kind == Hybrid {
		pattern := m.HybridLayerPattern
		for range m.MTPNumLayers {
			pattern += "/" + m.MTPHybridPattern
		}
		add("--hybrid-layer-pattern", pattern)
	} else {
		put("--num-layers", m.NumLayers)
	}
	put("--hidden-size", m.HiddenSize)
	put("--ffn-hidden-size", m.FFNHiddenSize)
	put("--num-attention-heads", m.NumAttentionHeads)
	put("--kv-channels", m.KVChannels)
	when(m.MLA == nil && m.NumQueryGroups != m.NumAttentionHeads, "--group-query-attention", "--num-query-groups", strconv.Itoa(m.NumQueryGroups))
	add("--normalization", string(m.Normalization))
	when(c.eps != "", "--norm-epsilon", c.eps)
	switch m.Activation {
	case SwiGLU:
		add("--swiglu")
	case QuickGEGLU:
		add("--quick-geglu")
	case SquaredReLU:
		add("--squared-relu")
	}
	when(!m.LinearBias, "--disable-bias-linear")
	when(m.QKVBias && !m.LinearBias, "--add-qkv-bias")
	when(!m.TiedEmbeddings, "--untie-embeddings-and-output-weights")
	switch m.QKNorm {
	case L2QKNorm:
		add("--qk-l2-norm")
	case NoQKNorm:
	default:
		add("--qk-layernorm")
	}
	if a := m.MLA; a != nil {
		add("--multi-latent-attention")
		when(a.QLoraRank > 0, "--q-lora-rank", strconv.Itoa(a.QLoraRank))
		put("--kv-lora-rank", a.KVLoraRank)
		put("--qk-head-dim", a.QKHeadDim)
		put("--qk-pos-emb-head-dim", a.QKPosEmbHeadDim)
		put("--v-head-dim", a.VHeadDim)
	}
	add(c.ropeFlags(m)...)
	add("--attention-dropout", "0.0", "--hidden-dropout", "0.0")
	put("--vocab-size", m.VocabSize)
	put("--make-vocab-size-divisible-by", m.MakeVocabSizeDivisibleBy)
	if e := m.MoE; e != nil {
		add(e.flags()...)
	}
	if m.MTPNumLayers > 0 && m.Kind == GPT {
		put("--mtp-num-layers", m.MTPNumLayers)
		add("--mtp-loss-scaling-factor", "0.1")
	}
	when(m.SoftmaxType != "", "--softmax-type", m.SoftmaxType)
	if w := m.SlidingWindow; w != nil {
		add(strings.Fields(w.Flag)...)
		when(w.SkipFreq > 0, "--window-attn-skip-freq", strconv.Itoa(w.SkipFreq))
	}
	if a := m.LinearAttention; a != nil {
		add("--experimental-attention-variant", a.Variant)
		put("--linear-attention-freq", a.Freq)
		put("--linear-conv-kernel-dim", a.ConvKernelDim)
		put("--linear-key-head-dim", a.KeyHeadDim)
		put("--linear-value-head-dim", a.ValueHeadDim)
		put("--linear-num-key-heads", a.NumKeyHeads)
		put("--linear-num-value-heads", a.NumValueHeads)
	}
	when(m.AttentionOutputGate, "--attention-output-gate")
	if a := m.Mamba; a != nil {
		put("--mamba-num-heads", a.NumHeads)
		put("--mamba-head-dim", a.HeadDim)
		put("--mamba-state-dim", a.StateDim)
		put("--mamba-num-groups", a.NumGroups)
	}
	return append(f, c.more...)
}

func (e *MoE) flags() []string {
	coeff := strconv.FormatFloat(e.AuxLossCoeff, 'g', -1, 64)
	if e.AuxLossCoeff == 0 {
		coeff = "0.0"
	}
	f := []string{
		"--num-experts", strconv.Itoa(e.NumExperts), "--moe-ffn-hidden-size", strconv.Itoa(e.FFNHiddenSize),
		"--moe-router-topk", strconv.Itoa(e.TopK), "--moe-router-load-balancing-type", e.LoadBalancing,
		"--moe-aux-loss-coeff", coeff, "--moe-router-score-function", e.RouterScoreFunction, "--moe-grouped-gemm", "--moe-router-dtype", "fp32",
	}
	when := func(on bool, words ...string) {
		if on {
			f = append(f, words...)
		}
	}
	when(e.LayerFreq != "1" && e.LayerFreq != "", "--moe-layer-freq", string(e.LayerFreq))
	when(e.SharedFFNSize > 0, "--moe-shared-expert-intermediate-size", strconv.Itoa(e.SharedFFNSize))
	when(e.SharedExpertGate, "--moe-shared-expert-gate")
	when(e.RouterPreSoftmax, "--moe-router-pre-softmax")
	when(e.RouterNumGroups > 0, "--moe-router-num-groups", strconv.Itoa(e.RouterNumGroups))
	when(e.RouterGroupTopK > 0, "--moe-router-group-topk", strconv.Itoa(e.RouterGroupTopK))
	when(e.RouterScalingFactor != 0, "--moe-router-topk-scaling-factor", number(e.RouterScalingFactor))
	when(e.RouterExpertBias, "--moe-router-enable-expert-bias", "--moe-router-bias-update-rate", "1e-3")
	when(e.LatentSize > 0, "--moe-latent-size", strconv.Itoa(e.LatentSize))
	return f
}

// number writes a float as a command line has it.
func number(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
