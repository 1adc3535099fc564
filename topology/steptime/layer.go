package steptime

import (
	"math"

	"github.com/moeplan/moeplan/layout"
)

// layerTime is one layer, forward and backward of one micro-batch, in seconds.
type layerTime struct {
	compute float64 // kernels, recompute included
	exposed [NumAxes]float64
	hidden  float64 // EP and ETP time under other kernels
	startup float64 // what the layer takes longer where no other micro-batch hides it
	host    float64 // what gap and launch floor add
	total   float64

	// Parts, for tests and reports: forward passes, expWgrad one backward pass.
	proj, up, core, attnMemory, scan  float64
	experts, expWgrad, shared, ffnMem float64
	mlp, recompute                    float64
	launch                            float64
	dispatch                          exchange // of one operation
	exchanges                         float64  // operations
	tp                                ring     // of one collective
	tpOps                             float64
	cp                                ring // over the whole layer
}

// layer prices one layer into t, which must be zero.
func (e *Estimator) layer(k *task, t *layerTime, c *content, full bool) {
	s := &e.shape
	if c.attention {
		dim := min(s.h, s.heads*s.headDim/k.tp)
		t.proj = e.gemm(k, s.projMAC, dim)
		t.up = e.gemm(k, s.upMAC, dim)
		t.core = e.attention(k)
		t.attnMemory = k.own * 2 * (8*s.h + 3*s.qkv) * k.perByte
	}
	if c.linear {
		e.linearMixer(k, t)
	}
	if c.moe {
		e.moe(k, t)
	}
	if c.dense {
		t.mlp = e.wideGEMM(k, s.mlp*s.h*s.ffn, s.ffn/k.tp)
		t.ffnMem = k.own * 2 * 4 * s.ffn * k.perByte
	}
	t.recompute = repeated(t, k.l.Recompute, c.moe, full)
	t.compute = 3*(t.proj+t.attnMemory+t.mlp+t.shared+t.ffnMem+t.scan) + (1+attnBackward)*t.core +
		2*t.experts + t.expWgrad + t.recompute

	e.tensorParallel(k, t, c, full)
	if c.attention {
		e.contextParallel(k, t, full)
	}
	if c.linear {
		t.cp = e.linearExchange(k, full)
		t.exposed[CP] = t.cp.seconds
	}
	if c.moe {
		e.expertParallel(k, t, full)
	}

	host, gap := c.host()
	gap *= e.chip.family.gap * gapScale[k.sw.Graph] * e.host
	t.launch = host * e.chip.family.host * hostScale[k.sw.Graph] * e.host
	device := t.compute
	for _, x := range t.exposed {
		device += x
	}
	t.total = fourthPowerMean(device+gap, t.launch)
	t.host = t.total - device
	if t.hidden > 0 {
		t.startup = fourthPowerMean(device+t.hidden+gap, t.launch) - t.total
	}
}

// host is the layer's part of a MoE layer's launch floor and drained queue.
func (c *content) host() (launch, gap float64) {
	switch {
	case c.moe && (c.attention || c.linear):
		return 1, 1
	case c.moe:
		return 1 - mixerHost, 1 - mixerGap
	case c.dense && (c.attention || c.linear):
		return denseHost, denseGap
	case c.dense:
		return denseHost - mixerHost, denseGap - mixerGap
	}
	return mixerHost, mixerGap
}

// fourthPowerMean joins two limits: close to the larger when they differ, above both when they do not.
func fourthPowerMean(a, b float64) float64 {
	a, b = a*a, b*b
	return math.Sqrt(math.Sqrt(a*a + b*b))
}

