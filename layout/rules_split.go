package layout

import "fmt"

const layoutSource = "megatron/core/transformer/pipeline_parallel_layer_layout.py:"

// splitRules are the rules of the pipeline layout string and of the split made from it.
var splitRules = []Rule{
	{
		ID: "split-symbols", Constraint: "N3", Severity: Error, NoticedAt: AtArguments,
		Title:  "a layout string holds only E t m L |, x*N and (text)*N",
		Why:    "Any other character left after expansion has no layer type. There is no white space, and parentheses do not nest.",
		Source: layoutSource + "315",
	},
	{
		ID: "split-stages", Constraint: "62", Severity: Error, NoticedAt: AtArguments,
		Title:  "the number of stages in the layout string is a multiple of PP",
		Why:    "Stages are dealt to pipeline ranks in turn, and each rank must get the same number, which becomes VPP.",
		Source: "megatron/training/arguments.py:945",
		axes:   axisPP | axisVPP,
		broken: func(s *subject) bool {
			p := s.l.Split
			return p != nil && (p.PP != s.l.PP || p.VPP != s.l.VPP || len(p.Cells) != p.PP*p.VPP)
		},
		explain: func(s *subject) finding {
			p := s.l.Split
			if len(p.Cells)%s.l.PP != 0 {
				return stagesFinding(len(p.Cells), s.l.PP)
			}
			return found([]string{fmt.Sprintf("vpp%d", len(p.Cells)/s.l.PP)},
				"the split has %d cells, PP %d * VPP %d = %d", len(p.Cells), s.l.PP, s.l.VPP, s.l.PP*s.l.VPP)
		},
	},
	{
		ID: "split-ends", Constraint: "63", Severity: Error, NoticedAt: AtConfig,
		Title:   "exactly one E, first of all, and exactly one L, last of all",
		Why:     "The embedding opens the model and the loss closes it; each exists once.",
		Source:  layoutSource + "96",
		axes:    axisPP | axisVPP,
		broken:  func(s *subject) bool { return s.l.Split != nil && endsWrong(s.l.Split) },
		explain: func(s *subject) finding { f := factsOf(s.l.Split); return endsFinding(&f) },
	},
	{
		ID: "split-layer-count", Constraint: "64", Severity: Error, NoticedAt: AtConfig,
		Title:  "the split holds as many t as the model has layers, and as many m as it has MTP layers",
		Why:    "Layers that are left out would not be trained, and surplus ones do not exist.",
		Source: layoutSource + "107",
		axes:   axisPP | axisVPP,
		broken: func(s *subject) bool {
			p := s.l.Split
			return p != nil && (p.NumLayers() != s.m.NumLayers || p.NumMTP() != s.m.MTPNumLayers)
		},
		explain: func(s *subject) finding {
			f := factsOf(s.l.Split)
			return countFinding(&f, s.m.NumLayers, s.m.MTPNumLayers)
		},
	},
	{
		ID: "split-mtp-after-decoders", Constraint: "65", Severity: Error, NoticedAt: AtConfig,
		Title:  "no t after the first m",
		Why:    "MTP layers work on the output of the last decoder layer.",
		Source: layoutSource + "118",
		axes:   axisPP | axisVPP,
		broken: func(s *subject) bool { return s.l.Split != nil && factsOf(s.l.Split).decoderAfterMTP },
		explain: func(*subject) finding {
			return finding{message: "a decoder layer t stands after an MTP layer m", repairs: []string{"move every m behind the last t"}}
		},
	},
	{
		ID: "split-mtp-chunk", Constraint: "66", Severity: Error, NoticedAt: AtConfig,
		Title:   "all m in one cell, which is the last chunk of its pipeline rank",
		Why:     "The framework runs every MTP layer in one place, after all other chunks of that rank.",
		Source:  layoutSource + "124",
		axes:    axisPP | axisVPP,
		broken:  func(s *subject) bool { return s.l.Split != nil && mtpScattered(s.l.Split) },
		explain: func(s *subject) finding { f := factsOf(s.l.Split); return mtpChunkFinding(&f) },
	},
	{
		ID: "split-order", Severity: Error, NoticedAt: AtMoeplan,
		Title:  "cells hold the decoder layers in order, each once",
		Why:    "A layout string cannot say anything else, so a split that does was not made by ParseSplit, EvenSplit or BalancedSplit.",
		Source: layoutSource + "41",
		axes:   axisPP | axisVPP,
		broken: func(s *subject) bool { return s.l.Split != nil && disordered(s.l.Split) >= 0 },
		explain: func(s *subject) finding {
			i := disordered(s.l.Split)
			return found(nil, "cell %d starts at decoder layer %d, not where the cell before it ends", i+1, s.l.Split.Cells[i].First+1)
		},
	},
	{
		ID: "split-ends-moved", Constraint: "63", Severity: Hazard, NoticedAt: AtModelBuild,
		Title:  "E stands in the first stage and L in the last",
		Why:    "Empty stages before E or after L are accepted, but embedding and output layer are built on the first and last stage all the same.",
		Source: layoutSource + "95",
	},
	{
		ID: "split-mtp-standalone", Constraint: "71", Severity: Advice, NoticedAt: AtModelBuild,
		Title:  "MTP on another pipeline rank than the loss holds a second embedding",
		Why:    "A stage with MTP that is not the first keeps its own copy of the word embedding, synchronised every step; apart from the loss it also runs as a stage of its own.",
		Source: layoutSource + "141",
		axes:   axisPP | axisVPP,
		broken: func(s *subject) bool {
			if s.l.Split == nil || s.l.Split.PP < 1 {
				return false
			}
			f := factsOf(s.l.Split)
			return f.m > 0 && f.mtpLast%f.pp != f.pp-1
		},
		explain: func(s *subject) finding {
			f := factsOf(s.l.Split)
			return found([]string{"put m before L in the last stage"}, "the MTP layers sit on pipeline rank %d, the loss on rank %d", f.mtpLast%f.pp, f.pp-1)
		},
	},
	{
		ID: "pipeline-rank-empty", Severity: Hazard, NoticedAt: AtMoeplan,
		Title:  "every pipeline rank holds a layer",
		Why:    "A rank without decoder layers, MTP or loss only passes activations on: its GPUs are wasted.",
		Source: "megatron/core/transformer/transformer_block.py:100",
		axes:   axisPP | axisVPP,
		broken: func(s *subject) bool { return s.l.Split != nil && emptyRank(s.l.Split) >= 0 },
		explain: func(s *subject) finding {
			return found([]string{"a smaller pp"}, "pipeline rank %d holds no decoder layer, no MTP layer and no loss", emptyRank(s.l.Split))
		},
	},
}

