package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/memmodel/calibrate"
)

type validateCmd struct {
	Record  string `placeholder:"ID" help:"Show one record of measured memory."`
	Ranking bool   `help:"Replay the published layouts: legal, fits, place and time against our best."`
	Worst   int    `default:"20" help:"How many of the rows furthest off to list."`
	Output  string `short:"o" enum:"table,json,markdown" default:"table" help:"Format: table, json or markdown."`
}

func (c *validateCmd) Run(ctx context.Context, s streams) error {
	if c.Worst < 0 || c.Worst > 1000 {
		return usage("--worst %d is not between 0 and 1000", c.Worst)
	}
	if !c.Ranking {
		return c.memory(s.out)
	}
	if c.Record != "" {
		return usage("--record shows measured memory, --ranking replays published layouts: one of the two")
	}
	stop := watched(ctx, s.err)
	replayed, err := plan.Replay(ctx, 0)
	stop()
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(s.out, replayed)
	}
	return writeRanking(s.out, replayed, c.Worst, report.Format(c.Output))
}

// memory compares with what was measured.
func (c *validateCmd) memory(w io.Writer) error {
	compared := calibrate.Validate()
	if c.Record == "" {
		if c.Output == "json" {
			return writeJSON(w, memoryAsJSON(compared))
		}
		return writeMemory(w, compared, c.Worst, report.Format(c.Output))
	}
	row, err := recordNamed(compared, c.Record)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		one := &calibrate.Report{Rows: []calibrate.Row{*row}}
		return writeJSON(w, memoryAsJSON(one).Records[0])
	}
	writeRecord(w, row)
	return nil
}

// writeRanking prints the replay: legality, pairs, groups, the worst rows, and what was left out.
func writeRanking(w io.Writer, r *plan.Replayed, worst int, format report.Format) error {
	l := &r.Legality
	fmt.Fprintf(w, "Published layouts of catalogue models: %d of %d inconsistent ones refused, %d of %d others legal\n",
		l.Refused, l.Inconsistent, l.Legal, l.Consistent)
	for _, e := range l.Exceptions {
		fmt.Fprintf(w, "  %s\n", e)
	}
	for _, p := range r.Pairs {
		fmt.Fprintf(w, "Measured pairs in order, %s: %d of %d\n", p.Set, p.Right, p.Pairs)
		for _, wrong := range p.Wrong {
			fmt.Fprintf(w, "  %s\n", wrong)
		}
	}
	fmt.Fprint(w, "\nTuned layouts against our best, predicted times. Shares in % of those that the card holds; within 5/10/20 %.\n"+
		"mesh: the best of the recipe's (TP,CP,PP,ETP,EP), micro-batch pinned; first: its place among our first 1/5/10.\n\n")
	t := report.Table{Head: []string{"", "rows", "legal", "fits", "tight", "as is, free", "as is, pinned", "mesh", "median", "first", "first, free", "timed", "error"},
		Text: []int{0}}
	for _, g := range r.Groups() {
		timing := "-"
		if g.Timed > 0 {
			timing = fmt.Sprintf("%.0f %%", 100*g.TimeError)
		}
		t.Add(g.Name, fmt.Sprint(g.Rows), share(g.Legal, g.Rows), share(g.Fits, g.Rows), share(g.Tight, g.Rows),
			shares(g.AsIs.Within), shares(g.AsIsPinned.Within), shares(g.Mesh.Within), behind(g.Mesh.Median),
			shares(g.Top), shares(g.TopFree), fmt.Sprint(g.Timed), timing)
	}
	if err := t.Write(w, format); err != nil {
		return err
	}
	if worst > 0 {
		fmt.Fprintf(w, "\nFurthest behind our best, by mesh:\n\n")
		t = report.Table{Head: []string{"id", "model", "gpu", "behind", "place", "published", "verdict"}, Text: []int{0, 1, 2, 5, 6}}
		for _, row := range r.Worst(worst) {
			verdict := row.Verdict
			if verdict == "" {
				verdict = "not examined"
			}
			t.Add(row.ID, row.Model, fmt.Sprintf("%d %s", row.GPUs, row.Platform), behind(*row.Mesh), placeText(row),
				row.MeshText, verdict)
		}
		if err := t.Write(w, format); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nNot counted:\n\n")
	t = report.Table{Head: []string{"id", "why"}, Text: []int{0, 1}}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Apart != "" {
			t.Add(row.ID, row.Apart)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(r.Skipped)) {
		t.Add(fmt.Sprintf("%d records", r.Skipped[why]), why)
	}
	t.Add(fmt.Sprintf("%d records", r.Repeats), "the same layout and software as another record")
	return t.Write(w, format)
}

// placeText is the place of a compared row's mesh; 0 is that of one that is not among the others.
func placeText(row *plan.ReplayRow) string {
	place := 0
	if row.Place != nil {
		place = *row.Place
	}
	return fmt.Sprintf("%d/%d", place, *row.Meshes)
}

func share(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", 100*float64(n)/float64(of))
}

func shares(s [3]float64) string {
	if math.IsNaN(s[0]) {
		return "-"
	}
	return fmt.Sprintf("%.0f/%.0f/%.0f", 100*s[0], 100*s[1], 100*s[2])
}

// behind prints a ratio of times as what it is over 1.
func behind(ratio float64) string {
	if math.IsNaN(ratio) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*(ratio-1))
}
