package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/memmodel/calibrate"
)

// writeMemory prints the comparison of predicted with measured memory: the aims, the groups, the records furthest off, and
// what was not compared.
func writeMemory(w io.Writer, r *calibrate.Report, worst int, format report.Format) error {
	count := map[calibrate.Use]int{}
	refused := 0
	for i := range r.Rows {
		count[r.Rows[i].Use]++
		if r.Rows[i].Err != nil {
			refused++
		}
	}
	fmt.Fprintf(w, "%d records of measured memory: %d usable, %d under an assumption, %d unusable; %d of the first two refused by the model\n",
		len(r.Rows), count[calibrate.Usable], count[calibrate.Conditional], count[calibrate.Unusable], refused)
	fmt.Fprint(w, "Errors are predicted over measured less one; after a step is live memory, peak the most allocated.\n\nUsable:\n\n")
	if err := memoryGroups(w, r.Groups, format); err != nil {
		return err
	}
	fmt.Fprint(w, "\nUnder an assumption, kept apart:\n\n")
	if err := memoryGroups(w, r.Assumed, format); err != nil {
		return err
	}
	fmt.Fprint(w, "\nAims:\n\n")
	t := report.Table{Head: []string{"aim", "records", "asked", "reached", ""}, Text: []int{0, 2, 4}}
	for i := range r.Aims {
		a := &r.Aims[i]
		t.Add(a.Name, fmt.Sprint(a.Records), askedFor(a), percent(a.Reached), met(a))
	}
	if err := t.Write(w, format); err != nil {
		return err
	}
	if worst > 0 {
		fmt.Fprint(w, "\nUsable records with the largest error of the peak:\n\n")
		t = report.Table{Head: []string{"id", "gpu", "model", "peak GiB", "measured", "error", "after a step"}, Text: []int{0, 1, 2}}
		for _, row := range furthest(r.Rows, worst) {
			t.Add(row.Record.ID, cmp.Or(row.Record.GPU, "-"), row.Record.Model, gibOf(row.Peak.Predicted), gibOf(row.Peak.Measured),
				signed(row.Peak), signed(row.AfterStep))
		}
		if err := t.Write(w, format); err != nil {
			return err
		}
	}
	fmt.Fprint(w, "\nNot compared:\n\n")
	why := map[string][]string{}
	for i := range r.Rows {
		switch row := &r.Rows[i]; {
		case row.Use == calibrate.Unusable:
			why[row.Reason] = append(why[row.Reason], row.Record.ID)
		case row.Err != nil:
			why[row.Err.Error()] = append(why[row.Err.Error()], row.Record.ID)
		}
	}
	t = report.Table{Head: []string{"records", "why", "ids"}, Text: []int{1, 2}}
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		t.Add(fmt.Sprint(len(why[reason])), reason, some(why[reason]))
	}
	return t.Write(w, format)
}

func memoryGroups(w io.Writer, groups []calibrate.Group, format report.Format) error {
	t := report.Table{Head: []string{"", "after a step", "median", "p90", "worst", "peak", "bias", "median", "p90", "worst", "record"}, Text: []int{0, 10}}
	for _, g := range groups {
		if len(g.Rows()) == 0 {
			continue
		}
		a, p := g.AfterStep, g.Peak
		t.Add(g.Name, number(a.N), errorOf(a, a.MedianSize), errorOf(a, a.P90), errorOf(a, a.Worst),
			number(p.N), errorOf(p, p.Median), errorOf(p, p.MedianSize), errorOf(p, p.P90), errorOf(p, p.Worst), p.WorstID)
	}
	return t.Write(w, format)
}

