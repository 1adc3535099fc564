package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/plan"
)

// planColumn is one column of the table of plans.
type planColumn struct {
	group string // the word above the head
	head  string
	width int // with the blanks in front of it
	left  bool
	cell  func(*plan.Plan) string
	// keep orders the columns by worth: those with the least go first where the reader has no room.
	keep int
	what string // in the line that says what is not shown
}

const always = 100

func planColumns(m *arch.Model) []planColumn {
	number := func(of func(*plan.Sizes) int) func(*plan.Plan) string {
		return func(pl *plan.Plan) string { return fmt.Sprint(of(&pl.Sizes)) }
	}
	expert := number
	if m.MoE == nil {
		expert = func(func(*plan.Sizes) int) func(*plan.Plan) string { return func(*plan.Plan) string { return "-" } }
	}
	return []planColumn{
		{"", " # ", 3, false, rankCell, always, ""},
		{"attention", "TP", 3, false, number(func(s *plan.Sizes) int { return s.TP }), always, ""},
		{"attention", "CP", 3, false, number(func(s *plan.Sizes) int { return s.CP }), 7, "CP"},
		{"attention", "DP", 5, false, number(func(s *plan.Sizes) int { return s.DP }), 9, "DP"},
		{"attention", "PP", 3, false, number(func(s *plan.Sizes) int { return s.PP }), always, ""},
		{"experts", "ETP", 5, false, expert(func(s *plan.Sizes) int { return s.ETP }), 6, "ETP"},
		{"experts", "EP", 4, false, expert(func(s *plan.Sizes) int { return s.EP }), always, ""},
		{"experts", "EDP", 5, false, expert(func(s *plan.Sizes) int { return s.EDP }), 5, "EDP"},
		{"", "vpp", 4, false, number(func(s *plan.Sizes) int { return s.VPP }), 8, "VPP"},
		{"", "mbs", 4, false, number(func(s *plan.Sizes) int { return s.MicroBatchSize }), 4, "MBS"},
		{"", "recompute", 18, true, func(pl *plan.Plan) string { return shortRecompute(pl.Sizes.Recompute) }, 10, "recompute"},
		{"peak GiB", "lo-hi", 8, false, peakRange, 11, "peak GiB"},
		{"max", "I", 5, false, func(pl *plan.Plan) string { return imbalanceCell(m, pl) }, 3, "max I (routing imbalance)"},
		{"hot in", "NVLink", 7, false, hotCell, 2, "hot in NVLink"},
		{"exposed", "s/step", 8, false, func(pl *plan.Plan) string { return seconds(pl.ExposedMS) }, 1, "exposed communication"},
		{"s/step +-15 %", "now", 7, false, func(pl *plan.Plan) string { return seconds(pl.StepTimeMS) }, always, ""},
		{"s/step +-15 %", "tuned", 7, false, func(pl *plan.Plan) string { return seconds(pl.TunedTimeMS) }, always, ""},
	}
}

func rankCell(pl *plan.Plan) string {
	if pl.EqualToBest {
		return fmt.Sprintf("%2d=", pl.Rank)
	}
	return fmt.Sprintf("%2d ", pl.Rank)
}

func imbalanceCell(m *arch.Model, pl *plan.Plan) string {
	switch {
	case pl.MaxImbalance == nil:
		return "-"
	case *pl.MaxImbalance >= plan.MostImbalance(m, pl.Sizes.EP):
		return "any"
	}
	return fmt.Sprintf("%.1f", *pl.MaxImbalance)
}

func hotCell(pl *plan.Plan) string {
	if pl.NVLinkFraction == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100**pl.NVLinkFraction)
}

// fitting leaves out the columns that the width has no room for, and names them.
func fitting(columns []planColumn, width int) (shown []planColumn, left []string) {
	for {
		total, least := 0, -1
		for i, c := range columns {
			total += c.width
			if c.keep < always && (least < 0 || c.keep < columns[least].keep) {
				least = i
			}
		}
		if total <= width || least < 0 {
			return columns, left
		}
		left = append(left, columns[least].what)
		columns = append(columns[:least:least], columns[least+1:]...)
	}
}

