package topology

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// ids are the platform names that the design fixes (DESIGN.md section 4).
var ids = []string{"a100-40", "a100-80", "h100", "h100-pcie", "h800", "h20", "h200", "b200", "b300", "gb200",
	"gb200-nvl36", "gb300", "l40s", "mi300x", "mi355x"}

func TestEveryFigureHasASource(t *testing.T) {
	var got []string
	for _, p := range Platforms() {
		got = append(got, p.ID)
		for _, id := range Figures() {
			f := p.Figure(id)
			if f.Known && f.Source == "" {
				t.Errorf("%s: %s is %v without a source", p.ID, id, f.Value)
			}
			if f.Known && f.Value <= 0 {
				t.Errorf("%s: %s is %v", p.ID, id, f.Value)
			}
			if f.Source == "DERIVED" && f.Note == "" {
				t.Errorf("%s: %s is derived without a note that says from what", p.ID, id)
			}
			if len(f.Source) > 0 && len(f.Source) < 10 && SourceText(f.Source) == f.Source {
				t.Errorf("%s: %s: source %q is not in the legend", p.ID, id, f.Source)
			}
		}
		for _, id := range []FigureID{FigureDomain, FigureNode} {
			if f := p.Figure(id); !f.Known {
				t.Errorf("%s: %s is unknown", p.ID, id)
			}
		}
		if m := p.Measured; m.NCCL != nil && (m.NCCL.Source == "" || len(m.NCCL.Fits) == 0) ||
			m.GEMM != nil && m.GEMM.Source == "" || m.Attention != nil && len(m.Attention.Points) == 0 {
			t.Errorf("%s: a measured table is empty or has no source", p.ID)
		}
		for _, s := range p.Measured.Series {
			if s.Source == "" || len(s.Points) == 0 {
				t.Errorf("%s: series %s is empty or has no source", p.ID, s.Name)
			}
		}
	}
	slices.Sort(got)
	want := slices.Sorted(slices.Values(ids))
	if !slices.Equal(got, want) {
		t.Errorf("platforms %v, want %v", got, want)
	}
}

// TestFigures spot-checks data/platforms.json, one row a kind of figure.
func TestFigures(t *testing.T) {
	for _, tt := range []struct {
		platform string
		figure   FigureID
		want     string
		reason   string
	}{
		{"h100", FigureMemory, "79.65", "source SMI"},
		{"b200", FigureMemory, "179.06", "source SMI"},
		{"gb200", FigureMemory, "185.03", "source AIC"},
		{"mi300x", FigureMemory, "unknown", "null in the file: nobody states what the driver shows"},
		{"h100", FigureBF16, "989", "source AIC"},
		{"a100", FigureFP8, "unknown", "no FP8 tensor cores"},
		{"gb200", FigureDomain, "72", "source AIC"},
		{"gb200", FigureNode, "4", "tray = 4 GPUs + 2 Grace (notes)"},
		{"gb200-nvl36", FigureDomain, "36", "the only difference from NVL72"},
		{"gb300", FigureNode, "4", "NVRA: 18 trays x 4 GPUs"},
		{"h100", FigureNode, "8", "a box: node = domain"},
		{"h100-pcie", FigureDomain, "1", "no NVLink"},
		{"h100-pcie", FigureNVLink, "unknown", "no NVLink"},
		{"h200", FigureSM, "90", "Hopper"},
		{"l40s", FigureSM, "89", "Ada"},
		{"mi355x", FigureSM, "unknown", "not NVIDIA"},
		{"b300", FigureNIC, "800", "source AIC, with a note"},
		{"h20", FigureNIC, "unknown", "varies by vendor"},
	} {
		p, err := LookupPlatform(tt.platform)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Figure(tt.figure).String(); got != tt.want {
			t.Errorf("%s %s: %s, want %s (%s)", tt.platform, tt.figure, got, tt.want, tt.reason)
		}
	}
}

func TestLookupPlatform(t *testing.T) {
	for _, tt := range []struct{ name, want, reason string }{
		{"a100", "a100-80", "DESIGN.md: a100-80 (a100)"},
		{"H100", "h100", "case"},
		{"h100-sxm", "h100", "alias"},
		{"H100 SXM5", "h100", "alias with a blank"},
		{"GB200_NVL72", "gb200", "alias with an underscore"},
		{"mi300x", "mi300x", "ID"},
	} {
		if p, err := LookupPlatform(tt.name); err != nil || p.ID != tt.want {
			t.Errorf("%q: %v, %v; want %s (%s)", tt.name, p, err, tt.want, tt.reason)
		}
	}
	for _, id := range ids {
		if p, err := LookupPlatform(id); err != nil || p.ID != id {
			t.Errorf("%q: %v, %v", id, p, err)
		}
	}
	for _, a := range aliases {
		if fold(a.short) != a.short {
			t.Errorf("alias %q is not in folded form", a.short)
		}
		if p, err := LookupPlatform(a.short); err != nil || p.ID != a.id {
			t.Errorf("alias %q: %v, %v; want %s", a.short, p, err, a.id)
		}
	}
	for _, tt := range []struct{ name, nearest, reason string }{
		{"h10", "h100", "one letter missing"},
		{"gb20", "gb200", "one letter missing"},
		{"", "", "no name"},
		{strings.Repeat("x", 1000), "", "an absurd name"},
	} {
		_, err := LookupPlatform(tt.name)
		var unknown *UnknownPlatformError
		if !errors.As(err, &unknown) || len(unknown.Nearest) != 3 || tt.nearest != "" && unknown.Nearest[0] != tt.nearest {
			t.Errorf("%.20q: %v, want nearest %q (%s)", tt.name, err, tt.nearest, tt.reason)
		} else if len(err.Error()) > 200 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20q: message is not one short line: %s", tt.name, err)
		}
	}
}

