package megatron

import "strconv"

// shape: arguments.py:1322-1338, 1604-1660, argument_utils.py:315-336.
func (r *Resolved) shape() {
	s, m := r.Settings, &r.Shape
	m.NumLayers = s.IntOr("num_layers", s.Int("encoder_num_layers"))
	m.HiddenSize = s.Int("hidden_size")
	m.Heads = s.Int("num_attention_heads")
	m.QueryGroups = m.Heads
	if s.Bool("group_query_attention") {
		m.QueryGroups = s.Int("num_query_groups")
	}
	m.KVChannels = s.Int("kv_channels")
	if s.IsNone("kv_channels") && m.Heads > 0 && m.HiddenSize%m.Heads == 0 {
		m.KVChannels = m.HiddenSize / m.Heads
	}
	m.FFN = s.Int("ffn_hidden_size")
	if s.IsNone("ffn_hidden_size") {
		m.FFN = defaultFFN(m.HiddenSize, s.Bool("swiglu"))
	}
	m.NumExperts = s.Int("num_experts")
	m.MoEFFN = s.Int("moe_ffn_hidden_size")
	if m.NumExperts > 0 && s.IsNone("moe_ffn_hidden_size") {
		m.MoEFFN = m.FFN
		r.change("--moe-ffn-hidden-size", "not given", strconv.Itoa(m.FFN), "it follows --ffn-hidden-size", "megatron/training/arguments.py:1651")
	}
	m.MTPLayers, m.MTPGiven = s.Int("mtp_num_layers"), !s.IsNone("mtp_num_layers")
	m.PositionEmbedding = s.String("position_embedding_type")
	if s.Bool("use_rotary_position_embeddings") {
		m.PositionEmbedding = "rope"
	}
	m.QKVBias = s.Bool("add_qkv_bias") || s.Bool("add_bias_linear")
	m.Latent = s.Bool("multi_latent_attention")
	r.hybrid()
}

// maxDerived bounds sizes from which others are derived, far beyond any real one.
const maxDerived = 1 << 40

// defaultFFN is 4h, or two thirds of that rounded down to a multiple of 64 with --swiglu (quick_geglu and squared_relu take
// 4h).
func defaultFFN(hidden int, swiglu bool) int {
	switch {
	case hidden < 1 || hidden > maxDerived:
		return 0
	case swiglu:
		return 4 * hidden * 2 / 3 / 64 * 64
	}
	return 4 * hidden
}

// vocabulary: core/tokenizers/utils/build_tokenizer.py:133-152. The padded size is taken as given; else --vocab-size is
// padded to a multiple of --make-vocab-size-divisible-by times TP. Before 0.18.2 NullTokenizer has one entry more than
// --vocab-size says, its end of document. --no-pad-vocab-size alone leaves the size unset.
func (r *Resolved) vocabulary() {
	s, m := r.Settings, &r.Shape
	m.VocabSize = s.Int("vocab_size")
	if m.VocabSize > 0 && s.String("tokenizer_type") == "NullTokenizer" && !s.release.From("0.18.2") {
		m.VocabSize++
		r.change("--vocab-size", strconv.Itoa(m.VocabSize-1), strconv.Itoa(m.VocabSize), "the NullTokenizer of this release adds its end of document",
			"megatron/training/tokenizer/tokenizer.py (core_v0.17.1)")
	}
	if !s.IsNone("padded_vocab_size") {
		m.PaddedVocab = max(0, s.Int("padded_vocab_size"))
		return
	}
	if m.VocabSize < 1 || m.VocabSize > maxDerived || s.Has("pad_vocab_size") && !s.Bool("pad_vocab_size") {
		return
	}
	if unit := product(s.Int("make_vocab_size_divisible_by"), r.Degrees.TP); unit > 0 {
		m.PaddedVocab = (m.VocabSize + unit - 1) / unit * unit
	}
}
