package megatron

import (
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
)

// recordings is the common form of derived.json, parameters.json and theoretical.json.
type recordings[C any] struct {
	Header struct {
		Base  string
		Short map[string]string
	}
	Models []string
	Cases  []C
}

// command is how a case says its command line.
type recordedCommand struct {
	World, Model int
	Args         string
	Without      []string
}

// argv writes a command line out.
func (f *recordings[C]) argv(c recordedCommand) []string {
	words := slices.DeleteFunc(strings.Fields(f.Header.Base), func(w string) bool { return slices.Contains(c.Without, w) })
	words = append(words, strings.Fields(f.Models[c.Model]+" "+c.Args)...)
	for i, w := range words {
		if long, ok := f.Header.Short[w]; ok {
			words[i] = long
		}
	}
	return words
}

type derivedCase struct {
	recordedCommand
	Record  string
	Derived struct {
		DP          int      `json:"dp"`
		GTP         int      `json:"gtp"`
		VPP         int      `json:"vpp"`
		ETP         int      `json:"etp"`
		NumLayers   *int     `json:"num_layers"`
		M           int      `json:"num_microbatches"`
		SP          bool     `json:"sequence_parallel"`
		OverlapP2P  bool     `json:"overlap_p2p_comm"`
		Granularity string   `json:"recompute_granularity"`
		Modules     []string `json:"recompute_modules"`
		Distributed *bool    `json:"use_distributed_optimizer"`
		Graphs      []string `json:"cuda_graph_modules"`
		FP32Grads   *bool    `json:"fp32_main_grads"`
	}
}

// Resolve derives what the framework derived, for every record of layout_validity and layout_validity_extra that got
// through argument validation.
func TestDerivedValues(t *testing.T) {
	var file recordings[derivedCase]
	load(t, "derived.json", &file)
	for _, c := range file.Cases {
		r := resolve(t, c.World, file.argv(c.recordedCommand)...)
		d := c.Derived
		if d.Modules == nil {
			d.Modules = []string{"core_attn"}
		}
		bad := func(what string, got, want any) { t.Errorf("%s: %s is %v, recorded %v", c.Record, what, got, want) }
		if r.DP != d.DP {
			bad("DP", r.DP, d.DP)
		}
		if r.WeightRemat != max(1, d.GTP) && strings.HasPrefix(c.Record, "extra") {
			bad("GTP", r.WeightRemat, d.GTP)
		}
		if r.Pipeline.VPP != d.VPP {
			bad("VPP", r.Pipeline.VPP, d.VPP)
		}
		if r.Degrees.ETP != d.ETP {
			bad("ETP", r.Degrees.ETP, d.ETP)
		}
		// The main file's recorder forgot the weight shards in its number of micro-batches (rules-findings.md section 6).
		if m := r.Batch.NumMicrobatches; m != d.M && !(strings.HasPrefix(c.Record, "main") && m*r.WeightRemat == d.M && r.WeightRemat > 1) {
			bad("micro-batches", m, d.M)
		}
		if d.NumLayers != nil && r.Shape.NumLayers != *d.NumLayers {
			bad("layers", r.Shape.NumLayers, *d.NumLayers)
		}
		if r.SequenceParallel != d.SP {
			bad("sequence parallel", r.SequenceParallel, d.SP)
		}
		if r.OverlapP2P != d.OverlapP2P {
			bad("p2p overlap", r.OverlapP2P, d.OverlapP2P)
		}
		if r.Recompute.Granularity != d.Granularity {
			bad("recompute", r.Recompute.Granularity, d.Granularity)
		}
		if !slices.Equal(r.Recompute.Modules, d.Modules) {
			bad("recompute modules", r.Recompute.Modules, d.Modules)
		}
		if d.Distributed != nil && r.DistributedOptimizer != *d.Distributed {
			bad("distributed optimizer", r.DistributedOptimizer, *d.Distributed)
		}
		if !slices.Equal(r.Graph.Modules, d.Graphs) {
			bad("graph modules", r.Graph.Modules, d.Graphs)
		}
		if want := d.FP32Grads == nil || *d.FP32Grads; strings.HasPrefix(c.Record, "extra") && r.Precision.GradientsInFP32 != want {
			bad("fp32 gradients", r.Precision.GradientsInFP32, want)
		}
	}
	t.Logf("%d records", len(file.Cases))
}

// Each layout string is read as the framework reads it, or refused where it is.
func TestRecordedLayoutStrings(t *testing.T) {
	var file recordings[struct {
		Record, PP, Layers, MTP, Stages, VPP int
		Layout, Error                        string
		Held                                 [][]string
	}]
	load(t, "layouts.json", &file)
	refused := 0
	for _, c := range file.Cases {
		if n, ok := layoutStages(c.Layout); c.Stages > 0 && (!ok || n != c.Stages) {
			t.Errorf("record %d: %s has %d stages, recorded %d", c.Record, clipped(c.Layout), n, c.Stages)
		}
		violations := layout.CheckSplit(c.Layout, c.PP, c.Layers, c.MTP)
		if violations.Legal() != (c.Error == "") {
			t.Errorf("record %d: %s: recorded %q, here %v", c.Record, clipped(c.Layout), c.Error, violations)
			continue
		}
		if c.Error != "" {
			refused++
			continue
		}
		s, err := layout.ParseSplit(c.Layout, c.PP, c.MTP)
		if err != nil || s.VPP != c.VPP {
			t.Errorf("record %d: %+v, %v", c.Record, s, err)
			continue
		}
		for rank, chunks := range c.Held {
			for chunk, held := range chunks {
				// The framework builds embedding and output layer on the first and last stage, wherever E and L stand, and so
				// does a Split (rules-findings.md correction 16): only layers are compared.
				cell := s.Cell(rank, chunk)
				if cell.Decoders != strings.Count(held, "t") || cell.MTP != strings.Count(held, "m") {
					t.Errorf("record %d: stage %d chunk %d holds %+v, recorded %s", c.Record, rank, chunk, cell, held)
				}
			}
		}
	}
	t.Logf("%d layout strings, %d refused", len(file.Cases), refused)
}
