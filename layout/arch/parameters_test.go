package arch

import "testing"

// Differences between Parameters and the figures of the source file (data/models.json), each explained.
// Everything not listed here agrees exactly.
var fileConvention = map[string]struct {
	total  int64 // our total minus the file's figure
	active int64 // our active count minus the file's
	reason string
}{
	// Hybrids: the file's total is "computed_params_total_without_final_norm"; active leaves it out too.
	"nemotron-3-nano":  {2688, 2688, "file leaves out the final norm (hidden_size)"},
	"nemotron-3-super": {4096, 4096, "file leaves out the final norm (hidden_size)"},
	"nemotron-3-ultra": {8192, 8192, "file leaves out the final norm (hidden_size)"},
	"qwen3-next-80b-a3b": {2048 + 48*2048 + 36*128 + 12*2*256, 2048 + 48*2048 + 36*128 + 12*2*256,
		"file leaves out the final norm, 48 shared expert gates of hidden_size, the output norms of 36 GDN layers " +
			"and the query and key norms of 12 attention layers"},
	// gpt-oss: params_note "computed_params_active leaves biases out". It does hold the QKV bias; out are
	// projection bias (h), router bias (experts), top-4 experts' biases (2f+h each), sinks (heads), final norm.
	"gpt-oss-20b":  {0, 2880 + 24*(2880+32+4*(2*2880+2880)+64), "file's active count leaves biases, sinks and final norm out"},
	"gpt-oss-120b": {0, 2880 + 36*(2880+128+4*(2*2880+2880)+64), "file's active count leaves biases, sinks and final norm out"},
}

// fileTotalsWithoutFinalNorm are computed_params_total_without_final_norm of data/models.json, which the
// file marks "hybrid: total computed by formula, not checked against a recording".
var fileTotalsWithoutFinalNorm = map[string]int64{
	"qwen3-next-80b-a3b": 79674280192,
	"nemotron-3-nano":    31577934656,
	"nemotron-3-super":   120668683264,
	"nemotron-3-ultra":   549308960768,
}

func TestParametersAgreeWithCatalogue(t *testing.T) {
	used := 0
	for _, m := range All() {
		d, listed := fileConvention[m.ID]
		if listed {
			used++
		}
		total, active := m.Parameters()
		want, byFormula := fileTotalsWithoutFinalNorm[m.ID]
		if m.RecordedTotal != nil {
			want = *m.RecordedTotal
		} else if !byFormula {
			t.Errorf("%s: no total to compare with", m.ID)
			continue
		}
		if total-want != d.total {
			t.Errorf("%s: total %d, file %d, difference %d, want %d (%s)", m.ID, total, want, total-want, d.total, d.reason)
		}
		if m.RecordedActive == nil {
			t.Errorf("%s: no active count to compare with", m.ID)
			continue
		}
		if got := active - *m.RecordedActive; got != d.active {
			t.Errorf("%s: active %d, file %d, difference %d, want %d (%s)", m.ID, active, *m.RecordedActive, got, d.active, d.reason)
		}
		if m.MoE == nil && total != active {
			t.Errorf("%s: dense, but total %d and active %d differ", m.ID, total, active)
		}
	}
	if used != len(fileConvention) {
		t.Errorf("%d of %d explained differences belong to catalogue models", used, len(fileConvention))
	}
}

