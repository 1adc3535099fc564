package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/plan"
)

// Story writes what there is to say of one plan, in one screen.
func Story(w io.Writer, m *arch.Model, r *plan.Result, s *plan.Story) {
	p := printerTo(w)
	pl := &s.Plan
	p.flush(fmt.Sprintf("%s on %d x %s: plan %d of %d", m.ID, r.Request.GPUs, r.Request.Platform, pl.Rank, len(r.Plans)))
	p.section("LAYOUT", p.wrapLayout(pl.Key)...)
	x := &pl.Sizes
	mesh := fmt.Sprintf("attention TP %d x CP %d x DP %d x PP %d", x.TP, x.CP, x.DP, x.PP)
	if m.MoE != nil {
		mesh += fmt.Sprintf("; experts ETP %d x EP %d x EDP %d x PP %d", x.ETP, x.EP, x.EDP, x.PP)
	}
	p.prose("", mesh, fmt.Sprintf("%s of %d through %s a stage; layers per stage: %s",
		layout.Count(x.NumMicrobatches, "micro-batch"), x.MicroBatchSize, plural(x.VPP, "chunk"), layersPerStage(pl)))
	p.blank()
	p.storyMemory(r, pl)
	p.storyTime(pl)
	p.storyTraffic(pl)
	for i, rule := range s.Rules {
		how := "follows"
		if !rule.Follows {
			how = "OVERRULES"
		}
		p.prose(labelOnce(i, "RULES"), fmt.Sprintf("%-9s %s: %s", how, rule.Rule, rule.How))
	}
	p.prose("WHY", s.Why...)
	if s.Against > 0 {
		p.prose(fmt.Sprintf("AGAINST %d", s.Against), s.Comparison, "flags: "+changesText(s.Flags))
	}
}

// layersPerStage counts decoder layers, stages that hold as many together.
func layersPerStage(pl *plan.Plan) string {
	var parts []string
	for i := 0; i < len(pl.Stages); {
		n, j := decoders(&pl.Stages[i]), i
		for j < len(pl.Stages) && decoders(&pl.Stages[j]) == n {
			j++
		}
		part := fmt.Sprint(n)
		if j-i > 1 {
			part = fmt.Sprintf("%d x %d", j-i, n)
		}
		parts = append(parts, part)
		i = j
	}
	return strings.Join(parts, ", ")
}

func decoders(s *plan.Stage) (n int) {
	for _, chunk := range s.Layers {
		n += len(chunk)
	}
	return n
}

// share draws a part of a whole as a bar.
func share(part, whole float64) string {
	const cells = 24
	if whole <= 0 {
		return ""
	}
	return strings.Repeat("#", int(part/whole*cells+0.5))
}

func (p printer) storyMemory(r *plan.Result, pl *plan.Plan) {
	m := &pl.Stages[pl.WorstStage].Memory
	p.prose("MEMORY", fmt.Sprintf("stage %d is the fullest of %d: %s", pl.WorstStage, len(pl.Stages), pl.Grade))
	low, high := float64(m.PeakDeviceLow-m.PeakAllocated)/gib, float64(m.PeakDevice-m.PeakAllocated)/gib
	for _, part := range []struct {
		name  string
		bytes int64
	}{{"weights", m.Weights}, {"gradients", m.Gradients}, {"optimizer state", m.Optimizer}, {"saved activations", m.Activations},
		{"running layer", m.Transient}, {"workspaces", m.Workspace}} {
		p.section("", fmt.Sprintf("%-18s %6.1f GiB  %s", part.name, float64(part.bytes)/gib, share(float64(part.bytes)/gib, r.Request.MemoryGiB)))
	}
	p.section("", fmt.Sprintf("%-18s %6.1f GiB  %s", "allocated peak", float64(m.PeakAllocated)/gib, share(float64(m.PeakAllocated)/gib, r.Request.MemoryGiB)),
		fmt.Sprintf("%-18s %6s GiB  (allocator slack, NCCL, CUDA context)", "outside", fmt.Sprintf("%.0f-%.0f", low, high)),
		fmt.Sprintf("%-18s %6.1f GiB  %s", "card", r.Request.MemoryGiB, share(1, 1)))
	p.blank()
}

func (p printer) storyTime(pl *plan.Plan) {
	p.section("TIME", fmt.Sprintf("%-22s %9s %9s", "s/step", "now", "tuned"))
	for i := range pl.TimeParts {
		t := &pl.TimeParts[i]
		name := t.Part
		if t.Axis != "" {
			name = strings.ToUpper(t.Axis) + " exposed"
		}
		p.section("", strings.TrimRight(fmt.Sprintf("%-22s %9s %9s  %s", name, seconds(t.MS), seconds(t.TunedMS), share(t.TunedMS, pl.TunedTimeMS)), " "))
	}
	p.section("", fmt.Sprintf("%-22s %9s %9s", "step", seconds(pl.StepTimeMS), seconds(pl.TunedTimeMS)))
	p.prose("", fmt.Sprintf("now: %s; tuned: %s; both +-15 %%", pl.StepSoftware, pl.TunedSoftware))
	p.blank()
}

// storyTraffic says for each axis how much travels, and where.
func (p printer) storyTraffic(pl *plan.Plan) {
	if len(pl.Communication) == 0 {
		return
	}
	p.section("TRAFFIC", fmt.Sprintf("%-4s %5s %8s %9s %9s  %s", "axis", "ranks", "GB/step", "exposed s", "domains", "travels"))
	for i := range pl.Communication {
		t := &pl.Communication[i]
		where := "inside the NVLink domain"
		if t.Domains > 1 {
			where = fmt.Sprintf("%.0f %% over the network", 100*float64(t.BytesCrossing)/float64(max(t.Bytes, 1)))
		}
		p.section("", fmt.Sprintf("%-4s %5d %8.1f %9s %9d  %s", strings.ToUpper(t.Axis), t.GroupSize, float64(t.Bytes)/1e9, seconds(t.ExposedMS), t.Domains, where))
	}
	p.blank()
}

// changesText lists what differs between two command lines.
func changesText(changes []plan.FlagChange) string {
	if len(changes) == 0 {
		return "the same"
	}
	var parts []string
	for _, c := range changes {
		parts = append(parts, fmt.Sprintf("%s %s", c.Flag, fromTo(c.A, c.B)))
	}
	return strings.Join(parts, "; ")
}

func fromTo(a, b string) string {
	switch {
	case a == "":
		return b + " (not there before)"
	case b == "":
		return "gone"
	}
	return a + " -> " + b
}
