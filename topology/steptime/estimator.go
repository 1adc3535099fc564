package steptime

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology"
)

// Run is what a training run fixes for all its layouts. [DefaultRun] is the usual one.
type Run struct {
	// Imbalance is the tokens of the fullest expert rank over the average; 1 is balanced.
	Imbalance float64
	// GradBytes and ParamBytes are what one element costs in the gradient reduce-scatter and the parameter
	// all-gather: 4 with --accumulate-allreduce-grads-in-fp32, which BF16 implies, and 2.
	GradBytes, ParamBytes int
	// OptimizerBytes is the HBM traffic of one step per parameter of the optimizer's shard: 30 for Adam with
	// fp32 master weights and moments, about 20 with BF16 moments (comm-model 4.5).
	OptimizerBytes int
	Corrections    Corrections
	// Factors adapt the model to one machine.
	Factors Factors
}

// DefaultRun is balanced routing, BF16 parameters, fp32 gradients, Adam in fp32, all corrections.
func DefaultRun() Run {
	return Run{Imbalance: 1, GradBytes: 4, ParamBytes: 2, OptimizerBytes: optimizerPerPar, Corrections: AllCorrections()}
}

// Estimator prices the layouts of one model on one GPU kind. It is immutable and safe for concurrent use.
type Estimator struct {
	model *arch.Model
	hw    hardware
	run   Run
	chip  chip
	shape shape
	limit groupLimit

	windowed, window float64                 // share of attention layers with a sliding window, and its tokens
	kinds            []int                   // of the model's layers
	before           [recomputedKind][]int32 // layers of each kind among the first i decoder layers; nil: none
	numLayers        int
	uniformFrom      int   // first decoder layer from which on all are alike
	moeLayers        int   // of moeKind
	mtp, mtpAlone    []int // kinds of one MTP depth: beside decoder layers, and in a chunk without

	perFLOP float64 // s per FLOP at the measured GEMM fraction
	link    links
	host    float64 // factor on the host's times

	flopsPerToken, flopsPerPosition float64 // model FLOPs: constant, and per token of sequence length
}

// New prepares an estimator. It refuses models with layers it does not model (*UnsupportedError) and
// platforms without a needed figure (*topology.UnknownFigureError).
func New(m *arch.Model, p *topology.Platform, run Run) (*Estimator, error) {
	if err := supported(m); err != nil {
		return nil, err
	}
	hw, err := hardwareOf(p)
	if err != nil {
		return nil, err
	}
	if !(run.Imbalance >= 1) || run.GradBytes < 1 || run.ParamBytes < 1 || run.OptimizerBytes < 1 {
		return nil, fmt.Errorf("step time: imbalance %g and bytes per element %d, %d, %d: at least 1 each",
			run.Imbalance, run.GradBytes, run.ParamBytes, run.OptimizerBytes)
	}
	if err := run.Factors.Check(); err != nil {
		return nil, err
	}
	run.Factors.apply(&hw)
	layers := m.Layers()
	if len(layers) == 0 {
		return nil, fmt.Errorf("step time of %s: the model has no layers", m.ID)
	}
	e := &Estimator{model: m, hw: hw, run: run, chip: chipOf(hw.id, hw.arch), shape: shapeOf(m), host: run.Factors.ordered()[3]}
	e.countLayers(layers)
	if m.MoE != nil {
		e.limit = groupLimit{m.MoE.RouterNumGroups, m.MoE.RouterGroupTopK}
	}
	e.flopsPerToken = ModelFLOPs(m, 0)
	e.flopsPerPosition = (ModelFLOPs(m, 2) - e.flopsPerToken) / 2
	e.perFLOP = 1 / (hw.bf16 * 1e12 * e.chip.gemm)
	e.link = linksOf(&hw)
	return e, nil
}

// Need returns the error that explains a price of a world of ranks with NoteNoNIC, or nil if that world stays
// inside one domain or the network's rate is known.
func (e *Estimator) Need(world int) error {
	if world <= e.hw.domain {
		return nil
	}
	return e.hw.missingNIC
}

