package layout

import (
	"fmt"
	"slices"

	"github.com/moeplan/moeplan/layout/arch"
)

// Rule is one condition that Megatron, Transformer Engine or arithmetic imposes on a layout.
type Rule struct {
	ID         RuleID
	Constraint string // number in the reference list of layout rules, or N1 to N7; "" for moeplan's own
	Severity   Severity
	NoticedAt  NoticedAt
	Title      string // the condition in a few words
	Why        string // one or two sentences
	Source     string // upstream path:line at NVIDIA/Megatron-LM@d98e8a64dd (TE: NVIDIA/TransformerEngine@d0067d0da)

	// axes are the parts of a layout that broken looks at, so that the enumerator can ask as soon as they are chosen.
	axes axes
	// broken is arithmetic only: no allocation, no formatting. nil: the rule is about a layout string (CheckSplit).
	broken func(s *subject) bool
	// explain is asked only where broken is true.
	explain func(s *subject) finding
}

// axes is a set of the parts of a layout that an enumerator chooses one after the other. What a run fixes (world,
// sequence, global batch, precision, dispatcher, order) and the model are known from the start and in no set.
type axes uint16

const (
	axisTP axes = 1 << iota
	axisCP
	axisPP
	axisETP
	axisEP
	axisVPP // and with it the split
	axisMBS
	axisRecompute
)

// subject is what rules look at.
type subject struct {
	m *arch.Model
	l *Layout
	traits
}

// traits sum up the layers of a model, MTP layers included.
type traits struct {
	attention bool // a full or windowed attention layer that is not MLA
	dense     bool // a dense MLP
	moe       bool
	gdn       bool
	mamba     bool
	windowed  bool
	layersErr error // the layer kinds cannot be resolved
}

func traitsOf(m *arch.Model) (t traits) {
	layers := m.Layers()
	if len(layers) == 0 && m.NumLayers > 0 && m.Kind != arch.Hybrid && m.MoE != nil {
		_, t.layersErr = m.MoE.LayerFreq.Expand(m.NumLayers)
	}
	for _, l := range slices.Concat(layers, m.MTPLayers()) {
		t.add(l)
	}
	return t
}

func (t *traits) add(l arch.Layer) {
	t.attention = t.attention || l.Mixer == arch.GQA
	t.gdn = t.gdn || l.Mixer == arch.GatedDeltaNet
	t.mamba = t.mamba || l.Mixer == arch.MambaMixer
	t.dense = t.dense || l.Feedforward == arch.DenseMLP
	t.moe = t.moe || l.Feedforward == arch.MoEMLP
	t.windowed = t.windowed || l.Windowed
}

// finding is what a broken rule says about one layout.
type finding struct {
	message string
	repairs []string
}

func found(repairs []string, format string, args ...any) finding {
	return finding{message: fmt.Sprintf(format, args...), repairs: repairs}
}

// table holds every rule in the order in which the framework would hit it; ruleIndex finds one.
var (
	table     = orderedRules()
	ruleIndex = indexRules()
)

func orderedRules() []Rule {
	all := slices.Concat(meshRules, attentionRules, sequenceRules, splitRules, pipelineRules, batchRules, moeRules,
		routerRules, recomputeRules, overlapRules)
	place := make(map[RuleID]int, len(firingOrder))
	for i, id := range firingOrder {
		place[id] = i
	}
	slices.SortStableFunc(all, func(a, b Rule) int { return place[a.ID] - place[b.ID] })
	return all
}

func indexRules() map[RuleID]int {
	index := make(map[RuleID]int, len(table))
	for i := range table {
		index[table[i].ID] = i
	}
	return index
}

// Rules returns every rule in the order in which the framework would hit it. The slice is the caller's.
func Rules() []Rule { return slices.Clone(table) }

// LookupRule returns one rule. The error names the nearest ID.
func LookupRule(id string) (Rule, error) {
	if i, ok := ruleIndex[RuleID(id)]; ok {
		return table[i], nil
	}
	names := make([]string, len(table))
	for i := range table {
		names[i] = string(table[i].ID)
	}
	return Rule{}, fmt.Errorf("unknown rule %q%s", clip(id), didYouMean(id, names))
}

// violate makes the violation of a rule.
func violate(id RuleID, f finding) Violation {
	i, ok := ruleIndex[id]
	if !ok {
		panic("bug: no rule " + string(id))
	}
	r := &table[i]
	if f.repairs == nil {
		f.repairs = []string{}
	}
	return Violation{Rule: r.ID, Constraint: r.Constraint, Severity: r.Severity, NoticedAt: r.NoticedAt,
		Message: f.message, Repairs: f.repairs, Source: r.Source}
}

// Check returns every rule that the layout breaks, in the order in which the framework would hit them (argument checks,
// micro-batch calculator, config, process groups, model build, first step, schedule), nil if it breaks none.
//
// A layout is legal iff no violation is of severity Error. Where a size is below 1 or absurdly large (MaxSize,
// MaxSequence), only that is reported, because nothing else can be computed. A nil Split means that Megatron places the layers itself.
func Check(m *arch.Model, l *Layout) Violations {
	s := subject{m: m, l: l, traits: traitsOf(m)}
	var vs Violations
	for i := range table {
		r := &table[i]
		if r.broken == nil || !r.broken(&s) {
			continue
		}
		vs = append(vs, violate(r.ID, r.explain(&s)))
		if r.ID == sizesPositive { // first of all: the other rules divide by the sizes, and multiply them
			break
		}
	}
	return vs
}
