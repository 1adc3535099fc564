package config

import (
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	keys := []string{"gpu", "gpus", "grads", "headroom", "tp", "where", "wide"}
	got, err := ReadSettings("moeplan.yaml", strings.NewReader(
		"# ours\ngpu: h100\ngpus: 256\nheadroom: 12.5\nwide: true\ntp: [2, 4..8]\nwhere: 'tp<=4 && ep*etp<=8'\n"), keys)
	if err != nil {
		t.Fatal(err)
	}
	want := []Setting{{"gpu", "h100", "moeplan.yaml", 2}, {"gpus", "256", "moeplan.yaml", 3}, {"headroom", "12.5", "moeplan.yaml", 4},
		{"wide", "true", "moeplan.yaml", 5}, {"tp", "2,4..8", "moeplan.yaml", 6}, {"where", "tp<=4 && ep*etp<=8", "moeplan.yaml", 7}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
	if got, err := ReadSettings("moeplan.yaml", strings.NewReader("# nothing yet\n"), keys); err != nil || len(got) > 0 {
		t.Errorf("a file of comments gives %v, %v", got, err)
	}
}

func TestSettingsRefused(t *testing.T) {
	for _, c := range []struct{ text, want, reason string }{
		{"gpu: h100\n\ngrad: bf16\n", "moeplan.yaml:3: unknown key grad: did you mean grads?", "nearly right"},
		{"zebra: 1\n", "moeplan.yaml:1: unknown key zebra", "nothing near"},
		{"zebra: 1\ngpuss: 8\n", "moeplan.yaml:2: unknown key gpuss: did you mean", "all of them are named"},
		{"gpu:\n", "moeplan.yaml:1: gpu: no value", "no value"},
		{"gpu: []\n", "empty list", "an empty list"},
		{"gpu: {kind: h100}\n", "group of keys", "a group"},
		{"gpu: h100\ngpu: b200\n", "already defined", "twice"},
		{"- gpu\n", "moeplan.yaml:1", "a list"},
		{"gpu: &x h100\n", "aliases", "an anchor"},
		{"gpu: |\n  h100\n", "moeplan.yaml:1: gpu: a block of text", "read as its sign, |, it would be another value"},
		{"gpu: !!str h100\n", "moeplan.yaml:1: gpu: a tag", "read as the tag likewise"},
		{"gpu: [h100, !!str b200]\n", "moeplan.yaml:1: gpu: a tag", "in a list too"},
	} {
		_, err := ReadSettings("moeplan.yaml", strings.NewReader(c.text), []string{"gpu", "gpus", "grads"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.reason, err, c.want)
		}
	}
}

// FuzzReadSettings: no bytes panic or hang.
func FuzzReadSettings(f *testing.F) {
	f.Add("gpu: h100\n")
	f.Add("gpu: [a, {b: c}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = ReadSettings("fuzz.yaml", strings.NewReader(text), []string{"gpu"})
	})
}