// moe fills the compute parts of the expert side.
func (e *Estimator) moe(k *task, t *layerTime) {
	s := &e.shape
	copies := k.own * s.topK * e.run.Imbalance
	rows := copies * float64(k.l.EP*k.l.ETP) / s.experts // tokens per local expert
	t.experts = e.grouped(k, rows, groupedRowHalf)
	t.expWgrad = e.grouped(k, rows, groupedRowHalf*groupedRowHalfWgrad)
	if s.shared > 0 {
		t.shared = e.gemm(k, s.mlp*s.h*s.shared, min(s.h, s.shared/k.tp))
	}
	permutes := 1.0 // flex: none before the dispatch
	if k.sw.Dispatcher == layout.AllToAll || k.sw.Dispatcher == layout.AllGather {
		permutes = 2
	}
	if !k.sw.FusedPermute {
		permutes *= permuteUnfused
	}
	t.ffnMem = copies * 2 * (4*s.expertWidth*permutes + 4*s.f) * k.perByte
	if s.latent() { // down to the experts' width and up again
		t.shared += 2 * e.gemm(k, s.h*s.expertWidth, s.expertWidth)
	}
}

// repeated is the forward time that the backward pass computes again (comm-model 4.6).
func repeated(t *layerTime, r layout.Recompute, moe, full bool) float64 {
	ffn := t.mlp + t.experts + t.shared + t.ffnMem
	if full {
		return t.proj + t.core + t.scan + t.attnMemory + ffn
	}
	var sum float64
	if r.Has(layout.CoreAttn) {
		sum += t.core
	}
	if r.Has(layout.LayerNorm) {
		sum += normRecompute * t.attnMemory
	}
	if r.Has(layout.MLAUpProj) {
		sum += t.up
	}
	switch {
	case !moe:
		if r.Has(layout.MLP) {
			sum += ffn
		}
		return sum
	case r.Has(layout.MoE):
		return sum + ffn
	}
	if r.Has(layout.MoEAct) {
		sum += actRecompute * t.ffnMem
	}
	if r.Has(layout.SharedExperts) {
		sum += t.shared
	}
	return sum
}

// tensorParallel counts the gathers and scatters of one layer: with sequence parallelism 5 per block of
// column- and row-parallel linears (forward 1+1, backward 2+1), attention and dense MLP or shared expert; without
// it 2 all-reduces, each worth a scatter and a gather; 2 more per block under full recompute (comm-model 1.1, 4.6). Routed experts
// need none: they work on the rank's own shard.
func (e *Estimator) tensorParallel(k *task, t *layerTime, c *content, full bool) {
	if k.l.TP == 1 {
		return
	}
	ops := 5.0
	if !k.l.SequenceParallel {
		ops = 4
	}
	if full {
		ops += 2
	}
	blocks := 0.0
	for _, block := range [...]bool{c.attention || c.linear, c.dense, c.moe && e.shape.shared > 0} {
		if block {
			blocks++
		}
	}
	ops *= blocks
	t.tpOps = ops
	t.tp = e.twoLevel(k.tokens*e.shape.h*2, k.place.tp)
	exposed := tpExposed
	if k.sw.TPOverlap && k.l.SequenceParallel {
		exposed = tpExposedOverlap
	}
	t.exposed[TP] = ops * t.tp.seconds * exposed
}

// contextParallel is ring attention (cp_comm_type p2p): the rank's keys and values go round once forward,
// they and their gradients once more backward; once more with full recompute. Most of it hides under the
// attention of the chunk before (comm-model 1.5).
func (e *Estimator) contextParallel(k *task, t *layerTime, full bool) {
	if k.l.CP == 1 {
		return
	}
	rounds := 3.0
	if full {
		rounds++
	}
	t.cp.bytes = rounds * float64(k.l.CP-1) * e.shape.kv * k.tokens / k.tp * 2
	rate := e.link.ringNVLink
	if !k.place.cp.local {
		rate = e.link.ringNIC // the hop between domains sets the pace
		t.cp.crossing = t.cp.bytes / k.place.cp.inside
	}
	t.cp.seconds = t.cp.bytes * rate
	t.exposed[CP] = t.cp.seconds * cpExposed
}
