package memmodel

import "github.com/moeplan/moeplan/layout/arch"

// Elements counts the parameters of one rank, split as the optimizer splits them.
type Elements struct {
	// Dense parameters are sharded by the distributed optimizer over DP*CP, Expert ones over EDP.
	// A routed expert is in the expert set only if EP > 1 or ETP != TP
	// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/tensor_parallel/layers.py:1033-1037).
	Dense  int64 `json:"dense"`
	Expert int64 `json:"expert"`
	// linear counts the weights of TE linears in both sets: what FP8 quantizes.
	linear int64
	// alignedDense and alignedExpert round each parameter up to where the next may start in a buffer.
	alignedDense, alignedExpert int64
	// single counts the dense parameters that stay fp32 (Mamba's A_log and D), which are in Dense too.
	single int64
}

// Total is Dense + Expert.
func (e Elements) Total() int64 { return e.Dense + e.Expert }

func (e Elements) plus(o *Elements, times int64) Elements {
	return Elements{e.Dense + o.Dense*times, e.Expert + o.Expert*times, e.linear + o.linear*times,
		e.alignedDense + o.alignedDense*times, e.alignedExpert + o.alignedExpert*times, e.single + o.single*times}
}

// Parameter is one parameter of a rank, in the order in which the model registers it.
type Parameter struct {
	Name     string
	Elements int64
	Expert   bool // in the expert set
	Matrix   bool // two-dimensional and neither embedding nor output layer: what Muon orthogonalizes
	// Shared says that the first and the last stage hold a copy each (tied embeddings with PP > 1).
	Shared bool
	single bool
}

type parameterFlags uint8

const (
	linearWeight parameterFlags = 1 << iota // quantized in FP8
	expertSet
	fp32Parameter
	matrix
)

// parameters collects the parameters of one part of a model.
type parameters struct {
	e    Elements
	list *[]Parameter // nil on the hot path
}

func (p *parameters) add(name string, n int64, f parameterFlags) {
	if n == 0 {
		return
	}
	aligned := roundUp(n, parameterAlignment)
	if f&expertSet != 0 {
		p.e.Expert += n
		p.e.alignedExpert += aligned
	} else {
		p.e.Dense += n
		p.e.alignedDense += aligned
	}
	if f&linearWeight != 0 {
		p.e.linear += n
	}
	if f&fp32Parameter != 0 {
		p.e.single += n
	}
	if p.list != nil {
		*p.list = append(*p.list, Parameter{Name: name, Elements: n, Expert: f&expertSet != 0,
			Matrix: f&(linearWeight|matrix) != 0, single: f&fp32Parameter != 0})
	}
}

// norm adds a norm's weight, and for LayerNorm its bias.
func (p *parameters) norm(m *arch.Model, name string, width int64) {
	weight, bias := name, name
	if p.list != nil { // joining names allocates
		weight, bias = name+".weight", name+".bias"
	}
	p.add(weight, width, 0)
	if m.Normalization == arch.LayerNorm {
		p.add(bias, width, 0)
	}
}

// partElements are the parameters of each kind of layer and of the parts around them, on one rank.
type partElements struct {
	kinds                  [numKinds]Elements // one layer of each kind that the model has
	mtp                    Elements           // an MTP depth without its layers
	embedding, head, norm1 Elements           // word embedding, output layer, one final norm
	positions              Elements           // learned positions, whole on every TP rank, with each embedding
}

// parts counts elements by the table of memory-model.md 1.1 (TE layer spec).
func (s *shape) parts() partElements {
	m := s.m
	var p partElements
	for _, k := range s.kinds.present {
		var c parameters
		s.layerParameters(&c, k)
		p.kinds[k] = c.e
	}
	one := func(n int64) Elements { return Elements{Dense: n, alignedDense: roundUp(n, parameterAlignment)} }
	var norm parameters
	norm.norm(m, "", s.h)
	p.norm1 = norm.e
	p.head = one(s.vocab * s.h)
	p.embedding = p.head
	if m.LearnedPositions {
		p.positions = one(int64(m.MaxPositionEmbeddings) * s.h)
	}
	if m.MTPNumLayers > 0 {
		var mtp parameters
		s.mtpProjection(&mtp)
		mtp.norm(m, "final_layernorm", s.h)
		p.mtp = mtp.e
	}
	return p
}

