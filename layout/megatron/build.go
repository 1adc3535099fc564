package megatron

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// buildFailure is a rule that a stage breaks, with the kind of the layer that shows it.
type buildFailure struct {
	rule  *rule
	layer arch.Layer
}

// maxRecordedExperts is how many expert MLPs a rank may hold before the main recorder left the build out.
const maxRecordedExperts = 400

// builds reports whether the recorder in question built the model.
func (c *launch) builds() bool {
	if c.checks != Recorder || !c.moe() {
		return true
	}
	moe := 0
	for _, l := range c.layers {
		if l.Feedforward == arch.MoEMLP {
			moe++
		}
	}
	if list, _ := c.moeFreq(); c.layers == nil && list != nil {
		moe = len(list)
	}
	return moe*c.Shape.NumExperts < maxRecordedExperts*c.Degrees.PP*c.Degrees.EP
}

// walk asks the layerwise rules stage by stage and returns the broken ones in the order in which they are hit.
func (c *launch) walk(rules []*rule) []buildFailure {
	if !c.builds() {
		return nil
	}
	var failures []buildFailure
	seen := map[*rule]bool{}
	ask := func(layer arch.Layer, which func(r *rule) bool) {
		c.look(layer)
		for _, r := range rules {
			if which(r) && !seen[r] && c.runs(r) && r.broken(c) {
				seen[r] = true
				failures = append(failures, buildFailure{r, layer})
			}
		}
	}
	isBlock := func(r *rule) bool {
		return r.ID == "block-pp" || r.ID == "vpp-divides-layers" || r.ID == "uneven-pp-2-vpp"
	}
	isStep := func(r *rule) bool { return r.NoticedAt == layout.AtFirstStep }
	isPart := func(r *rule) bool { return !isBlock(r) && !isStep(r) }
	for i, kinds := range c.stages() {
		c.stage = i
		ask(arch.Layer{}, isBlock)
		for _, k := range kinds {
			ask(k, isPart)
		}
		for _, k := range kinds {
			ask(k, isStep)
		}
	}
	return failures
}

// stages returns the kinds of layers of each stage that is built, in order and each kind once a stage. Where the layers
// cannot be placed, all of them count as one stage.
func (c *launch) stages() [][]arch.Layer {
	s := c.l.Split
	if s == nil || c.layers == nil {
		return [][]arch.Layer{distinct(c.layers, c.model.MTPLayers())}
	}
	built := make([][]arch.Layer, 0, s.PP)
	for rank := range s.PP {
		if c.checks == Recorder && rank != 0 && rank != s.PP-1 {
			continue
		}
		var kinds []arch.Layer
		for chunk := range s.VPP {
			cell := s.Cell(rank, chunk)
			if cell.First+cell.Decoders > len(c.layers) {
				continue
			}
			kinds = append(kinds, c.layers[cell.First:cell.First+cell.Decoders]...)
			switch {
			case cell.MTP > 0 && cell.Decoders == 0:
				kinds = append(kinds, c.model.MTPLayersAlone()...)
			case cell.MTP > 0:
				kinds = append(kinds, c.model.MTPLayers()...)
			}
		}
		built = append(built, distinct(kinds))
	}
	return built
}

// distinct keeps the first of each kind.
func distinct(lists ...[]arch.Layer) []arch.Layer {
	var kinds []arch.Layer
	for _, list := range lists {
		for _, l := range list {
			known := false
			for _, k := range kinds {
				known = known || k == l
			}
			if !known {
				kinds = append(kinds, l)
			}
		}
	}
	return kinds
}

// look limits layer rules to one kind; the zero kind is none.
func (c *launch) look(layer arch.Layer) {
	c.looking = layer
	c.judge.Look(layer)
}

// lookAtAll undoes look.
func (c *launch) lookAtAll() { c.judge = layout.NewJudge(c.model, &c.l) }
