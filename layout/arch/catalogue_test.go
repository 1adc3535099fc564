package arch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCatalogueIsComplete(t *testing.T) {
	models := All()
	if len(models) != 30 {
		t.Errorf("%d models, want 30 (data/models.json)", len(models))
	}
	for _, m := range models {
		if len(m.Sources) == 0 {
			t.Errorf("%s: no sources", m.ID)
		}
		if m.ID != strings.ToLower(m.ID) || m.HFID == "" || m.Architecture == "" {
			t.Errorf("%s: ID must be lower case, hf_id %q and architecture %q given", m.ID, m.HFID, m.Architecture)
		}
		if len(m.MegatronFlags) == 0 || (m.Launcher != "pretrain_gpt.py" && m.Launcher != "pretrain_hybrid.py") {
			t.Errorf("%s: %d flags for launcher %q", m.ID, len(m.MegatronFlags), m.Launcher)
		}
		if (m.Kind == Hybrid) != (m.Launcher == "pretrain_hybrid.py") {
			t.Errorf("%s: kind %s with launcher %s", m.ID, m.Kind, m.Launcher)
		}
		for _, name := range names(m) {
			if got, err := Lookup(name); err != nil || got != m {
				t.Errorf("%s: its name %q finds %v, %v", m.ID, name, got, err)
			}
		}
	}
	if models[0] = nil; All()[0] == nil {
		t.Error("All hands out its own slice")
	}
}

