package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/moeplan/moeplan/layout/evidence"
)

// Evidence writes what a run shows under its contract, and against its base if there is one.
func Evidence(w io.Writer, run, base *evidence.Assessment, ab *evidence.Comparison, sources bool) error {
	p := printerTo(w)
	p.prose("RUN", fmt.Sprintf("%s, %s", run.Log, run.Candidate))
	for _, r := range run.Reasons {
		p.prose("", r)
	}
	p.measured(run, base)
	if len(run.Features) > 0 {
		p.blank()
		p.prose("FEATURES", "what the contract asks for, and what shows that it ran")
		t := Table{Head: []string{"feature", "evidence", "by"}, Text: []int{0, 1, 2}}
		for _, f := range run.Features {
			by := f.By
			if f.Line > 0 {
				by = fmt.Sprintf("line %d: %s", f.Line, by)
			}
			t.Add(f.Name, string(f.State), withSource(by, f.Source, sources))
		}
		if err := t.Write(w, Text); err != nil {
			return err
		}
	}
	p.blank()
	p.prose("CHECKPOINT", run.Checkpoint.Text)
	for _, n := range run.Notes {
		p.prose("NOTE", n)
	}
	for _, s := range run.Problems {
		p.prose("REJECTED", s)
	}
	for _, s := range run.Gaps {
		p.prose("MISSING", s)
	}
	if ab != nil {
		p.comparison(ab, base)
	}
	if sources {
		p.prose("SOURCES", evidence.StrengthSource, evidence.NoiseSource, evidence.LossSource)
	}
	p.prose("VERDICT", judgementText(run))
	return nil
}

// measured writes the figures of a run, with those of its base beside.
func (p printer) measured(run, base *evidence.Assessment) {
	rows := []struct {
		name string
		of   func(*evidence.Assessment) string
	}{
		{"steady window", windowText},
		{"step, median", func(a *evidence.Assessment) string { return figure(a.Time.Median, "%.3f s") }},
		{"  half of them", func(a *evidence.Assessment) string {
			if !a.Time.Low.Known {
				return "-"
			}
			return fmt.Sprintf("%.3f-%.3f s", a.Time.Low.V, a.Time.High.V)
		}},
		{"TFLOPS per GPU", func(a *evidence.Assessment) string { return figure(a.TFLOPS, "%.1f") }},
		{"MFU", func(a *evidence.Assessment) string { return figure(scaled(a.MFU, 100), "%.1f %%") }},
		{"tokens/s", func(a *evidence.Assessment) string { return figure(a.Tokens, "%.0f") }},
		{"tokens/s per GPU", func(a *evidence.Assessment) string { return figure(a.TokensPerGPU, "%.0f") }},
		{"loss, first and last", func(a *evidence.Assessment) string {
			return figure(a.Loss.First, "%.4f") + ", " + figure(a.Loss.Last, "%.4f")
		}},
		{"skipped, NaN", func(a *evidence.Assessment) string { return fmt.Sprintf("%d, %d", a.Skipped, a.NaN) }},
		{"peak allocated", func(a *evidence.Assessment) string { return memoryText(a.PeakAllocated) }},
		{"peak reserved", func(a *evidence.Assessment) string { return memoryText(a.PeakReserved) }},
	}
	p.blank()
	line := func(name, run, base string) {
		text := strings.TrimRight(fmt.Sprintf("%-22s%-26s%s", name, run, base), " ")
		if labelWidth+2*26+22 > p.width { // no room for two runs beside an empty label
			fmt.Fprintln(p.w, text)
			return
		}
		p.section("", text)
	}
	if base != nil {
		line("", "run", "base")
	}
	for _, r := range rows {
		if base == nil {
			line(r.name, r.of(run), "")
		} else {
			line(r.name, r.of(run), r.of(base))
		}
	}
}