// writeRecord prints one record: what ran, what was measured, and every part of the prediction.
func writeRecord(w io.Writer, row *calibrate.Row) {
	r := row.Record
	fmt.Fprintf(w, "%s  %s, %d GPUs %s, %s\n", r.ID, r.Model, r.World, cmp.Or(r.GPU, "of unknown kind"), row.Use)
	if row.Reason != "" {
		fmt.Fprintf(w, "%s\n", row.Reason)
	}
	if len(r.Argv) > 0 {
		fmt.Fprintf(w, "%s\n", strings.Join(r.Argv, " "))
	}
	if row.Err != nil {
		fmt.Fprintf(w, "not priced: %s\n", row.Err)
		return
	}
	if row.Use == calibrate.Unusable {
		return
	}
	fmt.Fprintf(w, "layout: %s\n\n", &row.Prediction.Setup.Layout)
	for _, c := range []struct {
		name string
		of   calibrate.Comparison
	}{{"after a step", row.AfterStep}, {"peak", row.Peak}} {
		if c.of.Ok() {
			fmt.Fprintf(w, "%-13s predicted %9.3f GiB, measured %9.3f GiB, %s\n", c.name, float64(c.of.Predicted)/(1<<30), float64(c.of.Measured)/(1<<30), signed(c.of))
		}
	}
}

// recordNamed finds the row of a record.
func recordNamed(r *calibrate.Report, id string) (*calibrate.Row, error) {
	for i := range r.Rows {
		if r.Rows[i].Record.ID == id {
			return &r.Rows[i], nil
		}
	}
	return nil, usage("--record %q: the records are %s to %s", id, r.Rows[0].Record.ID, r.Rows[len(r.Rows)-1].Record.ID)
}

// furthest are the usable rows with the largest error of the peak.
func furthest(rows []calibrate.Row, n int) []*calibrate.Row {
	var out []*calibrate.Row
	for i := range rows {
		if r := &rows[i]; r.Use == calibrate.Usable && r.Err == nil && r.Peak.Ok() {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *calibrate.Row) int {
		return cmp.Compare(math.Abs(b.Peak.Relative()), math.Abs(a.Peak.Relative()))
	})
	return out[:min(n, len(out))]
}

// memoryJSON is what -o json prints.
type memoryJSON struct {
	Groups  []groupJSON  `json:"groups"`  // the usable records, by set; a record stands in several
	Assumed []groupJSON  `json:"assumed"` // sets of records that can be compared under an assumption only, never mixed with the others
	Aims    []aimJSON    `json:"aims"`    // the accuracy that is asked for, and what is reached
	Records []recordJSON `json:"records"` // every record, in the order of the source
}

// groupJSON is a set of records with its errors.
type groupJSON struct {
	Name      string         `json:"name"`       // the set, in words
	AfterStep statisticsJSON `json:"after_step"` // of memory allocated between steps
	Peak      statisticsJSON `json:"peak"`       // of the largest allocated memory
}

// statisticsJSON holds relative errors: 0.01 is 1 %.
type statisticsJSON struct {
	Records    int      `json:"records"`     // how many have both figures; all else is null where none has
	Median     *float64 `json:"median"`      // of the signed errors, predicted over measured less 1: above 0 is too much predicted
	MedianSize *float64 `json:"median_size"` // median of the sizes of the errors
	P90        *float64 `json:"p90"`         // nine in ten sizes are at most this
	Worst      *float64 `json:"worst"`       // the largest size of an error
	WorstID    *string  `json:"worst_id"`    // the record that worst is of
}

// aimJSON is one accuracy goal for one set of usable records.
type aimJSON struct {
	Name    string `json:"name"`    // the set and the figure, such as "dense, peak"
	Records int    `json:"records"` // how many it is about
	Asked   string `json:"asked"`   // in words: a share of records within an error, or a median error
	// Reached is, as asked says, the share of the records within (0 to 1, more is better) or their median error (0.01 is 1
	// %, less is better); null without records.
	Reached *float64 `json:"reached"`
	Met     bool     `json:"met"`     // whether the goal is reached
	Outside []string `json:"outside"` // ids of the records that are not within, the worst first
}

