package config

import (
	"bytes"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout/arch"
)

// Every model of the catalogue written out and read back is the same model.
func TestModelsComeBack(t *testing.T) {
	for _, m := range arch.All() {
		var out bytes.Buffer
		if err := WriteModel(&out, m, "a comment: with # marks"); err != nil {
			t.Fatal(err)
		}
		back, err := ReadModel(m.ID+".yaml", bytes.NewReader(out.Bytes()))
		if err != nil {
			t.Errorf("%s: %v\n%s", m.ID, err, &out)
			continue
		}
		if a, b := shortJSON(*m), shortJSON(*back); a != b {
			t.Errorf("%s comes back as\n%s\nwant\n%s", m.ID, b, a)
		}
		total, active := m.Parameters()
		if gotTotal, gotActive := back.Parameters(); gotTotal != total || gotActive != active {
			t.Errorf("%s: %d and %d parameters, want %d and %d", m.ID, gotTotal, gotActive, total, active)
		}
	}
}

// The shape may be left to the flags.
func TestModelOfFlagsAlone(t *testing.T) {
	want, err := arch.Lookup("qwen3-30b-a3b")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString("id: mine\n")
	writeFlags(&out, "megatron_flags", want.MegatronFlags)
	got, err := ReadModel("mine.yaml", strings.NewReader(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	total, active := want.Parameters()
	if gotTotal, gotActive := got.Parameters(); gotTotal != total || gotActive != active {
		t.Errorf("%d and %d parameters, want %d and %d", gotTotal, gotActive, total, active)
	}
}

func TestModelsRefused(t *testing.T) {
	m, err := arch.Lookup("qwen3-30b-a3b")
	if err != nil {
		t.Fatal(err)
	}
	var good bytes.Buffer
	if err := WriteModel(&good, m); err != nil {
		t.Fatal(err)
	}
	change := func(from, to string) string {
		text := strings.Replace(good.String(), from, to, 1)
		if text == good.String() {
			t.Fatalf("%q is not in the file", from)
		}
		return text
	}
	for _, c := range []struct{ text, want, reason string }{
		{change("num_layers:", "num_layer:"), "my.yaml:5: unknown key num_layer: did you mean num_layers?", "a key that is nearly right"},
		{change("  topk:", "  top_k:"), "unknown key moe.top_k: did you mean topk?", "a key inside a group"},
		{change("num_layers: 48", "num_layers: 50"), "num_layers: 50, but megatron_flags say 48", "a contradiction, both sides named"},
		{change("num_layers: 48", "num_layers: many"), "my.yaml:5: num_layers: string where a whole number is wanted", "no number"},
		{change("num_experts: 128", "num_experts: -1"), "moe", "a negative size"},
		{change("  num_experts: 128", "  num_experts: 128\n  num_experts: 64"), `mapping key "num_experts" already defined`, "a key twice"},
		{change("id: qwen3-30b-a3b", "id: My Model"), "my.yaml:1: id: \"My Model\" is no name", "a name with blanks"},
		{"id: x\n", "megatron_flags: missing", "nothing to launch it with"},
		{"id: x\nmegatron_flags: [--num-layers, many]\n", "megatron_flags", "flags that do not parse"},
		{"", "id", "an empty file"},
		{"- 1\n", "list of keys", "a list"},
		{"id: &a x\nhf_id: *a\n", "aliases", "an alias"},
		{"id: x\n---\nid: y\n", "2 documents", "two files in one"},
		{"id: [\n", "my.yaml", "no YAML"},
		{strings.Repeat("x", maxFile+1), "at most", "too large"},
		{"id: " + strings.Repeat("[", 1000), "nested more than", "what a parser takes minutes over"},
	} {
		_, err := ReadModel("my.yaml", strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "my.yaml") {
			t.Errorf("%s: error %v, want one that starts with the file and holds %q", c.reason, err, c.want)
		}
	}
}

// FuzzReadModel: no bytes panic or hang, and what is accepted is a model.
func FuzzReadModel(f *testing.F) {
	f.Add("id: x\nmegatron_flags: [--num-layers, \"2\"]\n")
	f.Add("id: x\nmoe:\n  topk: 2\n")
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := ReadModel("fuzz.yaml", strings.NewReader(text)); err == nil && m.Validate() != nil {
			t.Error("a model that does not validate")
		}
	})
}