// layerParameters adds one layer in the order in which its modules are registered.
func (s *shape) layerParameters(p *parameters, k layerKind) {
	if k.mixer() != arch.NoMixer {
		p.norm(s.m, "input_layernorm", s.h)
	}
	switch k.mixer() {
	case arch.GQA:
		s.attentionParameters(p)
	case arch.MLAttention:
		s.latentAttentionParameters(p)
	case arch.MambaMixer:
		s.mambaParameters(p)
	case arch.GatedDeltaNet:
		s.deltaNetParameters(p)
	}
	if k.feedforward() != arch.NoFeedforward {
		p.norm(s.m, "pre_mlp_layernorm", s.h)
	}
	switch k.feedforward() {
	case arch.DenseMLP:
		s.mlpParameters(p)
	case arch.MoEMLP:
		s.moeParameters(p)
	}
}

// mtpProjection is what stands before the layers of an MTP depth: enorm, hnorm, the column-parallel projection of both
// halves. A final norm stands behind them.
func (s *shape) mtpProjection(p *parameters) {
	p.norm(s.m, "enorm", s.h)
	p.norm(s.m, "hnorm", s.h)
	p.add("eh_proj.weight", 2*s.h*s.h/s.tp, linearWeight)
}

func (s *shape) attentionParameters(p *parameters) {
	m := s.m
	heads, groups, d := int64(m.NumAttentionHeads), int64(m.NumQueryGroups), int64(m.KVChannels)
	q, kv := heads*d, groups*d
	qkv := q + 2*kv
	if m.AttentionOutputGate {
		qkv += q
	}
	if m.SoftmaxType == "learnable" {
		p.add("core_attention.softmax_offset", heads/s.tp, 0)
	}
	p.add("linear_proj.weight", q*s.h/s.tp, linearWeight)
	if m.LinearBias {
		p.add("linear_proj.bias", s.h, 0)
	}
	p.add("linear_qkv.weight", qkv*s.h/s.tp, linearWeight)
	if m.QKVBias || m.LinearBias {
		p.add("linear_qkv.bias", qkv/s.tp, 0)
	}
	switch m.QKNorm {
	case arch.PerHeadQKNorm, arch.FullDimQKNorm, arch.FullDimQKNormPerLayer:
		// Megatron's own spec norms per head also where a model's weights norm the whole projection.
		p.norm(m, "q_layernorm", d)
		p.norm(m, "k_layernorm", d)
	}
}

// latentAttentionParameters: the down projections are whole on every TP rank
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/transformer/multi_latent_attention.py, MLASelfAttention).
func (s *shape) latentAttentionParameters(p *parameters) {
	a, heads := s.m.MLA, int64(s.m.NumAttentionHeads)
	ql, kl, rope := int64(a.QLoraRank), int64(a.KVLoraRank), int64(a.QKPosEmbHeadDim)
	qk, v := int64(a.QKHeadDim), int64(a.VHeadDim)
	normed := s.m.QKNorm == arch.MLALatentNorm

	p.add("linear_proj.weight", heads*v*s.h/s.tp, linearWeight)
	if s.m.LinearBias {
		p.add("linear_proj.bias", s.h, 0)
	}
	if ql > 0 {
		p.add("linear_q_down_proj.weight", s.h*ql, linearWeight)
		p.add("linear_q_up_proj.weight", ql*heads*(qk+rope)/s.tp, linearWeight)
	} else {
		p.add("linear_q_proj.weight", s.h*heads*(qk+rope)/s.tp, linearWeight)
	}
	p.add("linear_kv_down_proj.weight", s.h*(kl+rope), linearWeight)
	p.add("linear_kv_up_proj.weight", kl*heads*(qk+v)/s.tp, linearWeight)
	if normed && ql > 0 {
		p.norm(s.m, "q_layernorm", ql)
	}
	if normed {
		p.norm(s.m, "kv_layernorm", kl)
	}
}

