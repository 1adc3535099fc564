package megatron

import (
	"errors"
	"fmt"
)

// ErrTheoretical is wrapped where upstream's own estimate fails on a command line, or does not exist.
var ErrTheoretical = errors.New("megatron: no theoretical footprint")

// Footprint is upstream's own estimate of a rank's memory, the "Theoretical memory footprints" of its log, in bytes. It is
// not what a run needs: it knows no context parallelism, no recomputation, no experts or latent attention in its
// activations, and takes dense optimizer state over DP alone.
type Footprint struct {
	// WeightAndOptimizer is 18 bytes a parameter of the most loaded rank, or 6 + 12/DP with the distributed optimizer.
	WeightAndOptimizer float64 `json:"weight_and_optimizer_bytes"`
	// WithSP and WithoutSP are activations by its two formulas. The log shows WithSP only where sequence parallel is on and
	// recomputation is selective: SP says so.
	WithSP    float64 `json:"activation_sp_bytes"`
	WithoutSP float64 `json:"activation_no_sp_bytes"`
	SP        bool    `json:"sp"`
}

const mebibyte = 1024 * 1024

// ReportMiB returns the three figures of the log line in MiB, before they are rounded to two decimals.
func (f Footprint) ReportMiB() (weights, activations, total float64) {
	weights, activations = f.WeightAndOptimizer/mebibyte, f.WithoutSP/mebibyte
	if f.SP {
		activations = f.WithSP / mebibyte
	}
	return weights, activations, weights + activations
}

// Theoretical reproduces the estimate of main (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/theoretical_memory_usage.py),
// operation by operation, so that its line in a log can be told from a measurement. A microbatches of 0 stands for an
// unknown number. Older releases print other figures (0.11 counts every layer as MoE; before 0.18.2 experts are sharded
// over DP).
//
// The error is ErrTheoretical: for hybrid models, which it leaves out; where the framework's own code stops (an expert mesh
// larger than the world, a layer list of the wrong length); and for sizes that are not given.
func Theoretical(r *Resolved, microbatches int) (Footprint, error) {
	p, err := r.footprintSizes()
	if err != nil {
		return Footprint{}, err
	}
	return Footprint{
		WeightAndOptimizer: p.weightAndOptimizer(),
		WithSP:             p.activationsWithSP(microbatches),
		WithoutSP:          p.activationsWithoutSP(microbatches),
		SP:                 r.SequenceParallel && r.Recompute.Granularity == "selective",
	}, nil
}

// footprint holds every size as the floating-point number that Python computes with; all of them are whole.
type footprint struct {
	r                                     *Resolved
	h, heads, groups, kv, ffn, vocab      float64
	dense, moe, mtpDense, mtpMoE          float64 // layers
	experts, moeFFN, topK, shared, latent float64
	norm, gate                            float64 // parameters of a norm per width, factor of gated MLPs
	tp, pp, etp, ep, dp, edp, vpp         float64
	seq, mbs, layers                      float64
}

func (r *Resolved) footprintSizes() (*footprint, error) {
	s, m, d := r.Settings, &r.Shape, r.Degrees
	switch {
	case m.Hybrid != nil:
		return nil, fmt.Errorf("%w: upstream has none for hybrid models", ErrTheoretical)
	case m.NumLayers < 1 || m.HiddenSize < 1 || m.Heads < 1 || m.PaddedVocab < 1 || r.Batch.SeqLength < 1 || r.Batch.MicroBatchSize < 1:
		return nil, fmt.Errorf("%w: layers, hidden size, heads, padded vocabulary, sequence or micro-batch are not given", ErrTheoretical)
	case r.DP < 1:
		return nil, fmt.Errorf("%w: the attention mesh is larger than the world", ErrTheoretical)
	case r.EDP < 1 && r.DistributedOptimizer:
		return nil, fmt.Errorf("%w: the expert mesh is larger than the world, so that its data parallel size is 0", ErrTheoretical)
	case m.Latent && s.Bool("group_query_attention"):
		return nil, fmt.Errorf("%w: latent attention with --group-query-attention", ErrTheoretical)
	}
	p := &footprint{r: r,
		h: float64(m.HiddenSize), heads: float64(m.Heads), groups: float64(m.QueryGroups), kv: float64(m.KVChannels),
		ffn: float64(m.FFN), vocab: float64(m.PaddedVocab),
		moeFFN: float64(m.MoEFFN), topK: float64(s.Int("moe_router_topk")), shared: float64(s.Int("moe_shared_expert_intermediate_size")),
		latent: float64(s.Int("moe_latent_size")), experts: max(1, float64(m.NumExperts)), norm: 2, gate: 1,
		tp: float64(d.TP), pp: float64(d.PP), etp: float64(d.ETP), ep: float64(d.EP), dp: float64(r.DP), edp: float64(r.EDP),
		vpp: float64(r.Pipeline.VPP), seq: float64(r.Batch.SeqLength), mbs: float64(r.Batch.MicroBatchSize), layers: float64(m.NumLayers)}
	if s.String("normalization") == "RMSNorm" {
		p.norm = 1
	}
	if s.Bool("swiglu") {
		p.gate = 3. / 2
	}
	last, err := p.layerKinds()
	if err != nil {
		return nil, err
	}
	if m.MTPGiven {
		p.mtpMoE = last * float64(m.MTPLayers)
		p.mtpDense = (1 - last) * float64(m.MTPLayers)
	}
	return p, nil
}