// recordJSON is one measured run, predicted and measured. Bytes are of one rank: the one that the source reports, or the
// fullest where it reports a maximum.
type recordJSON struct {
	ID                      string  `json:"id"`                         // m and four digits; stable
	Model                   string  `json:"model"`                      // the run's model or test, as its source names it
	Use                     string  `json:"use"`                        // usable, conditional (under the assumption that reason names) or unusable (compared with nothing)
	Reason                  *string `json:"reason"`                     // why it is not usable, or why the model refuses it; null if there is nothing to say
	PredictedAfterStepBytes *int64  `json:"predicted_after_step_bytes"` // torch.cuda.memory_allocated() between steps; null where nothing was predicted
	MeasuredAfterStepBytes  *int64  `json:"measured_after_step_bytes"`  // null where it was not measured, or nothing was predicted
	PredictedPeakBytes      *int64  `json:"predicted_peak_bytes"`       // torch.cuda.max_memory_allocated(); null where nothing was predicted
	MeasuredPeakBytes       *int64  `json:"measured_peak_bytes"`        // null where it was not measured, or nothing was predicted
}

func memoryAsJSON(r *calibrate.Report) *memoryJSON {
	out := &memoryJSON{Groups: groupsAsJSON(r.Groups), Assumed: groupsAsJSON(r.Assumed), Aims: []aimJSON{}, Records: []recordJSON{}}
	for i := range r.Aims {
		a := &r.Aims[i]
		j := aimJSON{a.Name, a.Records, askedFor(a), nil, a.Met(), []string{}}
		if a.Records > 0 {
			j.Reached = &a.Reached
		}
		for _, row := range a.Outside {
			j.Outside = append(j.Outside, row.Record.ID)
		}
		out.Aims = append(out.Aims, j)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		reason := row.Reason
		if row.Err != nil {
			reason = row.Err.Error()
		}
		out.Records = append(out.Records, recordJSON{row.Record.ID, row.Record.Model, row.Use.String(), report.OrNull(reason),
			report.OrNull(row.AfterStep.Predicted), report.OrNull(row.AfterStep.Measured), report.OrNull(row.Peak.Predicted), report.OrNull(row.Peak.Measured)})
	}
	return out
}

func groupsAsJSON(groups []calibrate.Group) []groupJSON {
	of := func(s calibrate.Statistics) statisticsJSON {
		if s.N == 0 {
			return statisticsJSON{}
		}
		return statisticsJSON{s.N, &s.Median, &s.MedianSize, &s.P90, &s.Worst, &s.WorstID}
	}
	out := []groupJSON{}
	for _, g := range groups {
		out = append(out, groupJSON{g.Name, of(g.AfterStep), of(g.Peak)})
	}
	return out
}

func askedFor(a *calibrate.Aim) string {
	switch {
	case a.Share == 0:
		return "median at most " + percent(a.Within)
	case a.Bytes > 0:
		return fmt.Sprintf("%.0f %% within %s or %d MiB", 100*a.Share, percent(a.Within), a.Bytes>>20)
	}
	return fmt.Sprintf("%.0f %% within %s", 100*a.Share, percent(a.Within))
}

func met(a *calibrate.Aim) string {
	if a.Met() {
		return "met"
	}
	return fmt.Sprintf("not met, %d outside", len(a.Outside))
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func errorOf(s calibrate.Statistics, x float64) string {
	if s.N == 0 {
		return "-"
	}
	return percent(x)
}

func percent(x float64) string { return fmt.Sprintf("%.2f %%", 100*x) }

func gibOf(n int64) string { return fmt.Sprintf("%.2f", float64(n)/(1<<30)) }

func signed(c calibrate.Comparison) string {
	if !c.Ok() {
		return "-"
	}
	return fmt.Sprintf("%+.2f %%", 100*c.Relative())
}

// some prints the first of a list, so that a reason with a hundred records stays one line.
func some(ids []string) string {
	const most = 6
	if len(ids) <= most {
		return strings.Join(ids, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], " "), len(ids)-most)
}
