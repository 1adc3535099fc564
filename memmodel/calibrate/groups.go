package calibrate

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/memmodel"
)

// division is one way to pick records.
type division struct {
	name string
	has  func(*Row) bool
}

func (d division) group(rows []Row, use Use) Group {
	g := Group{Name: d.name}
	for i := range rows {
		if r := &rows[i]; r.Use == use && r.Err == nil && d.has(r) {
			g.rows = append(g.rows, r)
		}
	}
	g.AfterStep = statistics(g.rows, func(r *Row) Comparison { return r.AfterStep })
	g.Peak = statistics(g.rows, func(r *Row) Comparison { return r.Peak })
	return g
}

// divisions overlap: a record counts in each group that it belongs to. The first three are disjoint; they leave out what
// has a group, and a tolerance, of its own (special).
var divisions = []division{
	{"dense", func(r *Row) bool { return r.plain() && r.Record.Family == "dense" }},
	{"MoE", func(r *Row) bool { return r.plain() && r.Record.Family == "moe" }},
	{"hybrid", func(r *Row) bool { return r.Record.Family == "hybrid" }},
	{"SimuMax B200", (*Row).simumax},
	{"resumed runs", func(r *Row) bool { return r.Record.SecondRun }},
	{"bf16", func(r *Row) bool { return r.layout().Precision == layout.BF16 && !r.run().FP32 }},
	{"fp16", func(r *Row) bool { return r.layout().Precision == layout.FP16 }},
	{"FP8", func(r *Row) bool { return r.layout().Precision >= layout.FP8Tensorwise }},
	{"full recompute", func(r *Row) bool { return r.layout().Recompute.Granularity == layout.Full }},
	{"selective recompute", (*Row).selective},
	{"activation offload", func(r *Row) bool { return r.run().Offload.Modules != 0 }},
	{"EP overlap", func(r *Row) bool { return r.layout().EPOverlap }},
	{"CUDA graphs", (*Row).graphs},
	{"Muon", func(r *Row) bool { return r.run().Optimizer == memmodel.Muon }},
	{"FSDP dense", func(r *Row) bool { return r.run().FSDP != memmodel.NoFSDP && r.Record.Family == "dense" }},
	{"FSDP MoE", func(r *Row) bool { return r.run().FSDP != memmodel.NoFSDP && r.Record.Family == "moe" }},
	{"distributed optimizer", func(r *Row) bool { return r.run().DistributedOptimizer }},
	{"local layers", func(r *Row) bool { return r.run().Local }},
	{"PP > 1", func(r *Row) bool { return r.layout().PP > 1 }},
	{"VPP > 1", func(r *Row) bool { return r.layout().VPP > 1 }},
	{"CP > 1", func(r *Row) bool { return r.layout().CP > 1 }},
	{"MoE with ETP > 1", func(r *Row) bool { return r.Record.Family == "moe" && r.layout().ETP > 1 }},
	{"MTP", func(r *Row) bool { return r.Prediction.Setup.Model.MTPNumLayers > 0 }},
	{"A100", func(r *Row) bool { return r.Record.generation() == 80 }},
	{"H100", func(r *Row) bool { return r.Record.generation() == 90 }},
	{"GB200", func(r *Row) bool { return r.Record.GPU == "GB200" }},
}

func (r *Row) layout() *layout.Layout { return &r.Prediction.Setup.Layout }
func (r *Row) run() *memmodel.Run     { return &r.Prediction.Setup.Run }

func (r *Row) simumax() bool { return r.Record.Kind == "simumax-b200-real-run" }

func (r *Row) graphs() bool {
	g := r.run().Graphs
	return g.FullIteration || g.Modules != 0
}

// selective leaves out core_attn alone, which saves nothing that matters with fused attention.
func (r *Row) selective() bool {
	c := r.layout().Recompute
	return c.Granularity == layout.Selective && c.Modules&^layout.CoreAttn != 0
}

// plain leaves out what the aims give a tolerance of its own: resumed runs, selective recompute, EP overlap, offload, Muon,
// FSDP, CUDA graphs.
func (r *Row) plain() bool {
	run := r.run()
	return !r.Record.SecondRun && !r.simumax() && !r.selective() && !r.layout().EPOverlap && run.Offload.Modules == 0 &&
		run.Optimizer != memmodel.Muon && run.FSDP == memmodel.NoFSDP && !r.graphs()
}