func windowText(a *evidence.Assessment) string {
	w := &a.Window
	if w.Steps == 0 {
		return "none"
	}
	kind := "found"
	if w.Declared {
		kind = "declared"
	}
	return fmt.Sprintf("%d-%d, %d steps, %s", w.First, w.Last, w.Steps, kind)
}

func figure(v evidence.Value, format string) string {
	if !v.Known {
		return "-"
	}
	return fmt.Sprintf(format, v.V)
}

func scaled(v evidence.Value, by float64) evidence.Value {
	v.V *= by
	return v
}

func memoryText(b evidence.Bytes) string {
	if !b.Known {
		return "-"
	}
	return fmt.Sprintf("%.2f GiB", b.GiB())
}

func (p printer) comparison(ab *evidence.Comparison, base *evidence.Assessment) {
	p.prose("BASE", fmt.Sprintf("%s, %s", base.Log, base.Judgement))
	for _, s := range append(append([]string{}, base.Problems...), base.Gaps...) {
		p.prose("", s)
	}
	for _, o := range ab.Others {
		p.prose("DIFFERS TOO", o)
	}
	if len(ab.Unknown) > 0 {
		p.prose("BLANK", "in one contract: "+strings.Join(ab.Unknown, ", "))
	}
	text := "no verdict: " + ab.Why
	if ab.Matched && ab.Change.Known {
		text = fmt.Sprintf("%s %s to %s: step time %s %%, noise %.1f %%", ab.Variable, dash(ab.From), dash(ab.To), signed(100*ab.Change.V, 1), 100*ab.Noise.V)
		if ab.Variable == "workload.precision" {
			text += fmt.Sprintf("; tokens/s per GPU %s, MFU %s (each of its own peak)", figure(scaled(ab.TokensChange, 100), "%+.1f %%"),
				figure(scaled(ab.MFUChange, 100), "%+.1f %%"))
		}
		switch ab.Effect {
		case evidence.InsideNoise:
			text += ": inside the noise"
		case evidence.NoVerdict:
			text += ": no verdict: " + ab.Why
		default:
			text += ": " + string(ab.Effect)
		}
	}
	p.prose("A/B", text)
}

func judgementText(a *evidence.Assessment) string {
	reached := fmt.Sprintf("%s asked, %s reached", a.Asked, a.Reached)
	switch a.Judgement {
	case evidence.Supported:
		return fmt.Sprintf("the run supports a %s claim (%s)", a.Candidate, reached)
	case evidence.NotRejected:
		return fmt.Sprintf("not rejected (%s); a screen accepts nothing", reached)
	case evidence.Rejected:
		return fmt.Sprintf("rejected (%s)", reached)
	}
	return fmt.Sprintf("not supported (%s)", reached)
}

// Regression writes what differs between an old and a new run.
func Regression(w io.Writer, old, new *evidence.Assessment, r *evidence.Regression) error {
	p := printerTo(w)
	p.prose("OLD", old.Log+", "+windowText(old))
	p.prose("NEW", new.Log+", "+windowText(new))
	for _, part := range []struct {
		label, what string
		rows        []evidence.Changed
	}{{"EFFECTS", "largest first", r.Effects}, {"SETTINGS", "what was set otherwise", r.Differences}} {
		if len(part.rows) == 0 {
			continue
		}
		p.blank()
		p.prose(part.label, part.what)
		t := Table{Head: []string{"what", "kind", "old", "new", "change"}, Text: []int{0, 1, 2, 3}}
		for _, c := range part.rows {
			change := figure(scaled(c.Change, 100), "%+.1f %%")
			if c.Change.Known && !c.Beyond {
				change += " (noise)"
			}
			t.Add(c.What, c.Kind, dash(c.Old), dash(c.New), change)
		}
		if err := t.Write(w, Text); err != nil {
			return err
		}
	}
	p.blank()
	for _, a := range []*evidence.Assessment{old, new} {
		for _, s := range a.Problems {
			p.prose("PROBLEM", a.Log+": "+s)
		}
	}
	p.prose("VERDICT", r.Conclusion)
	return nil
}
