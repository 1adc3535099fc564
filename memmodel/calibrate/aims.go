package calibrate

import (
	"slices"

	"github.com/moeplan/moeplan/memmodel"
)

// Aim is one accuracy goal for one set of usable records, with what was reached.
type Aim struct {
	Name string // the set and the figure: "dense, peak"
	// Share of the records must be Within a relative error, or a number of bytes; a Share of 0 asks for a median error
	// of at most Within instead.
	Share  float64
	Within float64
	Bytes  int64

	Records int
	Reached float64 // the share, or the median error
	// Outside are the records that are not within, the worst first.
	Outside []*Row
}

// Met reports whether the goal is reached.
func (a *Aim) Met() bool {
	if a.Share == 0 {
		return a.Reached <= a.Within
	}
	return a.Reached >= a.Share
}

const mib = 1 << 20

func afterStep(r *Row) Comparison { return r.AfterStep }
func peakOf(r *Row) Comparison    { return r.Peak }

// goals are the aims of the project for usable records.
var goals = []struct {
	aim Aim
	has func(*Row) bool
	of  func(*Row) Comparison
}{
	{Aim{Name: "dense, after a step", Share: 0.95, Within: 0.015, Bytes: 20 * mib}, func(r *Row) bool { return r.family("dense") }, afterStep},
	{Aim{Name: "MoE, after a step", Share: 0.90, Within: 0.015, Bytes: 20 * mib}, func(r *Row) bool { return r.family("moe") }, afterStep},
	{Aim{Name: "dense, peak: median", Within: 0.006}, func(r *Row) bool { return r.plain() && r.family("dense") }, peakOf},
	{Aim{Name: "dense, peak", Share: 0.90, Within: 0.02, Bytes: 25 * mib}, func(r *Row) bool { return r.plain() && r.family("dense") }, peakOf},
	{Aim{Name: "MoE, peak: median", Within: 0.015}, func(r *Row) bool { return r.plain() && r.family("moe") }, peakOf},
	{Aim{Name: "MoE, peak within 4 %", Share: 0.85, Within: 0.04}, func(r *Row) bool { return r.plain() && r.family("moe") }, peakOf},
	{Aim{Name: "MoE, peak within 6 %", Share: 0.95, Within: 0.06}, func(r *Row) bool { return r.plain() && r.family("moe") }, peakOf},
	{Aim{Name: "selective recompute, peak", Share: 1, Within: 0.05}, func(r *Row) bool { return r.selective() && !r.graphs() }, peakOf},
	{Aim{Name: "EP overlap, peak", Share: 1, Within: 0.05}, func(r *Row) bool { return r.layout().EPOverlap && r.run().FSDP == memmodel.NoFSDP }, peakOf},
	{Aim{Name: "activation offload, peak", Share: 1, Within: 0.05}, func(r *Row) bool { return r.run().Offload.Modules != 0 }, peakOf},
	{Aim{Name: "Muon, peak", Share: 1, Within: 0.05}, func(r *Row) bool { return r.run().Optimizer == memmodel.Muon }, peakOf},
	{Aim{Name: "FSDP dense, peak", Share: 1, Within: 0.03}, func(r *Row) bool { return r.run().FSDP != memmodel.NoFSDP && r.Record.Family == "dense" }, peakOf},
	{Aim{Name: "FSDP MoE, peak", Share: 1, Within: 0.10}, func(r *Row) bool { return r.run().FSDP != memmodel.NoFSDP && r.Record.Family == "moe" }, peakOf},
	{Aim{Name: "CUDA graphs, peak", Share: 1, Within: 0.06}, (*Row).graphs, peakOf},
	{Aim{Name: "SimuMax B200, peak", Share: 1, Within: 0.003}, (*Row).simumax, peakOf},
}

// family is all usable records of a family whose state is ordinary; resumed runs belong to it, FSDP and CUDA graphs do not.
func (r *Row) family(name string) bool {
	return r.Record.Family == name && !r.simumax() && r.run().FSDP == memmodel.NoFSDP && !r.graphs()
}

// aims holds the goals against the rows.
func aims(rows []Row) []Aim {
	out := make([]Aim, 0, len(goals))
	for _, g := range goals {
		a := g.aim
		var mine []*Row
		for i := range rows {
			if r := &rows[i]; r.Use == Usable && r.Err == nil && g.has(r) && g.of(r).Ok() {
				mine = append(mine, r)
			}
		}
		a.Records = len(mine)
		if a.Share == 0 {
			a.Reached = statistics(mine, g.of).MedianSize
			out = append(out, a)
			continue
		}
		within := 0
		for _, r := range mine {
			if g.of(r).Within(a.Within, a.Bytes) {
				within++
			} else {
				a.Outside = append(a.Outside, r)
			}
		}
		slices.SortStableFunc(a.Outside, func(x, y *Row) int {
			return compareSize(g.of(y).Relative(), g.of(x).Relative())
		})
		if len(mine) > 0 {
			a.Reached = float64(within) / float64(len(mine))
		}
		out = append(out, a)
	}
	return out
}
