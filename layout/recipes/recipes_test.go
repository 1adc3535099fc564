package recipes

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology"
)

// TestNamesExist holds the names of the records against the catalogues that they point into.
func TestNamesExist(t *testing.T) {
	all := All()
	if len(all) != 926 {
		t.Errorf("%d records, the notes have 926", len(all))
	}
	for _, id := range platforms {
		if _, err := topology.LookupPlatform(id); err != nil {
			t.Errorf("platform %s: %v", id, err)
		}
	}
	for _, r := range all {
		if r.About != "" {
			if m, err := arch.Lookup(r.About); err != nil || m.ID != r.About {
				t.Errorf("%s: model %q is not an ID of the catalogue", r.ID, r.About)
			}
		}
		if len(r.ShortSource()) < 5 || len(r.ShortSource()) > 70 {
			t.Errorf("%s: short source %q of %q", r.ID, r.ShortSource(), r.Source)
		}
	}
}

// TestLayoutsParse: what the records say of a layout is in layout's text form, but for modules of models that the
// catalogue does not have and dispatchers whose backend is not stated.
func TestLayoutsParse(t *testing.T) {
	for _, r := range All() {
		if r.TP == 0 || r.Dispatcher == "flex" || strings.Contains(r.Recompute, "mhc") || strings.Contains(r.Recompute, "gdn_norm_out") {
			continue
		}
		text := r.Layout()
		if r.Split != "" { // its stages need the VPP that they have, which the VPP field may contradict (ranking-findings 7)
			text = strings.Join(slices.DeleteFunc(strings.Fields(text), func(w string) bool { return strings.HasPrefix(w, "vpp") }), " ")
		}
		if _, err := layout.Parse(text, layout.Defaults{World: max(1, r.GPUs)}); err != nil {
			t.Errorf("%s: %q: %v", r.ID, text, err)
		}
	}
}

// TestConsistency: the meshes of the records that the notes call inconsistent do not fit their number of GPUs, and
// those of all others do. ETP is 1 where it is not stated, as the notes count.
func TestConsistency(t *testing.T) {
	refused, accepted := 0, 0
	for _, r := range All() {
		if r.GPUs == 0 || r.TP == 0 || r.PP == 0 {
			continue
		}
		d := folding.Degrees{World: r.GPUs, TP: r.TP, CP: max(1, r.CP), PP: r.PP, EP: max(1, r.EP), ETP: max(1, r.ETP)}
		divides := d.World%(d.TP*d.CP*d.PP) == 0 && d.World%(d.ETP*d.EP*d.PP) == 0
		if divides == r.Inconsistent {
			t.Errorf("%s: %v on %d GPUs; the notes call it inconsistent: %v", r.ID, d, d.World, r.Inconsistent)
		}
		if divides {
			accepted++
		} else {
			refused++
		}
	}
	if refused != 9 || accepted < 890 {
		t.Errorf("%d records refused and %d accepted, want 9 and about 900", refused, accepted)
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		reason string
		q      Query
		want   int
	}{
		{"everything", Query{}, 926},
		{"a model on a GPU kind", Query{About: "deepseek-v3", GPU: "GB200"}, 23},
		{"and a number of GPUs", Query{About: "qwen3-235b-a22b", GPU: "h100", GPUs: 256, Text: "modelzoo"}, 0},
		{"words that all occur, case aside", Query{Text: "DeepSeek hybridep TP2 verification-card"}, 1},
		{"an ID", Query{Text: "r0010"}, 1},
	} {
		if got := len(Find(c.q)); got != c.want {
			t.Errorf("%s: %d records, want %d", c.reason, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	at := func(world, tp, pp, ep int, p layout.Precision) *layout.Layout {
		return &layout.Layout{Degrees: folding.Degrees{World: world, TP: tp, CP: 1, PP: pp, EP: ep, ETP: 1}, VPP: 1,
			MicroBatchSize: 1, SeqLength: 4096, Precision: p}
	}
	for _, c := range []struct {
		reason, model, gpu string
		l                  *layout.Layout
		gpus, tp, pp, ep   int
		measured           bool
	}{
		{"the same mesh, measured", "deepseek-v3", "gb300", at(256, 1, 2, 32, layout.MXFP8), 256, 1, 2, 32, true},
		{"the nearest mesh of that count", "deepseek-v3", "gb200", at(256, 1, 2, 64, layout.BF16), 256, 1, 4, 64, true},
		{"the nearest count before the nearest mesh", "deepseek-v3", "h100", at(2048, 1, 16, 16, layout.BF16), 1024, 1, 16, 64, false},
	} {
		r := Nearest(c.model, c.gpu, c.l)
		if r == nil || r.GPUs != c.gpus || r.TP != c.tp || r.PP != c.pp || r.EP != c.ep || c.measured != (r.Throughput() != "") {
			t.Errorf("%s: %+v", c.reason, r)
		}
	}
	if r := Nearest("ling-1t", "h100", at(256, 1, 8, 8, layout.BF16)); r != nil {
		t.Errorf("a model nobody published: %+v", r)
	}
	if r := Nearest("qwen3-235b-a22b", "a100-80", at(256, 1, 8, 8, layout.BF16)); r != nil {
		t.Errorf("a GPU nobody published: %+v", r)
	}
}

func TestDecodeRefuses(t *testing.T) {
	record := `{"id":"x","kind":"benchmark-recipe","task":"pretrain","model":"m","gpu":"h100","source":"s"}`
	for _, c := range []struct{ reason, text, want string }{
		{"a misspelt field", `{"records":[{"id":"x","gpuz":8}]}`, "gpuz"},
		{"an ID twice", `{"records":[` + record + `,` + record + `]}`, "listed twice"},
		{"no source", `{"records":[{"id":"x","kind":"benchmark-recipe","task":"t","model":"m","gpu":"h100"}]}`, "required"},
		{"a kind", `{"records":[` + strings.Replace(record, "benchmark-recipe", "rumour", 1) + `]}`, "rumour"},
		{"a precision", `{"records":[` + strings.Replace(record, `"id"`, `"precision":"fp9","id"`, 1) + `]}`, "fp9"},
		{"a dispatcher", `{"records":[` + strings.Replace(record, `"id"`, `"dispatcher":"mail","id"`, 1) + `]}`, "mail"},
		{"a size", `{"records":[` + strings.Replace(record, `"id"`, `"tp":-1,"id"`, 1) + `]}`, "negative"},
	} {
		if _, err := decode(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.reason, err, c.want)
		}
	}
	if all, err := decode(strings.NewReader(`{"records":[` + record + `]}`)); err != nil || len(all) != 1 {
		t.Errorf("a good record: %v", err)
	}
}

// TestSlimmed: one record a line, so that a change shows as one.
func TestSlimmed(t *testing.T) {
	text, err := os.ReadFile("recipes.json")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n  {\"id\":"); n != len(All()) {
		t.Errorf("%d lines with a record, %d records", n, len(All()))
	}
}