func endsWrong(p *Split) bool    { f := factsOf(p); return f.endsWrong() }
func mtpScattered(p *Split) bool { f := factsOf(p); return f.mtpScattered() }

// disordered returns the first cell that does not continue the one before it, or -1.
func disordered(p *Split) int {
	next := 0
	for i := range p.Cells {
		if p.Cells[i].First != next || p.Cells[i].Decoders < 0 || p.Cells[i].MTP < 0 {
			return i
		}
		next += p.Cells[i].Decoders
	}
	return -1
}

// emptyRank returns the first pipeline rank without decoder layers, MTP layers or loss, or -1.
func emptyRank(p *Split) int {
	for r := range min(p.PP, len(p.Cells)) {
		work := false
		for i := r; i < len(p.Cells); i += p.PP {
			c := &p.Cells[i]
			work = work || c.Decoders > 0 || c.MTP > 0 || c.Loss
		}
		if !work {
			return r
		}
	}
	return -1
}

func stagesFinding(stages, pp int) finding {
	var repairs []string
	for _, d := range NearestDivisors(stages, pp) {
		repairs = append(repairs, fmt.Sprintf("pp%d", d))
	}
	for _, n := range NearestMultiples(pp, stages) {
		repairs = append(repairs, fmt.Sprintf("a layout string of %d stages", n))
	}
	if pp < 1 {
		return found(repairs, "PP %d is below 1", pp)
	}
	return found(repairs, "the layout string has %d stages, which PP %d does not divide (%d %% %d = %d)", stages, pp, stages, pp, stages%pp)
}

func endsFinding(f *splitFacts) finding {
	first, last := "nothing", "nothing"
	if f.first != 0 {
		first, last = string(f.first), string(f.last)
	}
	return found([]string{"one E at the very beginning and one L at the very end"},
		"the split starts with %s and ends with %s, and has %d E and %d L", first, last, f.e, f.l)
}

func countFinding(f *splitFacts, layers, mtp int) finding {
	if layers < 0 {
		return found(nil, "the split has %d MTP layers, the model %d", f.m, mtp)
	}
	return found(nil, "the split has %d decoder and %d MTP layers, the model %d and %d", f.t, f.m, layers, mtp)
}

func mtpChunkFinding(f *splitFacts) finding {
	repairs := []string{"every m in the last stage, before L"}
	if f.mtpEarly >= 0 && f.pp > 0 {
		return found(repairs, "cell %d holds an MTP layer but is chunk %d of %d on pipeline rank %d",
			f.mtpEarly+1, f.mtpEarly/f.pp+1, f.cells/f.pp, f.mtpEarly%f.pp)
	}
	return found(repairs, "MTP layers are spread from cell %d to cell %d", f.mtpFirst+1, f.mtpLast+1)
}

func movedFinding(f *splitFacts) finding {
	return found([]string{fmt.Sprintf("drop the empty stages: E belongs in stage 1 and L in stage %d", f.cells)},
		"E stands in stage %d and L in stage %d of %d; embedding and output layer are built in stages 1 and %d",
		f.eCell+1, f.lCell+1, f.cells, f.cells)
}