func TestNeedNamesTheFlag(t *testing.T) {
	p, err := LookupPlatform("mi300x")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Need(FigureMemory)
	var unknown *UnknownFigureError
	if !errors.As(err, &unknown) || unknown.Flag != "--memory-gib" || !strings.Contains(err.Error(), "mi300x") {
		t.Errorf("Need: %v, want an error with the platform and --memory-gib", err)
	}
	if v, err := p.Need(FigureHBM); v != 5300 || err != nil {
		t.Errorf("Need: %v, %v; want 5300 (data/platforms.json, AMD3)", v, err)
	}
	if _, err := p.Need("height"); err == nil {
		t.Error("a figure that does not exist is given")
	}
	p, err = LookupPlatform("a100")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = p.Need(FigureFP8); err == nil || !strings.Contains(err.Error(), "give it with a file (--gpu FILE)") {
		t.Errorf("Need: %v, want the file, as no flag supplies the FP8 peak", err)
	}
}

func TestWith(t *testing.T) {
	h100, _ := LookupPlatform("h100")
	gb200, _ := LookupPlatform("gb200")
	for _, tt := range []struct {
		name         string
		base         *Platform
		overrides    []Override
		domain, node int // 0: an error is expected
		reason       string
	}{
		{"memory only", h100, []Override{{FigureMemory, 74.5}}, 8, 8, "nothing else changes"},
		{"box of four", h100, []Override{{FigureDomain, 4}}, 4, 4, "case loc-010: 4-GPU nodes; a box's node follows its domain"},
		{"box, node given", h100, []Override{{FigureNode, 8}, {FigureDomain, 2}}, 2, 8, "NVLink pairs in an 8-GPU box"},
		{"rack", gb200, []Override{{FigureDomain, 36}}, 36, 4, "a tray stays a tray"},
		{"zero", h100, []Override{{FigureDomain, 0}}, 0, 0, "must be positive"},
		{"fraction", h100, []Override{{FigureDomain, 7.5}}, 0, 0, "a count is whole"},
		{"negative", h100, []Override{{FigureMemory, -1}}, 0, 0, "must be positive"},
		{"no such figure", h100, []Override{{"height", 1}}, 0, 0, "unknown ID"},
	} {
		q, err := tt.base.With(tt.overrides...)
		if tt.domain == 0 {
			if err == nil {
				t.Errorf("%s: accepted (%s)", tt.name, tt.reason)
			}
			continue
		}
		if err != nil || q.Domain.Int() != tt.domain || q.Node.Int() != tt.node {
			t.Errorf("%s: domain %v, node %v, %v; want %d, %d (%s)", tt.name, q.Domain, q.Node, err, tt.domain, tt.node, tt.reason)
			continue
		}
		for i, o := range tt.overrides {
			if f := q.Figure(o.Figure); f.Value != o.Value || f.Source != overrideSource || q.Overridden[i] != o.Figure {
				t.Errorf("%s: %s is %v from %q, listed %v", tt.name, o.Figure, f, f.Source, q.Overridden)
			}
		}
		if h100.Domain.Value != 8 || h100.MemoryGiB.Value != 79.65 || len(h100.Overridden) != 0 {
			t.Fatalf("%s: With changed the catalogue", tt.name)
		}
	}
}

func TestPlatformDecodingIsStrict(t *testing.T) {
	for _, tt := range []struct {
		text string
		ok   bool
		why  string
	}{
		{`{"platforms":[{"id":"x","hbm_gbps":{"value":1,"source":"AIC"}}]}`, true, "valid"},
		{`{"platforms":[{"id":"x","hbm":{"value":1}}]}`, false, "unknown field"},
		{`{"platforms":[{"id":"x","hbm_gbps":{"val":1}}]}`, false, "unknown field inside a figure"},
		{`{"platforms":[{"id":"x"},{"id":"x"}]}`, false, "listed twice"},
		{`{"platforms":[{"id":"x","host_link":{"text":"PCIe"}}]}`, false, "unknown field inside a text"},
	} {
		if _, err := decodeCatalogue(strings.NewReader(tt.text)); (err == nil) != tt.ok {
			t.Errorf("%s: %v (%s)", tt.text, err, tt.why)
		}
	}
}
