package steptime

import "github.com/moeplan/moeplan/layout/arch"

// content is what a layer consists of. A GPT layer is a mixer and a feedforward; each letter of a hybrid pattern is one
// of them alone.
type content struct {
	attention bool
	linear    bool // a gated delta net or a Mamba mixer: a model has one of the two
	dense     bool
	moe       bool
}

// Kinds of layers, by index into [contents]; recomputedKind more for a layer that is recomputed as a whole.
const (
	denseKind  = 0
	moeKind    = 1
	linearMoE  = 2
	linearMLP  = 3
	attnAlone  = 4
	linearOnly = 5
	moeAlone   = 6
	mlpAlone   = 7

	recomputedKind = 8
	numKinds       = 16
)

var contents = [recomputedKind]content{
	denseKind:  {attention: true, dense: true},
	moeKind:    {attention: true, moe: true},
	linearMoE:  {linear: true, moe: true},
	linearMLP:  {linear: true, dense: true},
	attnAlone:  {attention: true},
	linearOnly: {linear: true},
	moeAlone:   {moe: true},
	mlpAlone:   {dense: true},
}

// kindOf is a layer's kind.
func kindOf(l arch.Layer) int {
	c := content{
		attention: l.Mixer == arch.GQA || l.Mixer == arch.MLAttention,
		linear:    l.Mixer == arch.GatedDeltaNet || l.Mixer == arch.MambaMixer,
		dense:     l.Feedforward == arch.DenseMLP,
		moe:       l.Feedforward == arch.MoEMLP,
	}
	for kind := range contents {
		if contents[kind] == c {
			return kind
		}
	}
	return denseKind // a layer of nothing, which Validate refuses
}

// countLayers fills in how many layers of each kind stand before each layer, and which kinds there are.
func (e *Estimator) countLayers(layers []arch.Layer) {
	e.numLayers = len(layers)
	present := func(kind int) {
		if e.before[kind] == nil {
			e.before[kind] = make([]int32, len(layers)+1)
			e.kinds = append(e.kinds, kind)
		}
	}
	attention, windowed := 0, 0
	for i, l := range layers {
		kind := kindOf(l)
		present(kind)
		for j := i + 1; j <= len(layers); j++ {
			e.before[kind][j]++
		}
		if i > 0 && kind != kindOf(layers[i-1]) {
			e.uniformFrom = i
		}
		if contents[kind].attention {
			attention++
		}
		if l.Windowed {
			windowed++
		}
	}
	if attention > 0 {
		e.windowed = float64(windowed) / float64(attention)
	}
	if b := e.before[moeKind]; b != nil {
		e.moeLayers = int(b[len(layers)])
	}
	if w := e.model.SlidingWindow; w != nil {
		e.window = float64(w.Window)
	}
	for _, l := range e.model.MTPLayers() {
		e.mtp = append(e.mtp, kindOf(l))
		present(kindOf(l))
	}
	for _, l := range e.model.MTPLayersAlone() {
		e.mtpAlone = append(e.mtpAlone, kindOf(l))
		present(kindOf(l))
	}
}

// count is how many of n layers from first on are of a kind.
func (e *Estimator) count(kind, first, n int) float64 {
	b := e.before[kind]
	return float64(b[first+n] - b[first])
}
