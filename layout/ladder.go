package layout

import "github.com/moeplan/moeplan/layout/arch"

// RecomputeLadder returns the recompute choices that are worth trying for a model, cheapest in time first: none, then
// ever more modules whose recompute costs little, then whole MoE layers, then everything. Modules that the model lacks
// are left out, and core_attn is never recomputed, because fused attention does so by itself.
func RecomputeLadder(m *arch.Model) []Recompute {
	t := traitsOf(m)
	shared := t.moe && m.MoE != nil && m.MoE.SharedFFNSize > 0
	var cheap, heavy Modules // what each further rung adds, and the last rung before full
	rungs := []Recompute{{}}
	add := func(has bool, module Modules) {
		if has {
			cheap |= module
			rungs = append(rungs, SelectiveRecompute(cheap))
		}
	}
	switch {
	case m.MLA != nil:
		add(true, MLAUpProj)
		add(t.dense, MLP)
		heavy = cheap | MoE | LayerNorm
		add(t.moe, MoEAct)
		add(true, LayerNorm)
		add(shared, SharedExperts)
	case t.moe:
		heavy = MoE | LayerNorm
		add(true, MoEAct)
		add(true, LayerNorm)
		add(shared, SharedExperts)
	default: // norms are fused into the linears that follow, so layernorm would drop nothing
		add(t.dense, MLP)
	}
	if t.moe {
		rungs = append(rungs, SelectiveRecompute(heavy))
	}
	return append(rungs, FullRecompute)
}
