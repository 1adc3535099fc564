package arch

import "testing"

// kinds writes one letter a layer: G full attention, A multi-latent, D gated delta net, M Mamba, nothing for
// no mixer; then d or m for the MLP; w when windowed.
func kinds(layers []Layer) (s string) {
	for _, l := range layers {
		s += []string{"", "G", "A", "D", "M"}[l.Mixer] + []string{"", "d", "m"}[l.Feedforward]
		if l.Windowed {
			s += "w"
		}
		s += " "
	}
	return s
}

func TestLayers(t *testing.T) {
	small := func(id string, n int) *Model {
		m, err := Lookup(id)
		if err != nil {
			t.Fatal(err)
		}
		c := *m
		if n > 0 {
			c.NumLayers = n
		}
		return &c
	}
	dense := small("qwen3-8b", 3)
	dsv3 := small("deepseek-v3", 5)
	moe := *dsv3.MoE
	moe.LayerFreq = "([0]*3+[1]*2)"
	dsv3.MoE = &moe
	lastDense := *dsv3
	moe2 := moe
	moe2.LayerFreq = "([1]*4+[0])"
	lastDense.MoE = &moe2
	nemotron := small("nemotron-3-super", 0)
	nemotron.HybridLayerPattern, nemotron.NumLayers = "MEM*E-", 6
	mixed := small("deepseek-v3", 5)
	for _, tt := range []struct {
		name         string
		model        *Model
		want         string
		wantMTP      string
		wantMTPAlone string
		refused      bool
		reason       string
	}{
		{"dense", dense, "Gd Gd Gd ", "", "", false, "no experts, no MTP"},
		{"first k dense", dsv3, "Ad Ad Ad Am Am ", "Am ", "Am ", false, "MTP follows the last decoder layer (gpt_builders.py:56)"},
		{"last dense", &lastDense, "Am Am Am Am Ad ", "Ad ", "Am ", false, "alone in its chunk the MTP layer is MoE (rules-findings correction 17)"},
		{"gdn", small("qwen3-next", 5), "Dm Dm Dm Gm Dm ", "Dm ", "Dm ", false, "full attention iff (i+1) % 4 == 0 (models.json note)"},
		{"window", small("gpt-oss-20b", 4), "Gmw Gm Gmw Gm ", "", "", false, "even layers slide, odd ones are full (models.json pattern)"},
		{"hybrid", nemotron, "M m M G m d ", "G m ", "G m ", false, "one letter a layer; MTP pattern *E"},
		{"wrong list", mixed, "", "", "", true, "61 entries for 5 layers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.model.Validate(); (err != nil) != tt.refused {
				t.Fatalf("Validate: %v (%s)", err, tt.reason)
			}
			if got := kinds(tt.model.Layers()); got != tt.want {
				t.Errorf("layers %q, want %q (%s)", got, tt.want, tt.reason)
			}
			if got := kinds(tt.model.MTPLayers()); got != tt.wantMTP {
				t.Errorf("MTP layers %q, want %q (%s)", got, tt.wantMTP, tt.reason)
			}
			if got := kinds(tt.model.MTPLayersAlone()); got != tt.wantMTPAlone {
				t.Errorf("MTP layers alone %q, want %q (%s)", got, tt.wantMTPAlone, tt.reason)
			}
		})
	}
}

// TestLayerCounts compares with the counts that the models' own notes and patterns state.
func TestLayerCounts(t *testing.T) {
	for _, tt := range []struct {
		id                         string
		attention, gdn, mamba, moe int
		reason                     string
	}{
		{"deepseek-v3", 61, 0, 0, 58, "3 leading dense layers"},
		{"glm-4.5-air", 46, 0, 0, 45, "1 leading dense layer"},
		{"llama4-maverick", 48, 0, 0, 24, "every other layer is MoE"},
		{"qwen3-next-80b-a3b", 12, 36, 0, 48, "every fourth layer is full attention"},
		{"nemotron-3-nano", 6, 0, 23, 23, "letters of the pattern in models.json, counted: 6 *, 23 M, 23 E"},
	} {
		m, err := Lookup(tt.id)
		if err != nil {
			t.Fatal(err)
		}
		var attention, gdn, mamba, moe int
		for _, l := range m.Layers() {
			switch l.Mixer {
			case GQA, MLAttention:
				attention++
			case GatedDeltaNet:
				gdn++
			case MambaMixer:
				mamba++
			}
			if l.Feedforward == MoEMLP {
				moe++
			}
		}
		if attention != tt.attention || gdn != tt.gdn || mamba != tt.mamba || moe != tt.moe {
			t.Errorf("%s: %d attention, %d GDN, %d Mamba, %d MoE layers; want %d, %d, %d, %d (%s)", tt.id,
				attention, gdn, mamba, moe, tt.attention, tt.gdn, tt.mamba, tt.moe, tt.reason)
		}
	}
}