// layerKinds counts MoE and dense layers and returns the kind of the last one.
func (p *footprint) layerKinds() (last float64, err error) {
	p.dense = p.layers
	if p.r.Shape.NumExperts < 1 {
		return 0, nil
	}
	n, freq := p.r.Shape.NumLayers, p.r.Settings.Value("moe_layer_freq")
	switch {
	case freq.IsList() && len(freq.Ints()) != n:
		return 0, fmt.Errorf("%w: --moe-layer-freq lists %d layers of %d", ErrTheoretical, len(freq.Ints()), n)
	case freq.IsList():
		for _, e := range freq.Ints() {
			p.moe += float64(e)
			last = float64(e)
		}
	case freq.Int() == 0:
		return 0, fmt.Errorf("%w: --moe-layer-freq 0", ErrTheoretical)
	default:
		every := max(freq.Int(), -freq.Int()) // Python's remainder by a negative number is 0 for the same layers
		p.moe = float64((n-1)/every + 1)
		if (n-1)%every == 0 {
			last = 1
		}
	}
	p.dense -= p.moe
	return last, nil
}

// attention are the parameters of one attention layer.
func (p *footprint) attention() float64 {
	s := p.r.Settings
	if !p.r.Shape.Latent {
		ratio := p.kv * p.heads / p.h
		return 2 * p.h * p.h * ((1 + p.groups/p.heads) * ratio)
	}
	qk, rope, v := float64(s.Int("qk_head_dim")), float64(s.Int("qk_pos_emb_head_dim")), float64(s.Int("v_head_dim"))
	kvRank, qRank := float64(s.Int("kv_lora_rank")), float64(s.Int("q_lora_rank"))
	q := p.h * p.heads * (qk + rope)
	if !s.IsNone("q_lora_rank") {
		q = qRank * (p.h + p.heads*(qk+rope) + p.norm)
	}
	return q + kvRank*(p.h+p.heads*(qk+v)+p.norm) + p.h*rope + p.heads*v*p.h
}

func (p *footprint) weightAndOptimizer() float64 {
	s := p.r.Settings
	attention := p.attention()
	denseMLP := 2 * p.h * p.ffn * p.gate
	shared := 2 * p.h * p.shared * p.gate
	width := p.h
	if p.latent > 0 {
		width = p.latent
	}
	routed := 2 * width * p.moeFFN * p.experts * p.gate
	norms := 2 * p.h * p.norm
	var router, sharedGate, latent float64
	if p.r.Shape.NumExperts > 0 {
		router = p.h * p.experts
		if s.Bool("add_bias_linear") {
			router += p.experts
		}
		latent = 2 * p.h * p.latent
	} else {
		routed = 0
	}
	if p.shared > 0 && s.Bool("moe_shared_expert_gate") {
		sharedGate = p.h
	}
	beside := norms + latent + router + sharedGate // what every rank holds of an MoE layer
	embedding := p.h * p.vocab

	tpSharded := (attention+denseMLP)*p.dense + (attention+shared)*p.moe
	replicated := norms*p.dense + beside*p.moe + p.norm*p.h
	expert := routed * p.moe
	mtpSharded := (attention+denseMLP)*p.mtpDense + (attention+shared)*p.mtpMoE
	mtpReplicated := norms*p.mtpDense + beside*p.mtpMoE
	mtpExpert := routed * p.mtpMoE

	tpSharded = (tpSharded/p.pp + mtpSharded + embedding) / p.tp
	replicated = replicated/p.pp + mtpReplicated
	expert = (expert/p.pp + mtpExpert) / (p.etp * p.ep)
	if s.Bool("untie_embeddings_and_output_weights") && p.pp == 1 {
		tpSharded += embedding / p.tp
	}
	return (tpSharded+replicated)*p.bytesPerParameter(p.dp) + expert*p.bytesPerParameter(p.edp)
}

func (p *footprint) bytesPerParameter(shards float64) float64 {
	if !p.r.DistributedOptimizer {
		return 18
	}
	return 6 + 12/shards
}

// activationsWithSP: arXiv:2205.05198 table 2, for the first stage.
func (p *footprint) activationsWithSP(microbatches int) float64 {
	n := p.seq * p.mbs * p.h * (18 + 4*(p.ffn/p.h))
	n *= p.layers
	n = p.inFlight(n+8*p.seq*p.mbs*p.pp+p.seq*p.mbs*p.h*p.pp, microbatches)
	if p.pp == 1 {
		n += p.seq * p.mbs * p.h * 4 * (1 + p.vocab/p.h)
	}
	return n / p.tp
}

func (p *footprint) activationsWithoutSP(microbatches int) float64 {
	n := p.seq * p.mbs * p.h * (10 + 24/p.tp)
	n *= p.layers
	n = p.inFlight(n+8*p.seq*p.mbs*p.pp+p.seq*p.mbs*p.h*p.pp, microbatches)
	if p.pp == 1 {
		n += (p.seq*p.mbs*p.vocab/p.tp + p.seq*p.mbs*p.h) * 2
	}
	return n * 1.05
}

// inFlight applies the schedule: more with interleaving, less where micro-batches do not fill the pipeline.
func (p *footprint) inFlight(n float64, microbatches int) float64 {
	switch {
	case p.vpp > 0:
		return n * (1 + (p.pp-1)/(p.pp*p.vpp))
	case p.pp > 1 && microbatches > 0:
		return n * min(1, float64(microbatches)/p.pp)
	}
	return n
}
