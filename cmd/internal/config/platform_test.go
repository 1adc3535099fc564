package config

import (
	"bytes"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/topology"
)

// Every platform of the catalogue written out and read back has the same figures.
func TestRoundTrip(t *testing.T) {
	for _, p := range topology.Platforms() {
		var out bytes.Buffer
		if err := WritePlatform(&out, p); err != nil {
			t.Fatal(err)
		}
		back, err := ReadPlatform(p.ID+".yaml", &out)
		if err != nil {
			t.Errorf("%s: %v", p.ID, err)
			continue
		}
		for _, e := range entries {
			a, b := p.Figure(e.id), back.Figure(e.id)
			if a.Known != b.Known || a.Value != b.Value {
				t.Errorf("%s: %s is %v, read back %v", p.ID, e.key, a, b)
			}
		}
		if back.ID != p.ID || back.Name != p.Name || back.Arch != p.Arch {
			t.Errorf("%s comes back as %s, %s, %s", p.ID, back.ID, back.Name, back.Arch)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, want, reason string }{
		{"id: x\nmemry: 80\nhbm_gbs: 1\n", "my.yaml:2: unknown key memry\nmy.yaml:3: unknown key hbm_gbs: did you mean hbm_gbps?", "all unknown keys at once, in their order"},
		{"id: x\nmemory: 80\n", "memory", "an unknown key is named, with its line"},
		{"id: x\nsm: 90\nsm: 100\n", "sm", "a repeated key"},
		{"id: x\nsm: ninety\n", "2", "no number; the line is given"},
		{"id: x\nhbm_gbps: -3\n", "hbm_gbps", "a negative figure"},
		{"id: x\nhbm_gbps: .nan\n", "hbm_gbps", "not a number"},
		{"id: x\ngpus_per_node: 7.5\n", "whole", "GPUs are counted"},
		{"id: Bad Name\n", "id", "a name with blanks"},
		{"", "id", "an empty file has no id"},
		{"- 1\n- 2\n", "", "a list is no platform"},
		{"id: " + strings.Repeat("x", maxFile) + "\n", "at most", "too large"},
		{"a: &a [*a,*a]\nid: x\n", "", "aliases do not blow up"},
	} {
		_, err := ReadPlatform("my.yaml", strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "my.yaml") {
			t.Errorf("%.30q: error %v, want one that starts with the file and holds %q (%s)", c.text, err, c.want, c.reason)
		}
	}
}

// FuzzReadPlatform: no bytes panic or hang.
func FuzzReadPlatform(f *testing.F) {
	f.Add("id: x\nsm: 90\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ReadPlatform("fuzz.yaml", strings.NewReader(text)); err == nil && p.ID == "" {
			t.Error("a platform without id")
		}
	})
}
