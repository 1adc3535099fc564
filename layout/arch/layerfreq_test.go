package arch

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLayerFreqExpand: the expected patterns follow from Python's own semantics of the same text.
func TestLayerFreqExpand(t *testing.T) {
	for _, tt := range []struct {
		freq   LayerFreq
		layers int
		want   string // one 0 or 1 a layer; "" is an error
		reason string
	}{
		{"", 3, "111", "Megatron's default is 1"},
		{"1", 3, "111", "every layer"},
		{"2", 5, "10101", "i % 2 == 0, from layer 0"},
		{"7", 5, "10000", "longer than the model: layer 0 only"},
		{"([0]*3+[1]*2)", 5, "00011", "DeepSeek-V3's form"},
		{"([0,1]*2)", 4, "0101", "Llama 4 Maverick's form"},
		{"[0]+[1]*2*2", 5, "01111", "products bind tighter than sums"},
		{"([0]+[1])*2", 4, "0101", "parentheses"},
		{"2*[1,0,]", 4, "1010", "integer first, trailing comma"},
		{" [ 1 , 0 ] ", 2, "10", "blanks"},
		{"1+1", 4, "1010", "an integer expression, not written by anyone, but harmless"},
		{"[0]*0+[1]", 1, "1", "an empty repetition"},
		{"[1]*00", 0, "", "a zero may be written with two"},
		{"[1]*03", 3, "", "other leading zeros are a syntax error in Python"},
		{"[]", 0, "", "an empty list is a pattern of no layers"},
		{"[0,1]", 3, "", "two entries for three layers"},
		{"[0,2]", 2, "", "entries other than 0 and 1"},
		{"0", 2, "", "i % 0 fails in Python"},
		{"-1", 2, "", "no negative numbers"},
		{"[1]*99999", 2, "", "integers are bounded"},
		{"[1]*16000*16000", 2, "", "products are bounded"},
		{"[1]+1", 2, "", "a type error in Python too"},
		{"[1]*[1]", 1, "", "a type error in Python too"},
		{"[[1]]", 1, "", "nested lists"},
		{"(1", 1, "", "unbalanced"},
		{"[1", 1, "", "unbalanced"},
		{"[1]]", 1, "", "trailing text"},
		{"__import__('os')", 1, "", "nothing is executed"},
		{LayerFreq(strings.Repeat("(", 5000)), 1, "", "length is bounded"},
		{LayerFreq(strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200)), 1, "", "depth is bounded"},
	} {
		got, err := tt.freq.Expand(tt.layers)
		var b strings.Builder
		for _, moe := range got {
			b.WriteByte("01"[map[bool]int{true: 1}[moe]])
		}
		if wantErr := tt.want == "" && tt.layers > 0; (err != nil) != wantErr || b.String() != tt.want {
			t.Errorf("%.40q over %d layers: %q, %v; want %q (%s)", tt.freq, tt.layers, b.String(), err, tt.want, tt.reason)
		}
	}
}

// TestLayerFreqNeverExplodes feeds texts of the grammar's own characters, correct or not.
func TestLayerFreqNeverExplodes(t *testing.T) { rapid.Check(t, layerFreqNeverExplodes) }

func FuzzLayerFreq(f *testing.F) { f.Fuzz(rapid.MakeFuzz(layerFreqNeverExplodes)) }

func layerFreqNeverExplodes(t *rapid.T) {
	piece := rapid.SampledFrom([]string{"[", "]", "(", ")", "*", "+", ",", "0", "1", "16384", "9", " ", "[0]", "[1]*61", "x", "\x00"})
	text := strings.Join(rapid.SliceOfN(piece, 0, 200).Draw(t, "text"), "")
	list, every, err := LayerFreq(text).Pattern()
	switch {
	case len(list) > MaxLayers:
		t.Fatalf("%d entries", len(list))
	case err == nil && list == nil && every < 1 && !strings.Contains(text, "["):
		t.Fatalf("%q: neither a list nor an integer of at least 1", text)
	case err != nil && strings.ContainsAny(err.Error(), "\n\x00"):
		t.Fatalf("%q: message is not one printable line: %q", text, err)
	}
	if json.Valid([]byte(text)) {
		var f LayerFreq
		if e := json.Unmarshal([]byte(text), &f); e == nil && err != nil {
			t.Fatalf("%q: JSON accepts what Pattern refuses: %v", text, err)
		}
	}
}

func TestLayerFreqJSON(t *testing.T) {
	for _, tt := range []struct{ in, out, reason string }{
		{`1`, `1`, "a number stays a number"},
		{`"2"`, `2`, "a quoted integer is the same value"},
		{`"([0]*3+[1]*58)"`, `"([0]*3+[1]*58)"`, "an expression stays text, as written"},
		{`null`, `1`, "absent is Megatron's default"},
		{`"[2]"`, ``, "what Pattern refuses"},
		{`1.5`, ``, "not an integer"},
		{`{}`, ``, "not a number or a string"},
	} {
		var f LayerFreq
		err := json.Unmarshal([]byte(tt.in), &f)
		if tt.out == "" {
			if err == nil {
				t.Errorf("%s: accepted (%s)", tt.in, tt.reason)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v (%s)", tt.in, err, tt.reason)
			continue
		}
		if out, err := json.Marshal(f); err != nil || string(out) != tt.out {
			t.Errorf("%s: written as %s, %v; want %s (%s)", tt.in, out, err, tt.out, tt.reason)
		}
	}
}