// notes are the reservations about a layout's price.
func (e *Estimator) notes(l *layout.Layout, sw Software) Notes {
	if !complete(l) || e.run.Corrections.ExactSplit && !e.covers(l) {
		return NoteLayout
	}
	var n Notes
	set := func(when bool, note Notes) {
		if when {
			n |= note
		}
	}
	moe := e.model.MoE != nil
	set(!e.chip.anchored, NoteGPU)
	set(e.hw.domain == 1 && l.World > 1, NoteNoNVLink)
	set(moe && l.ETP > 1, NoteETP)
	set(moe && l.EP*l.ETP > 1 && sw.Dispatcher == layout.AllGather, NoteAllGather)
	set(l.TP > e.hw.domain, NoteTPAcross)
	set(l.Precision == layout.NVFP4, NoteFP4)
	set(moe && e.run.Imbalance > 1, NoteImbalance)
	set(e.shape.linear.mac > 0, NoteLinear)
	ranks := l.EP * l.ETP
	set(moe && ranks > 1 && ranks <= min(smallEP, e.hw.domain), NoteDispatcher)

	set(e.Need(l.World) != nil, NoteNoNIC)
	fp8 := l.Precision == layout.FP8Tensorwise || l.Precision == layout.FP8Blockwise || l.Precision == layout.MXFP8
	set(fp8 && !e.hw.fp8 || l.Precision == layout.NVFP4 && !e.hw.fp4, NoteNoFormat)
	return n
}

// complete reports whether the numbers of a layout allow the arithmetic at all.
func complete(l *layout.Layout) bool {
	return min(l.TP, l.CP, l.PP, l.EP, l.ETP, l.VPP, l.MicroBatchSize, l.SeqLength) >= 1 &&
		l.DP() >= 1 && l.EDP() >= 1 && l.NumMicrobatches() >= 1
}

// covers reports whether the split has the layout's cells and they name layers of the model.
func (e *Estimator) covers(l *layout.Layout) bool {
	if l.Split == nil || l.Split.PP != l.PP || l.Split.VPP != l.VPP || len(l.Split.Cells) != l.PP*l.VPP {
		return false
	}
	for i := range l.Split.Cells {
		if c := &l.Split.Cells[i]; c.First < 0 || c.Decoders < 0 || c.First+c.Decoders > e.numLayers {
			return false
		}
	}
	return true
}

// Price estimates one step of a layout. Its numbers mean something for layouts that layout.Check accepts; for
// others it returns what the arithmetic gives, or a price that is not Known.
func (e *Estimator) Price(l *layout.Layout, sw Software) Price { return e.price(l, sw, false) }

// Bound is a price whose Step, and so Bubble, is at most that of [Price]: without the time that the stages of an interleaved
// pipeline wait for each other because their chunks differ. It costs less, and is Price where nothing is waited for.
func (e *Estimator) Bound(l *layout.Layout, sw Software) Price { return e.price(l, sw, true) }

func (e *Estimator) price(l *layout.Layout, sw Software, boundOnly bool) Price {
	p := Price{Notes: e.notes(l, sw)}
	if p.Notes&Unpriced != 0 {
		return p
	}
	place, ok := e.place(l)
	if !ok {
		p.Notes |= NoteOrder
		return p
	}
	p.Known = true
	k := e.task(l, sw, place)
	var u units
	e.units(&k, &u)
	load := e.load(&k, &u)
	worst := &load.slowest

	m := l.NumMicrobatches()
	p.Microbatches, p.BubbleFraction = m, float64(l.PP-1)/float64(l.VPP)/float64(m)
	p.Stage, p.StageSeconds = worst.rank, worst.seconds

	exposed := [NumAxes]float64{}
	e.stageParts(&p, &u, worst, float64(m), &exposed)
	hop := e.pipeline(&p, &k, float64(m))
	exposed[PP] = float64(m) * hop
	startup := e.startup(l, sw, worst, &u, hop)
	if l.PP == 1 {
		exposed[EP] += startup
	} else {
		p.Bubble = e.pipelined(&k, &u, worst, m, hop, boundOnly) - float64(m)*(worst.seconds+hop) + startup
	}
	e.dataParallel(&p, &k, load.reduced, &exposed)
	p.Optimizer = e.optimizer(load.shard)

	p.Step = p.Compute + p.Host + p.Bubble + p.Optimizer
	for a, x := range exposed {
		p.Communication[a].Exposed = x
		p.Exposed += x
	}
	p.Step += p.Exposed
	tokens := float64(l.GlobalBatchSize) * float64(l.SeqLength) / float64(l.World)
	p.Tokens = tokens / p.Step
	p.TFLOPS = p.Tokens * (e.flopsPerToken + e.flopsPerPosition*float64(l.SeqLength)) / 1e12
	return p
}
