package calibrate

import (
	"cmp"
	"math"
	"slices"
)

// Row is one record with its prediction.
type Row struct {
	Record *Record
	Use    Use
	Reason string // why it is not usable
	// Err is set where memmodel refuses the run; there is no prediction then.
	Err        error
	Prediction Prediction
	AfterStep  Comparison
	Peak       Comparison
}

// Comparison is one figure predicted and measured, in bytes; Measured is 0 where there is none.
type Comparison struct{ Predicted, Measured int64 }

// Ok reports whether there is something to compare.
func (c Comparison) Ok() bool { return c.Measured > 0 && c.Predicted > 0 }

// Off is predicted less measured.
func (c Comparison) Off() int64 { return c.Predicted - c.Measured }

// Relative is predicted over measured, less one.
func (c Comparison) Relative() float64 { return float64(c.Off()) / float64(c.Measured) }

// Within reports whether the prediction is off by no more than a share of the measurement, or a number of bytes: small
// runs are rounded by the allocator.
func (c Comparison) Within(share float64, bytes int64) bool {
	off := c.Off()
	if off < 0 {
		off = -off
	}
	return off <= bytes || float64(off) <= share*float64(c.Measured)
}

// Statistics sum up the errors of a group.
type Statistics struct {
	N int
	// Median is of the signed relative errors, the others are of their sizes.
	Median, MedianSize, P90, Worst float64
	// WorstID is the record that Worst is of.
	WorstID string
}

// Group is a set of usable records with its errors.
type Group struct {
	Name            string
	AfterStep, Peak Statistics
	rows            []*Row
}

// Rows are the group's members.
func (g *Group) Rows() []*Row { return g.rows }

// Report is the comparison of all records.
type Report struct {
	Rows   []Row   // every record, in the order of the source
	Groups []Group // of usable records
	Aims   []Aim
	// Assumed are groups of records that can be compared under an assumption only.
	Assumed []Group
}

// Validate predicts every record and compares.
func Validate() *Report {
	all := Records()
	out := &Report{Rows: make([]Row, len(all))}
	for i := range all {
		r := &all[i]
		row := &out.Rows[i]
		row.Record = r
		row.Use, row.Reason = r.Use()
		if row.Use == Unusable {
			continue
		}
		if row.Prediction, row.Err = r.Predict(); row.Err != nil {
			continue
		}
		s := &row.Prediction.Stage
		row.AfterStep = Comparison{s.AllocatedAfterStep, r.Measured.AfterStep}
		row.Peak = Comparison{s.PeakAllocated, r.Measured.Peak}
	}
	for _, d := range divisions {
		out.Groups = append(out.Groups, d.group(out.Rows, Usable))
	}
	out.Assumed = assumed(out.Rows)
	out.Aims = aims(out.Rows)
	return out
}

// assumed groups the conditional records by their reason.
func assumed(rows []Row) []Group {
	var names []string
	for i := range rows {
		if r := &rows[i]; r.Use == Conditional && !slices.Contains(names, r.Reason) {
			names = append(names, r.Reason)
		}
	}
	slices.Sort(names)
	var out []Group
	for _, name := range names {
		d := division{name, func(r *Row) bool { return r.Reason == name }}
		out = append(out, d.group(rows, Conditional))
	}
	return out
}

// statistics sums up one comparison of rows.
func statistics(rows []*Row, of func(*Row) Comparison) Statistics {
	type entry struct {
		relative float64
		id       string
	}
	var list []entry
	for _, r := range rows {
		if c := of(r); c.Ok() {
			list = append(list, entry{c.Relative(), r.Record.ID})
		}
	}
	s := Statistics{N: len(list)}
	if s.N == 0 {
		return s
	}
	slices.SortStableFunc(list, func(a, b entry) int { return cmp.Compare(a.relative, b.relative) })
	s.Median = list[(s.N-1)/2].relative
	slices.SortStableFunc(list, func(a, b entry) int { return compareSize(a.relative, b.relative) })
	at := func(q float64) float64 { return math.Abs(list[int(math.Ceil(q*float64(s.N)))-1].relative) }
	s.MedianSize, s.P90, s.Worst = at(0.5), at(0.9), at(1)
	s.WorstID = list[s.N-1].id
	return s
}

// compareSize orders errors by their size.
func compareSize(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) }