func TestCatalogueDecodingIsStrict(t *testing.T) {
	valid := `{"header":{},"models":[{"id":"m","kind":"gpt","num_layers":1,"hidden_size":8,"ffn_hidden_size":8,` +
		`"num_attention_heads":1,"num_query_groups":1,"kv_channels":8,"vocab_size":8,"megatron_flags":[]}]}`
	for _, tt := range []struct{ name, text, reason string }{
		{"valid", valid, ""},
		{"unknown field", strings.Replace(valid, `"num_layers"`, `"layers"`, 1), "a misspelt field must not become 0"},
		{"unknown nested field", strings.Replace(valid, `"vocab_size":8`, `"vocab_size":8,"moe":{"experts":4}`, 1), "also in sub-objects"},
		{"impossible", strings.Replace(valid, `"hidden_size":8`, `"hidden_size":0`, 1), "Validate refuses it"},
		{"overflow", strings.Replace(valid, `"vocab_size":8`, `"vocab_size":99999999999`, 1), "Validate bounds sizes"},
	} {
		_, err := decodeCatalogue(strings.NewReader(tt.text))
		if (err == nil) != (tt.reason == "") {
			t.Errorf("%s: %v (%s)", tt.name, err, tt.reason)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, tt := range []struct{ name, want, reason string }{
		{"qwen3-235b", "qwen3-235b-a22b", "beginning of the ID"},
		{"Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b", "Hugging Face name"},
		{"Qwen3-235B-A22B", "qwen3-235b-a22b", "without organisation"},
		{"qwen3 235b a22b", "qwen3-235b-a22b", "blanks as separators"},
		{"QWEN3_235B", "qwen3-235b-a22b", "case and underscores"},
		{"qwen3-30b", "qwen3-30b-a3b", "beginning of the ID"},
		{"qwen3-next", "qwen3-next-80b-a3b", "beginning of the ID"},
		{"qwen3-coder", "qwen3-coder-480b-a35b", "beginning of the ID"},
		{"a22b", "qwen3-235b-a22b", "a part of the ID"},
		{"dsv3", "deepseek-v3", "common short form"},
		{"ds-v3", "deepseek-v3", "the same, with separator"},
		{"deepseekv3", "deepseek-v3", "no separator"},
		{"DeepSeek-V3", "deepseek-v3", "Hugging Face spelling"},
		{"deepseek-v2", "deepseek-v2", "a whole name beats being the beginning of deepseek-v2-lite"},
		{"dsv2lite", "deepseek-v2-lite", "common short form"},
		{"llama3-70b", "llama3.1-70b", "Llama 3 has 3.1's shapes (models.json notes)"},
		{"llama-3.1-70b", "llama3.1-70b", "separator before the version"},
		{"meta-llama/Llama-3.1-70B", "llama3.1-70b", "today's Hugging Face name"},
		{"Meta-Llama-3.1-405B", "llama3.1-405b", "the older Hugging Face name"},
		{"mixtral-8x7b", "mixtral-8x7b", "ID"},
		{"gptoss120b", "gpt-oss-120b", "no separators"},
		{"kimi", "kimi-k2", "only one Kimi"},
		{"k2", "kimi-k2", "a part of the ID"},
		{"scout", "llama4-scout", "a part of the Hugging Face name"},
		{"nemotron-super", "nemotron-3-super", "alias without the generation"},
		{"glm4.5", "glm-4.5", "a whole name beats being the beginning of glm-4.5-air"},
		{"glm-4.5-air", "glm-4.5-air", "ID"},
		{"moonlight", "moonlight-16b-a3b", "beginning"},
		{"olmoe", "olmoe-1b-7b", "beginning"},
	} {
		if m, err := Lookup(tt.name); err != nil || m.ID != tt.want {
			t.Errorf("%q: %v, %v; want %s (%s)", tt.name, m, err, tt.want, tt.reason)
		}
	}
}

func TestLookupRefuses(t *testing.T) {
	for _, tt := range []struct {
		name      string
		ambiguous []string // exact candidates; nil: unknown
		nearest   string   // must be the first of the nearest names
		reason    string
	}{
		{"mixtral", []string{"mixtral-8x7b", "mixtral-8x22b"}, "", "two sizes"},
		{"gpt-oss", []string{"gpt-oss-20b", "gpt-oss-120b"}, "", "two sizes"},
		{"llama3", []string{"llama3.1-8b", "llama3.1-70b", "llama3.1-405b"}, "", "three sizes"},
		{"nemotron", []string{"nemotron-3-nano", "nemotron-3-super", "nemotron-3-ultra"}, "", "three sizes"},
		{"minimax-m2", nil, "minimax-m2.5", "M2 is another model (models.json unverified)"},
		{"qwen3-23", nil, "qwen3-235b-a22b", "a short form never ends inside a number, but what it begins is the nearest"},
		{"deepsek-v3", nil, "deepseek-v3", "one letter missing"},
		{"qwen3-235b-a22b-instruct-2507", nil, "qwen3-235b-a22b", "a variant that the catalogue does not know"},
		{"", nil, "", "no name"},
		{"---", nil, "", "nothing but separators"},
		{"x", nil, "", "a single letter"},
	} {
		_, err := Lookup(tt.name)
		var unknown *UnknownModelError
		var ambiguous *AmbiguousModelError
		switch {
		case tt.ambiguous != nil:
			if !errors.As(err, &ambiguous) || !slices.Equal(ambiguous.Candidates, tt.ambiguous) {
				t.Errorf("%q: %v, want ambiguous among %v (%s)", tt.name, err, tt.ambiguous, tt.reason)
			}
		case !errors.As(err, &unknown) || unknown.Name != tt.name || len(unknown.Nearest) != maxNearest:
			t.Errorf("%q: %v, want unknown with %d nearest names (%s)", tt.name, err, maxNearest, tt.reason)
		case tt.nearest != "" && unknown.Nearest[0] != tt.nearest:
			t.Errorf("%q: nearest %v, want %s first (%s)", tt.name, unknown.Nearest, tt.nearest, tt.reason)
		}
	}
}

// TestLookupNeverPanics: any text gives a model or an error of one line.
func TestLookupNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[qdl3v\-_. /]{0,40}`)).Draw(t, "name")
		if m, err := Lookup(name); (m == nil) == (err == nil) || err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Fatalf("%q: %v, %v", name, m, err)
		}
	})
}
