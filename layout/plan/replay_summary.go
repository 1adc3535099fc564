package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/recipes"
)

// Legality counts what the rules say of every record whose model the catalogue has, tuned or not.
type Legality struct {
	// Inconsistent records do not fit the GPUs they name, by the notes' own count; Refused is how many of them break a
	// rule. Consistent and Legal are the others.
	Inconsistent int `json:"inconsistent"`
	Refused      int `json:"refused"`
	Consistent   int `json:"consistent"`
	Legal        int `json:"legal"`
	// Exceptions name the records that were judged otherwise.
	Exceptions []string `json:"exceptions"`
}

// checkAll judges all records.
func checkAll() Legality {
	l := Legality{Exceptions: []string{}}
	for _, r := range recipes.All() {
		q, _ := stated(r)
		if q == nil {
			continue
		}
		broken := layout.Check(q.model, &q.layout).Errors()
		legal := len(broken) == 0
		if r.Inconsistent {
			l.Inconsistent++
			if !legal {
				l.Refused++
			}
		} else {
			l.Consistent++
			if legal {
				l.Legal++
			}
		}
		switch {
		case r.Inconsistent && legal:
			l.Exceptions = append(l.Exceptions, r.ID+" does not fit its GPUs, but breaks no rule")
		case !r.Inconsistent && !legal:
			l.Exceptions = append(l.Exceptions, r.ID+": "+broken[0].Error())
		}
	}
	return l
}

// ReplayGroup sums up some of the rows. Shares are of the compared rows; NaN where there is none.
type ReplayGroup struct {
	Name string
	// Rows that count; of them: legal, fits and tight layouts, and those compared with our best: all that the card can
	// hold.
	Rows, Legal, Fits, Tight, Compared int
	// Median ratios and the shares within 5, 10 and 20 %.
	AsIs, AsIsPinned, Mesh Spread
	// Shares of the recipe's mesh among our first 1, 5 and 10, micro-batch pinned and free.
	Top, TopFree [3]float64
	// Timed rows have a published step time; TimeError is the median of the prediction's error, in either direction.
	Timed     int
	TimeError float64
}

// Spread is a median ratio and the shares within 5, 10 and 20 %.
type Spread struct {
	Median float64
	Within [3]float64
}

var (
	withinBands = [3]float64{1.05, 1.10, 1.20}
	topPlaces   = [3]int{1, 5, 10}
)

// counts reports whether a row is one of the tuned MoE layouts that the aims are about.
func (r *ReplayRow) counts() bool { return r.Apart == "" && !r.Dense && !r.Linear }

// Groups sums the rows up that are not apart: MoE by GPU kind, all, with and without EP overlap, measured; then models with
// linear-time layers, and dense ones.
func (out *Replayed) Groups() []ReplayGroup {
	var kinds []string
	for i := range out.Rows {
		if !slices.Contains(kinds, out.Rows[i].Platform) {
			kinds = append(kinds, out.Rows[i].Platform)
		}
	}
	slices.Sort(kinds)
	var groups []ReplayGroup
	add := func(name string, in func(*ReplayRow) bool) {
		var rows []*ReplayRow
		for i := range out.Rows {
			if r := &out.Rows[i]; r.Apart == "" && in(r) {
				rows = append(rows, r)
			}
		}
		groups = append(groups, groupOf(name, rows))
	}
	for _, kind := range kinds {
		add(kind, func(r *ReplayRow) bool { return r.counts() && r.Platform == kind })
	}
	add("all MoE", func(r *ReplayRow) bool { return r.counts() })
	add("EP overlap on", func(r *ReplayRow) bool { return r.counts() && r.Overlap })
	add("EP overlap off", func(r *ReplayRow) bool { return r.counts() && !r.Overlap })
	add("measured", func(r *ReplayRow) bool { return r.counts() && r.Measured })
	add("Mamba, GDN", func(r *ReplayRow) bool { return r.Linear })
	add("MoE with these", func(r *ReplayRow) bool { return r.counts() || r.Linear })
	add("dense", func(r *ReplayRow) bool { return r.Dense })
	return groups
}

func groupOf(name string, rows []*ReplayRow) ReplayGroup {
	g := ReplayGroup{Name: name, Rows: len(rows)}
	var asIs, pinned, mesh, errs []float64
	for _, r := range rows {
		if len(r.Refused) == 0 {
			g.Legal++
		}
		switch r.Grade {
		case Fits:
			g.Fits++
		case Tight:
			g.Tight++
		}
		if r.MeasuredSeconds != nil && r.StepSeconds != nil {
			errs = append(errs, math.Abs(*r.StepSeconds / *r.MeasuredSeconds - 1))
		}
		if r.AsIs == nil || r.Mesh == nil {
			continue
		}
		g.Compared++
		asIs, pinned, mesh = append(asIs, *r.AsIs), append(pinned, *r.AsIsPinned), append(mesh, *r.Mesh)
		for i, n := range topPlaces {
			if r.Place != nil && *r.Place <= n {
				g.Top[i]++
			}
			if r.PlaceFree != nil && *r.PlaceFree <= n {
				g.TopFree[i]++
			}
		}
	}
	for i := range topPlaces {
		g.Top[i] /= float64(g.Compared)
		g.TopFree[i] /= float64(g.Compared)
	}
	g.Timed, g.TimeError = len(errs), spreadOf(errs).Median
	g.AsIs, g.AsIsPinned, g.Mesh = spreadOf(asIs), spreadOf(pinned), spreadOf(mesh)
	return g
}

func spreadOf(ratios []float64) Spread {
	s := Spread{Median: math.NaN()}
	slices.Sort(ratios)
	if n := len(ratios); n > 0 {
		s.Median = (ratios[(n-1)/2] + ratios[n/2]) / 2
	}
	for i, band := range withinBands {
		for _, r := range ratios {
			if r <= band {
				s.Within[i]++
			}
		}
		s.Within[i] /= float64(len(ratios))
	}
	return s
}

// Worst returns the n counted MoE rows whose mesh is furthest behind our best, worst first.
func (out *Replayed) Worst(n int) []*ReplayRow {
	var rows []*ReplayRow
	for i := range out.Rows {
		if r := &out.Rows[i]; r.counts() && r.Mesh != nil {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b *ReplayRow) int { return cmp.Compare(*b.Mesh, *a.Mesh) })
	return rows[:min(n, len(rows))]
}
