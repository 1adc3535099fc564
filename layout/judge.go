package layout

import "github.com/moeplan/moeplan/layout/arch"

// Judge asks single rules about one model and layout, for a caller that knows which of them apply, in which order, and to
// which layers: package megatron judges command lines, which break rules that no Layout can hold and need not be whole
// layouts. Sizes below 1 other than those of the rule about sizes make every answer meaningless: ask that one first.
type Judge struct{ s subject }

// NewJudge returns a Judge that looks at all layers of the model. The model need not be one that Validate accepts.
func NewJudge(m *arch.Model, l *Layout) Judge {
	return Judge{subject{m: m, l: l, traits: traitsOf(m)}}
}

// Look limits the rules about layers to one of that kind.
func (j *Judge) Look(layer arch.Layer) {
	j.s.traits = traits{}
	j.s.add(layer)
}

// Broken reports whether the layout breaks the rule. It is false for rules about layout strings (CheckSplit).
func (j *Judge) Broken(r *Rule) bool { return r.broken != nil && r.broken(&j.s) }

// Message says how the layout breaks the rule. It must be broken.
func (j *Judge) Message(r *Rule) string { return r.explain(&j.s).message }
