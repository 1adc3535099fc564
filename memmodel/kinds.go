package memmodel

import (
	"slices"

	"github.com/moeplan/moeplan/layout/arch"
)

const (
	numMixers       = 5
	numFeedforwards = 3
	numKinds        = numMixers * numFeedforwards
)

// layerKind is a mixer with a feedforward. Two layers of equal kind cost the same.
type layerKind uint8

func kindOf(l arch.Layer) layerKind {
	return layerKind(int(l.Mixer)*numFeedforwards + int(l.Feedforward))
}

func (k layerKind) mixer() arch.Mixer             { return arch.Mixer(k / numFeedforwards) }
func (k layerKind) feedforward() arch.Feedforward { return arch.Feedforward(k % numFeedforwards) }
func (k layerKind) moe() bool                     { return k.feedforward() == arch.MoEMLP }

// modelKinds is what an estimator keeps of a model's layers.
type modelKinds struct {
	layers  []layerKind // decoder layers in order
	present []layerKind // each kind once, MTP's included
	// mtp are the layers of one MTP depth, mtpAlone those in a chunk without decoder layers.
	mtp, mtpAlone []layerKind
	mixers        []arch.Mixer       // each once
	feedforwards  []arch.Feedforward // each once
}

func kindsOf(m *arch.Model) *modelKinds {
	k := &modelKinds{}
	convert := func(layers []arch.Layer) []layerKind {
		out := make([]layerKind, len(layers))
		for i, l := range layers {
			out[i] = kindOf(l)
			k.see(out[i])
		}
		return out
	}
	k.layers = convert(m.Layers())
	k.mtp = convert(m.MTPLayers())
	k.mtpAlone = convert(m.MTPLayersAlone())
	return k
}

func (k *modelKinds) see(kind layerKind) {
	k.present = addOnce(k.present, kind)
	k.mixers = addOnce(k.mixers, kind.mixer())
	k.feedforwards = addOnce(k.feedforwards, kind.feedforward())
}

func addOnce[T comparable](list []T, x T) []T {
	if slices.Contains(list, x) {
		return list
	}
	return append(list, x)
}
