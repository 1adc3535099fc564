package arch

import "fmt"

// Layers returns the kind of each decoder layer, in order, without MTP layers. It is nil for a model that
// Validate refuses. The slice is the caller's.
//
// Sources: --moe-layer-freq megatron/core/models/gpt/gpt_layer_specs.py; --linear-attention-freq
// megatron/core/models/gpt/experimental_attention_variant_module_specs.py; the pattern letters
// megatron/core/models/hybrid/hybrid_layer_allocation.py; --window-attn-skip-freq
// megatron/core/transformer/utils.py, is_layer_window_attention.
func (m *Model) Layers() []Layer {
	layers, err := m.layers()
	if err != nil {
		return nil
	}
	return layers
}

func (m *Model) layers() ([]Layer, error) {
	if m.Kind == Hybrid {
		return m.patternLayers(m.HybridLayerPattern)
	}
	if m.NumLayers < 1 || m.NumLayers > MaxLayers {
		return nil, fmt.Errorf("num_layers %d: between 1 and %d are supported", m.NumLayers, MaxLayers)
	}
	layers := make([]Layer, m.NumLayers)
	var moe []bool
	if m.MoE != nil {
		var err error
		if moe, err = m.MoE.LayerFreq.Expand(m.NumLayers); err != nil {
			return nil, err
		}
	}
	for i := range layers {
		layers[i] = Layer{Mixer: m.attention(), Feedforward: DenseMLP}
		if la := m.LinearAttention; la != nil && (la.Freq < 1 || (i+1)%la.Freq != 0) {
			layers[i].Mixer = GatedDeltaNet
		}
		if moe != nil && moe[i] {
			layers[i].Feedforward = MoEMLP
		}
		layers[i].Windowed = m.windowed(i, layers[i].Mixer)
	}
	return layers, nil
}

// attention is the kind of the model's full attention layers.
func (m *Model) attention() Mixer {
	if m.MLA != nil {
		return MLAttention
	}
	return GQA
}

// windowed reports whether layer i (from 0) attends to a window only. Megatron counts layers from 1 and
// leaves every SkipFreq-th one full; a SkipFreq of 0 windows all of them.
func (m *Model) windowed(i int, mixer Mixer) bool {
	if m.SlidingWindow == nil || (mixer != GQA && mixer != MLAttention) {
		return false
	}
	skip := m.SlidingWindow.SkipFreq
	return skip < 1 || (i+1)%skip != 0
}

// patternLayers reads a hybrid pattern, one letter a layer. Each layer is either a mixer or an MLP.
func (m *Model) patternLayers(pattern string) ([]Layer, error) {
	if len(pattern) == 0 || len(pattern) > MaxLayers {
		return nil, fmt.Errorf("hybrid layer pattern of %d letters: between 1 and %d are supported", len(pattern), MaxLayers)
	}
	layers := make([]Layer, len(pattern))
	for i := range len(pattern) {
		switch pattern[i] {
		case 'M':
			layers[i].Mixer = MambaMixer
		case 'G':
			layers[i].Mixer = GatedDeltaNet
		case '*':
			layers[i].Mixer = m.attention()
		case 'E':
			layers[i].Feedforward = MoEMLP
		case '-':
			layers[i].Feedforward = DenseMLP
		default:
			return nil, fmt.Errorf("hybrid layer pattern: %q at %d is none of M * E - G", pattern[i], i+1)
		}
		layers[i].Windowed = m.windowed(i, layers[i].Mixer)
	}
	return layers, nil
}

// MTPLayers returns the layers of ONE multi-token-prediction depth: for a GPT model one layer of the kind
// of its last decoder layer, for a hybrid those of MTPHybridPattern. It is nil without MTP and for models
// that Validate refuses. Every depth has the same layers; MTPNumLayers says how many depths there are.
//
// A GPT model's MTP layers take the spec of the last decoder layer in the chunk that holds them
// (gpt_builders.py:56-64). A chunk with MTP and no decoder layer is different: see MTPLayersAlone.
func (m *Model) MTPLayers() []Layer {
	if m.MTPNumLayers < 1 {
		return nil
	}
	if m.Kind == Hybrid {
		layers, err := m.patternLayers(m.MTPHybridPattern)
		if err != nil {
			return nil
		}
		return layers
	}
	layers := m.Layers()
	if len(layers) == 0 {
		return nil
	}
	return layers[len(layers)-1:]
}

// MTPLayersAlone is MTPLayers for a chunk that holds MTP layers and no decoder layer: there the builder
// falls back to the model's general layer spec, so the layer is MoE in any model that has experts, even
// if its last decoder layer is dense (gpt_builders.py:56-64; recorded verdicts extra 598 and 655).
func (m *Model) MTPLayersAlone() []Layer {
	layers := m.MTPLayers()
	if m.Kind == Hybrid || m.MoE == nil {
		return layers
	}
	for i := range layers {
		layers[i].Feedforward = MoEMLP
	}
	return layers
}