// mambaParameters: NVIDIA/Megatron-LM@d98e8a64dd megatron/core/ssm/mamba_mixer.py. A_log and D stay fp32.
func (s *shape) mambaParameters(p *parameters) {
	a := s.m.Mamba
	heads := int64(a.NumHeads)
	inner := heads * int64(a.HeadDim)
	states := 2 * int64(a.NumGroups) * int64(a.StateDim)
	p.add("dt_bias", heads/s.tp, 0)
	p.add("A_log", heads/s.tp, fp32Parameter)
	p.add("D", heads/s.tp, fp32Parameter)
	p.add("in_proj.weight", s.h*(2*inner+states+heads)/s.tp, linearWeight)
	p.add("conv1d.weight", (inner+states)*int64(a.ConvKernel)/s.tp, 0)
	p.add("conv1d.bias", (inner+states)/s.tp, 0)
	p.add("norm.weight", inner/s.tp, 0)
	p.add("out_proj.weight", inner*s.h/s.tp, linearWeight)
}

// deltaNetParameters: NVIDIA/Megatron-LM@d98e8a64dd megatron/core/ssm/gated_delta_net.
func (s *shape) deltaNetParameters(p *parameters) {
	a := s.m.LinearAttention
	heads := int64(a.NumValueHeads)
	qk, v := int64(a.KeyHeadDim)*int64(a.NumKeyHeads), int64(a.ValueHeadDim)*heads
	p.add("in_proj.weight", s.h*(2*qk+2*v+deltaNetGates(a.Variant, qk, v, heads))/s.tp, linearWeight)
	p.add("conv1d.weight", (2*qk+v)*int64(a.ConvKernelDim)/s.tp, 0)
	p.add("dt_bias", heads/s.tp, 0)
	p.add("A_log", heads/s.tp, 0)
	p.add("out_norm.weight", int64(a.ValueHeadDim), 0)
	p.add("out_proj.weight", v*s.h/s.tp, linearWeight)
}

func (s *shape) mlpParameters(p *parameters) {
	f := int64(s.m.FFNHiddenSize) / s.tp
	p.add("linear_fc1.weight", s.gate()*f*s.h, linearWeight)
	if s.m.LinearBias {
		p.add("linear_fc1.bias", s.gate()*f, 0)
	}
	p.add("linear_fc2.weight", f*s.h, linearWeight)
	if s.m.LinearBias {
		p.add("linear_fc2.bias", s.h, 0)
	}
}

func (s *shape) moeParameters(p *parameters) {
	m, moe := s.m, s.m.MoE
	experts, fm := int64(moe.NumExperts), int64(moe.FFNHiddenSize)/s.etp
	p.add("router.weight", experts*s.h, matrix)
	if m.LinearBias {
		p.add("router.bias", experts, 0)
	}
	if moe.LatentSize > 0 {
		p.add("fc1_latent_proj.weight", s.h*s.hl, linearWeight)
		p.add("fc2_latent_proj.weight", s.h*s.hl, linearWeight)
	}
	set := parameterFlags(0)
	if s.l.EP > 1 || s.l.ETP != s.l.TP {
		set = expertSet
	}
	s.expertParameters(p, fm, set)
	if moe.SharedFFNSize > 0 {
		fs := int64(moe.SharedFFNSize) / s.tp
		if moe.SharedExpertGate {
			p.add("shared_experts.gate_weight", s.h, 0)
		}
		p.add("shared_experts.linear_fc1.weight", s.gate()*fs*s.h, linearWeight)
		p.add("shared_experts.linear_fc2.weight", fs*s.h, linearWeight)
	}
}

// expertParameters adds the routed experts of this rank: one by one where they are listed, else all at once.
func (s *shape) expertParameters(p *parameters, fm int64, set parameterFlags) {
	times := int64(1)
	var one parameters
	if p.list != nil {
		times, one.list = s.local, p.list
	}
	for range times {
		one.add("experts.linear_fc1.weight", s.gate()*fm*s.hl, linearWeight|set)
		if s.m.LinearBias {
			one.add("experts.linear_fc1.bias", s.gate()*fm, set)
		}
		one.add("experts.linear_fc2.weight", fm*s.hl, linearWeight|set)
		if s.m.LinearBias {
			one.add("experts.linear_fc2.bias", s.hl, set)
		}
	}
	p.e = p.e.plus(&one.e, s.local/times)
}
