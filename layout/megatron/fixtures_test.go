package megatron

import (
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// layouts are the choices that every catalogue model is written with; each names what it is there for. EP and ETP are
// those of MoE models, a dense one takes EP 1 and ETP of TP.
//
// Beyond the recorded parser of the tests, all 390 runs that they give were put through the real parse_args,
// validate_args and core_transformer_config_from_args of NVIDIA/Megatron-LM@d98e8a64dd, with PyTorch 2.8, Transformer
// Engine 2.14 and a Hopper GPU as stubs: each was accepted.
var layouts = []struct {
	name string
	l    layout.Layout
}{
	{"one stage", layout.Layout{
		Degrees: folding.Degrees{World: 16, TP: 1, CP: 1, PP: 1, EP: 8, ETP: 1}, VPP: 1,
		MicroBatchSize: 2, GlobalBatchSize: 64, SeqLength: 4096}},
	{"four stages, selective", layout.Layout{
		Degrees: folding.Degrees{World: 64, TP: 2, CP: 1, PP: 4, EP: 8, ETP: 1}, VPP: 1, SequenceParallel: true,
		MicroBatchSize: 1, GlobalBatchSize: 512, SeqLength: 4096,
		Recompute: layout.SelectiveRecompute(layout.MoEAct | layout.LayerNorm)}},
	{"interleaved, full, FP8, DeepEP, CP", layout.Layout{
		Degrees: folding.Degrees{World: 64, TP: 2, CP: 2, PP: 4, EP: 16, ETP: 1}, VPP: 2, SequenceParallel: true,
		MicroBatchSize: 1, GlobalBatchSize: 512, SeqLength: 8192, Recompute: layout.FullRecompute,
		Precision: layout.FP8Blockwise, Dispatcher: layout.DeepEP}},
	{"tp-pp-dp, overlap, MXFP8, HybridEP", layout.Layout{
		Degrees: folding.Degrees{World: 32, TP: 2, CP: 2, PP: 4, EP: 4, ETP: 1}, VPP: 3, SequenceParallel: true,
		MicroBatchSize: 1, GlobalBatchSize: 64, SeqLength: 4096, EPOverlap: true, Order: folding.TPPPDPOrder,
		Precision: layout.MXFP8, Dispatcher: layout.HybridEP}},
	{"NVFP4, tensor parallel experts, long context", layout.Layout{
		Degrees: folding.Degrees{World: 64, TP: 4, CP: 1, PP: 2, EP: 4, ETP: 4}, VPP: 1, SequenceParallel: true,
		MicroBatchSize: 1, GlobalBatchSize: 8, SeqLength: 131072, Precision: layout.NVFP4,
		Recompute: layout.SelectiveRecompute(layout.CoreAttn | layout.MLAUpProj | layout.MoE | layout.SharedExperts | layout.MLP)}},
	{"FP16, block, allgather", layout.Layout{
		Degrees: folding.Degrees{World: 8, TP: 1, CP: 1, PP: 2, EP: 4, ETP: 1}, VPP: 1,
		MicroBatchSize: 1, GlobalBatchSize: 16, SeqLength: 2048, Precision: layout.FP16, Dispatcher: layout.AllGather,
		Recompute: layout.Recompute{Granularity: layout.Full, Block: true, NumLayers: 2}}},
	{"FP8 tensorwise", layout.Layout{
		Degrees: folding.Degrees{World: 8, TP: 1, CP: 1, PP: 2, EP: 4, ETP: 1}, VPP: 1,
		MicroBatchSize: 1, GlobalBatchSize: 16, SeqLength: 2048, Precision: layout.FP8Tensorwise}},
}

// forModel fits a layout to a model: its split, and the expert mesh of a dense model.
func forModel(t *testing.T, l layout.Layout, m *arch.Model) *layout.Layout {
	t.Helper()
	if m.MoE != nil {
		l.EP = min(l.EP, m.MoE.NumExperts) // EP 16 is too much for Mixtral
		if m.LinearBias {
			l.ETP = 1 // refused otherwise (layout-rules.md rule 87)
		}
	} else {
		l.EP, l.ETP = 1, l.TP
		l.Dispatcher, l.EPOverlap = layout.AllToAll, false
		l.Recompute.Modules &^= layout.MoEAct // needs grouped GEMM
		if l.Order == folding.TPPPDPOrder {
			l.CP, l.World = 1, l.World/2 // a dense model needs CP 1 there (rules-findings.md section 2, 3)
		}
	}
	if m.MLA == nil {
		l.Recompute.Modules &^= layout.MLAUpProj // refused without MLA
	}
	if l.Split = layout.EvenSplit(m, l.PP, l.VPP); l.Split == nil {
		l.Split = layout.BalancedSplit(m, l.PP, l.VPP)
	}
	if l.Split == nil {
		t.Fatalf("%s has no split of PP %d, VPP %d", m.ID, l.PP, l.VPP)
	}
	return &l
}

// eachCommand runs a test on every catalogue model in every layout of the table.
func eachCommand(t *testing.T, test func(t *testing.T, m *arch.Model, l *layout.Layout, c *Command)) int {
	t.Helper()
	n := 0
	for _, m := range arch.All() {
		for _, row := range layouts {
			t.Run(m.ID+"/"+row.name, func(t *testing.T) {
				l := forModel(t, row.l, m)
				c, err := CheckCommand(l, m, CheckOptions{DeviceMemory: true})
				if err != nil {
					t.Fatal(err)
				}
				test(t, m, l, c)
			})
			n++
		}
	}
	return n
}

// qwen235 is the layout of the worked example in layout-rules.md 4.9, which the real parser accepted there.
func qwen235(t *testing.T) (*layout.Layout, *arch.Model) {
	t.Helper()
	m, err := arch.Lookup("qwen3-235b-a22b")
	if err != nil {
		t.Fatal(err)
	}
	split, err := layout.ParseSplit("Et*5|t*6|t*6|t*6|t*6|t*6|t*6|t*6|t*6|t*6|t*6|t*6|t*6|t*6|t*6|t*5L", 8, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &layout.Layout{
		Degrees: folding.Degrees{World: 256, TP: 2, CP: 1, PP: 8, EP: 32, ETP: 1}, VPP: 2, Split: split,
		SequenceParallel: true, MicroBatchSize: 1, GlobalBatchSize: 2048, SeqLength: 4096,
		Recompute: layout.SelectiveRecompute(layout.MoEAct | layout.LayerNorm),
	}, m
}