// table lists the plans: the two meshes side by side, so that folding is seen.
func (p printer) table(m *arch.Model, r *plan.Result) {
	columns, left := fitting(planColumns(m), p.width)
	head := ""
	for _, c := range columns {
		head += c.put(c.head)
	}
	fmt.Fprintln(p.w, groupLine(columns))
	fmt.Fprintln(p.w, strings.TrimRight(strings.Replace(head, "#", " ", 1), " "))
	for i := range r.Plans {
		line := ""
		for _, c := range columns {
			line += c.put(c.cell(&r.Plans[i]))
		}
		fmt.Fprintln(p.w, strings.TrimRight(line, " "))
	}
	if len(left) > 0 {
		p.flush(fmt.Sprintf("not shown in %d columns: %s", p.width, strings.Join(left, ", ")))
	}
	p.flush(fmt.Sprintf("ordered by %s; = not distinguishable, simplest first   now: %s", r.Request.OrderedBy, r.Plans[0].StepSoftware))
	p.flush("tuned: " + tunedSoftware(r.Plans))
	if legend := legendOf(r.Plans); legend != "" {
		p.flush("recompute: " + legend)
	}
	p.blank()
}

func (c *planColumn) put(text string) string {
	if c.left {
		return fmt.Sprintf(" %-*s", c.width-1, text)
	}
	return fmt.Sprintf("%*s", c.width, text)
}

// groupLine puts the words above the heads of their columns: at the left of what they span, or at the right of a single
// column or of one that they are wider than.
func groupLine(columns []planColumn) string {
	line := []rune(" #")
	at := 0
	for i := 0; i < len(columns); {
		group, start := columns[i].group, at+columns[i].width-len(columns[i].head)
		first := i
		for ; i < len(columns) && columns[i].group == group; i++ {
			at += columns[i].width
		}
		if group == "" {
			continue
		}
		if i == first+1 || at-start < len(group) {
			start = at - len(group)
		}
		for len(line) < start {
			line = append(line, ' ')
		}
		line = append(line[:start], []rune(group)...)
	}
	return string(line)
}

// tunedSoftware names what the tuned times switch on: that of the first plan, then those of plans that take something else.
func tunedSoftware(plans []plan.Plan) string {
	var names []string
	ranks := map[string][]string{}
	for i := range plans {
		name := plans[i].TunedSoftware
		if ranks[name] == nil {
			names = append(names, name)
		}
		ranks[name] = append(ranks[name], fmt.Sprint(plans[i].Rank))
	}
	text := names[0]
	for _, name := range names[1:] {
		text += "; plan " + strings.Join(ranks[name], ",") + " " + name
	}
	return text
}

// peakRange is what the card sees of the worst stage.
func peakRange(pl *plan.Plan) string {
	m := &pl.Stages[pl.WorstStage].Memory
	return fmt.Sprintf("%.0f-%.0f", float64(m.PeakDeviceLow)/gib, float64(m.PeakDevice)/gib)
}

// shortNames abbreviates the recompute modules with long names.
var shortNames = []struct{ module, short string }{
	{"moe_act", "act"}, {"layernorm", "ln"}, {"mla_up_proj", "mla"}, {"shared_experts", "sh"},
}

func shortRecompute(s string) string {
	for _, n := range shortNames {
		s = strings.ReplaceAll(s, n.module, n.short)
	}
	return strings.ReplaceAll(s, ",", "+")
}

// legendOf explains the abbreviations that the plans use.
func legendOf(plans []plan.Plan) string {
	var legend []string
	for _, n := range shortNames {
		if slices.ContainsFunc(plans, func(p plan.Plan) bool { return strings.Contains(p.Sizes.Recompute, n.module) }) {
			legend = append(legend, n.short+" "+n.module)
		}
	}
	return strings.Join(legend, ", ")
}
