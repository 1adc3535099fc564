package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
)

// Files are those that describe a model or a platform which no catalogue has; "" for one of a catalogue.
type Files struct{ Model, GPU string }

// Screen writes the main screen: the answer, at most 100 columns wide, and folded to what the reader has. flags are those
// that repeat the question in the command which checks the answer, as far as the layout's text does not say it.
func Screen(w io.Writer, m *arch.Model, r *plan.Result, flags string, files Files) {
	p := printerTo(w)
	p.question(m, r)
	if len(r.Plans) == 0 {
		p.miss(r)
		p.searched(r)
		return
	}
	p.first(m, r)
	p.table(m, r)
	p.why(&r.Plans[0])
	p.memory(r)
	p.pareto(r)
	p.searched(r)
	p.check(m, r, flags, files)
}

func (p printer) question(m *arch.Model, r *plan.Result) {
	q := &r.Request
	total, active := float64(q.ParametersTotal)/1e9, float64(q.ParametersActive)/1e9
	line := fmt.Sprintf("%s  %.1f B, dense, %d layers", m.ID, total, m.NumLayers)
	if m.MoE != nil {
		line = fmt.Sprintf("%s  %.1f B total, %.1f B active, %d layers, %d experts top-%d", m.ID, total, active, m.NumLayers,
			m.MoE.NumExperts, m.MoE.TopK)
	}
	if m.MTPNumLayers > 0 {
		line += fmt.Sprintf(", %d MTP", m.MTPNumLayers)
	}
	p.flush(line)
	// An assumed value carries the flag that sets it.
	flag := func(name, flag string) string {
		if r.Assumes(name) {
			return " (" + flag + ")"
		}
		return ""
	}
	nodes := (q.GPUs + q.GPUsPerNode - 1) / q.GPUsPerNode
	routing := ""
	if m.MoE != nil {
		routing = "; balanced routing" + flag("imbalance", "--imbalance")
		if q.Imbalance != 1 {
			routing = fmt.Sprintf("; imbalance %.2f", q.Imbalance)
		}
	}
	takes := "the allocated peak may take"
	if !r.Assumes("headroom") {
		takes = "all that the card sees may take"
	}
	p.facts("ASSUMED",
		fmt.Sprintf("%s%s: %s x %s, NVLink domain %d; %s %.2f", q.Platform,
			flag("gpu", "--gpu"), plural(nodes, "node"), plural(min(q.GPUsPerNode, q.GPUs), "GPU"), q.NVLinkDomain, takes, q.MemoryGiB-q.HeadroomGiB-q.ReserveGiB),
		fmt.Sprintf("of %.2f GiB%s; seq %d%s, gbs %d%s", q.MemoryGiB, flag("headroom", "--headroom"),
			q.SeqLength, flag("seq_length", "--seq"), q.GlobalBatchSize, flag("global_batch_size", "--global-batch"))+";",
		fmt.Sprintf("%s, %s grads%s, %s moments%s, distributed Adam;", q.Precision,
			q.Gradients, flag("gradients", "--grads"), q.Moments, flag("optimizer", "--moments")),
		"Core main, expandable segments"+routing)
	if f := q.Factors; f != nil {
		p.section("CALIBRATED", fmt.Sprintf("times multiplied: compute x%.2f, NVLink x%.2f, network x%.2f, host x%.2f", f.Compute, f.NVLink, f.NIC, f.Host))
	}
	p.blank()
}

// evenRouting is the imbalance below which a plan has no room for the routing of real data, where 1.2 to 2 is common
// (memory-model.md 3.6).
const evenRouting = 1.2

func (p printer) first(m *arch.Model, r *plan.Result) {
	best := &r.Plans[0]
	verdict := strings.ToUpper(string(best.Grade))
	switch i := best.MaxImbalance; {
	case i == nil:
	case *i >= plan.MostImbalance(m, best.Sizes.EP):
		verdict += " whatever the routing"
	case *i < evenRouting:
		verdict += fmt.Sprintf(" with even routing only (imbalance up to %.2f in one layer)", *i)
	default:
		verdict += fmt.Sprintf(", up to a routing imbalance of %.1f in one layer", *i)
	}
	p.section("TRY FIRST", p.wrapLayout(best.Key)...)
	p.prose("", verdict)
	if best.TunedGrade != best.Grade {
		text := fmt.Sprintf("TUNED %s: with %s the card sees %.0f to %.0f GiB", strings.ToUpper(string(best.TunedGrade)), best.TunedSoftware,
			float64(best.TunedCard[0])/gib, float64(best.TunedCard[1])/gib)
		if strings.Contains(best.TunedSoftware, "graph") {
			text += ", the upper figure if eager memory shares nothing with what graphs hold; about 7 GB more was published for one such run"
		}
		p.prose("", text)
	}
	p.prose("", "published twin: "+best.PublishedTwin.Text())
	p.blank()
}