// TestParametersAgreeWithFramework compares with data/oracle/param_counts.json: element counts of models
// that NVIDIA/Megatron-LM@d98e8a64dd really built on one rank (TP=PP=EP=1, so one rank holds everything).
// VocabSize is the recorded padded_vocab. The number is the case's position in the file.
func TestParametersAgreeWithFramework(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		model        Model
		want         int64
	}{
		{"case 5", "Qwen3-8B in full: per-head norms, GQA", Model{NumLayers: 36, HiddenSize: 4096, FFNHiddenSize: 12288,
			NumAttentionHeads: 32, NumQueryGroups: 8, KVChannels: 128, VocabSize: 151936, QKNorm: PerHeadQKNorm,
			Activation: SwiGLU}, 8190735360},
		{"case 42", "biases on attention, router and experts", Model{NumLayers: 4, HiddenSize: 48, FFNHiddenSize: 96,
			NumAttentionHeads: 3, NumQueryGroups: 3, KVChannels: 16, VocabSize: 1024, LinearBias: true, Activation: SwiGLU,
			MoE: &MoE{NumExperts: 16, TopK: 4, FFNHiddenSize: 32}}, 441584},
		{"case 48", "attention output gate, tied, default ffn of 128", Model{NumLayers: 1, HiddenSize: 48, FFNHiddenSize: 128,
			NumAttentionHeads: 6, NumQueryGroups: 2, KVChannels: 8, VocabSize: 32000, TiedEmbeddings: true,
			AttentionOutputGate: true, Activation: SwiGLU}, 1563024},
		{"case 51", "LayerNorm, learned positions, tied", Model{NumLayers: 10, HiddenSize: 64, FFNHiddenSize: 264,
			NumAttentionHeads: 12, NumQueryGroups: 12, KVChannels: 32, VocabSize: 1024, TiedEmbeddings: true,
			LearnedPositions: true, MaxPositionEmbeddings: 32, Activation: SwiGLU, Normalization: LayerNorm}, 1560192},
		{"case 55", "QKV bias and per-head norms", Model{NumLayers: 16, HiddenSize: 96, FFNHiddenSize: 64,
			NumAttentionHeads: 6, NumQueryGroups: 3, KVChannels: 16, VocabSize: 1024, LearnedPositions: true,
			MaxPositionEmbeddings: 16, QKVBias: true, QKNorm: PerHeadQKNorm, Activation: SwiGLU}, 942176},
		{"case 66", "MLA without query LoRA or latent norms, biases, LayerNorm", Model{NumLayers: 12, HiddenSize: 128,
			FFNHiddenSize: 64, NumAttentionHeads: 8, VocabSize: 1024, LinearBias: true, Activation: SwiGLU, Normalization: LayerNorm,
			MLA: &MLA{KVLoraRank: 32, QKHeadDim: 16, QKPosEmbHeadDim: 4, VHeadDim: 16},
			MoE: &MoE{NumExperts: 32, TopK: 2, FFNHiddenSize: 48}}, 8079488},
		{"case 71", "shared expert", Model{NumLayers: 8, HiddenSize: 128, FFNHiddenSize: 128, NumAttentionHeads: 8,
			NumQueryGroups: 2, KVChannels: 16, VocabSize: 32000, Activation: SwiGLU, Normalization: LayerNorm,
			MoE: &MoE{NumExperts: 4, TopK: 2, FFNHiddenSize: 32, SharedFFNSize: 64}}, 9117952},
		{"case 74", "experts without gate (GELU), attention output gate", Model{NumLayers: 7, HiddenSize: 64, FFNHiddenSize: 200,
			NumAttentionHeads: 8, NumQueryGroups: 2, KVChannels: 8, VocabSize: 1024, AttentionOutputGate: true, Activation: GELU,
			MoE: &MoE{NumExperts: 2, TopK: 2, FFNHiddenSize: 64}}, 347968},
		{"case 84", "per-head norms under LayerNorm have biases too", Model{NumLayers: 6, HiddenSize: 256, FFNHiddenSize: 256,
			NumAttentionHeads: 8, NumQueryGroups: 2, KVChannels: 8, VocabSize: 1024, TiedEmbeddings: true, QKNorm: PerHeadQKNorm,
			Activation: SwiGLU, Normalization: LayerNorm}, 1694400},
		{"case 87", "MLA with query LoRA, dense and MoE layers, default ffn 4h", Model{NumLayers: 8, HiddenSize: 48,
			FFNHiddenSize: 192, NumAttentionHeads: 3, VocabSize: 32000, TiedEmbeddings: true, Activation: GELU, Normalization: LayerNorm,
			MLA: &MLA{QLoraRank: 16, KVLoraRank: 32, QKHeadDim: 8, QKPosEmbHeadDim: 4, VHeadDim: 12},
			MoE: &MoE{NumExperts: 8, TopK: 2, FFNHiddenSize: 48, LayerFreq: "([0]*4+[1]*4)"}}, 1814112},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.model.Kind = GPT
			if err := tt.model.Validate(); err != nil {
				t.Fatal(err)
			}
			if got, _ := tt.model.Parameters(); got != tt.want {
				t.Errorf("%d elements, recorded %d, difference %d (%s)", got, tt.want, got-tt.want, tt.reason)
			}
		})
	}
}

func TestPaddedVocab(t *testing.T) {
	for _, tt := range []struct {
		vocab, unit, tp, want int
		reason                string
	}{
		{32000, 128, 1, 32000, "already a multiple (param_counts cases 48, 71)"},
		{1000, 128, 1, 1024, "padded_vocab of param_counts case 42"},
		{997, 128, 1, 1024, "padded_vocab of param_counts case 55"},
		{32000, 128, 8, 32768, "unit 1024: 31.25 units rounded up (vocab_utils.py)"},
		{151936, 1187, 1, 151936, "Qwen's 1187 * 128"},
		{151936, 1187, 128, 151936, "1187 * 128 is exactly the vocabulary"},
		{129280, 1280, 2, 130560, "DeepSeek-V3: 50.5 units of 2560"},
		{50257, 0, 4, 50688, "0 is Megatron's default of 128: 99 units of 512"},
	} {
		m := Model{VocabSize: tt.vocab, MakeVocabSizeDivisibleBy: tt.unit}
		if got := m.PaddedVocab(tt.tp); got != tt.want {
			t.Errorf("vocabulary %d, unit %d, TP %d: %d, want %d (%s)", tt.vocab, tt.unit, tt.tp, got, tt.want, tt.reason)
		}
	}
}