func (p printer) why(best *plan.Plan) {
	p.prose("WHY 1", best.Why...)
	if len(best.Why) > 0 {
		p.blank()
	}
}

// pareto lists the layouts that no other beats in both time and memory.
func (p printer) pareto(r *plan.Result) {
	if len(r.Pareto) == 0 {
		return
	}
	p.section("PARETO", "tuned s  allocated GiB  layout")
	for i := range r.Pareto {
		x := &r.Pareto[i]
		p.section("", fmt.Sprintf("%7s  %13.1f  %s", seconds(x.TunedTimeMS), float64(x.PeakAllocated)/gib, strings.TrimSpace(strings.Split(x.Key, "split=")[0])))
	}
	p.blank()
}

func (p printer) searched(r *plan.Result) {
	s := &r.Searched
	rules := slices.SortedFunc(maps.Keys(s.RejectedByRule), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.RejectedByRule[b], s.RejectedByRule[a]), cmp.Compare(a, b))
	})
	top := ""
	if len(rules) > 0 {
		top = fmt.Sprintf(" (top: %s %s)", rules[0], thousands(s.RejectedByRule[rules[0]]))
	}
	excluded := ""
	if s.Excluded > 0 {
		excluded = thousands(s.Excluded) + " excluded by --where, "
	}
	pairs := thousands(s.Meshes) + " pairs of meshes"
	if s.Meshes == 1 {
		pairs = "1 pair of meshes"
	}
	p.prose("SEARCHED",
		fmt.Sprintf("%s, %s: %s illegal%s, %s%s do not fit, %s fit", pairs, counted(s.Layouts, "layout"),
			thousands(s.Layouts-s.Legal), top, excluded, thousands(s.Legal-s.Excluded-s.Fit), thousands(s.Fit)),
		"not searched: "+strings.Join(s.NotSearched, ", "))
	for _, n := range r.Notes {
		p.prose("", "note: "+n)
	}
}

func (p printer) check(m *arch.Model, r *plan.Result, flags string, files Files) {
	q := &r.Request
	lines := []string{fmt.Sprintf("moeplan emit --for check --model %s --gpus %d --gpu %s \\", megatron.Quote(cmp.Or(files.Model, m.ID)), q.GPUs,
		megatron.Quote(cmp.Or(files.GPU, q.Platform)))}
	if flags != "" {
		lines = append(lines, fmt.Sprintf("  %s \\", strings.TrimSpace(flags)))
	}
	for _, l := range p.wrapLayout(r.Plans[0].Key) {
		lines = append(lines, fmt.Sprintf("  '%s' \\", l))
	}
	lines = append(lines, "  > check.sh")
	p.section("CHECK", lines...)
	p.prose("", fmt.Sprintf("(one GPU, under --fake-process-group; %s)", r.Plans[0].CheckExpectation()))
}

// miss explains why nothing fits, and what would.
func (p printer) miss(r *plan.Result) {
	m := r.NearestMiss
	if m == nil {
		return
	}
	p.section("NOTHING", "fits. The nearest:")
	p.section("", p.wrapLayout(m.Key)...)
	p.facts("", fmt.Sprintf("needs %.1f GiB allocated on stage %d, in all %.1f GiB over the limit;",
		float64(m.PeakBytes)/gib, m.Stage, float64(m.OverBytes)/gib),
		fmt.Sprintf("largest part: %s, %.1f GiB", m.Component, float64(m.ComponentBytes)/gib))
	p.blank()
	label := "WAYS OUT"
	way := func(change, key string) {
		p.prose(label, change)
		for _, l := range p.wrapLayout(key) {
			p.section("", "  "+l)
		}
		label = ""
	}
	for _, w := range m.Remedies {
		way(fmt.Sprintf("%s: %s", w.Change, w.Cost), w.Key)
	}
	if m.SmallestGPUs != nil {
		way(fmt.Sprintf("%d GPUs (whole nodes) are the fewest on which a layout fits:", *m.SmallestGPUs), *m.SmallestKey)
	}
	if label != "" {
		p.prose(label, "no change that moeplan tries makes it fit")
	}
	p.blank()
}
