package memmodel

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// maxChunks is the largest VPP that can be priced.
const maxChunks = 64

// Estimator prices layouts of one model under one run. It keeps what layouts share: the classes of each
// pipeline split and the schedules. It is not safe for concurrent use; give each goroutine its own.
type Estimator struct {
	model     *arch.Model
	run       Run
	kinds     *modelKinds
	splits    map[*layout.Split]*splitClasses
	schedules map[scheduleKey][]moment // looked up without a lock
	shared    *Schedules               // nil: none
	chunks    [maxChunks]chunkBytes    // scratch
	last      fixed
}

// fixed is what recompute does not change, of the layout that was priced last: a search climbs a ladder of recompute rungs
// on each layout.
type fixed struct {
	layout layout.Layout // without its recompute
	parts  partElements
	each   []fixedFigures // by class
}

// fixedFigures are those of one class.
type fixedFigures struct {
	held      held
	state     state
	workspace int64
	steps     []moment
}

// New returns an estimator. The error is an *UnsupportedError that names the kind of layer it cannot price, or one that names
// a figure of the run which is out of its bounds.
func New(m *arch.Model, run Run) (*Estimator, error) {
	if err := Supported(m); err != nil {
		return nil, err
	}
	if err := run.check(); err != nil {
		return nil, err
	}
	return &Estimator{
		model:     m,
		run:       run,
		kinds:     kindsOf(m),
		splits:    make(map[*layout.Split]*splitClasses),
		schedules: make(map[scheduleKey][]moment),
	}, nil
}

// Run returns the assumptions the estimator works with.
func (e *Estimator) Run() Run { return e.run }

// Stage is the memory of one pipeline rank, in bytes, at the moment of its peak.
type Stage struct {
	PipelineRank int
	Parameters   Elements

	Weights, Gradients, Optimizer int64
	// DenseState and ExpertState are the same bytes less StepCopies, by parameter set.
	DenseState, ExpertState int64
	// Workspace is everything persistent inside the allocator that is not the model's state.
	Workspace int64
	// Activations are the saved tensors of all micro-batches in flight, Transient what the running layer needs
	// beside them.
	Activations, Transient int64

	// AllocatedAfterStep is torch.cuda.memory_allocated() between steps, PeakAllocated
	// torch.cuda.max_memory_allocated() after two or more steps.
	AllocatedAfterStep, PeakAllocated int64
	// StepCopies are the part of Optimizer that the optimizer's step leaves until the next zero_grad: it is in
	// AllocatedAfterStep, but not there while a pass runs.
	StepCopies int64
	// StepTemporary is what the step needs beside AllocatedAfterStep; their sum is the peak where that is larger than
	// any moment of the passes.
	StepTemporary int64
	// Provenance says what the peak's bytes rest on; its parts add up to PeakAllocated.
	Provenance Provenance
	// Device is what the card sees.
	Device Device
	// Host is what the rank keeps in host memory; zero without offload.
	Host HostBytes

	// ImbalanceSlope is how many bytes the peak grows when the fullest expert rank receives once more its
	// balanced load, for the one layer that runs.
	ImbalanceSlope int64
	// InFlight is the number of chunk activations live at the peak (micro-batches when not interleaved).
	InFlight int
	// InBackward says whether the peak falls into a backward pass.
	InBackward bool
}

// Estimate accounts for every stage of a layout.
func (e *Estimator) Estimate(l *layout.Layout) ([]Stage, error) {
	if err := supportedLayout(l); err != nil {
		return nil, err
	}
	s := newShape(e.model, &e.run, e.kinds, l)
	split := e.classesOf(l.Split)
	p, acts := s.parts(), s.activations()
	stages := make([]Stage, l.PP)
	for r := range stages {
		c := split.classes[split.ofRank[r]] // a copy: the rank of this stage, not of its class
		if r > 0 {
			c.rank, c.last = r, r == l.PP-1
		}
		stages[r] = e.stage(&s, &c, &p, &acts)
	}
	return stages, nil
}

// Peak returns the largest peak_allocated over all stages and the stage that has it. It allocates nothing for
// a pipeline split it has seen. The layout must be one that Estimate accepts.
func (e *Estimator) Peak(l *layout.Layout) (bytes int64, pipelineRank int) {
	s := newShape(e.model, &e.run, e.kinds, l)
	split := e.classesOf(l.Split)
	acts := s.activations()
	known := e.fixedOf(&s, split)
	for i := range split.classes {
		c := &split.classes[i]
		f := e.figuresWith(&s, c, &known[i], &acts)
		if b := f.peak(); b > bytes {
			bytes, pipelineRank = b, c.rank
		}
	}
	return bytes, pipelineRank
}

// Static returns the largest state plus workspace over all stages, a lower bound of Peak that recompute and
// the batch do not change: a search drops a mesh whose Static does not fit.
func (e *Estimator) Static(l *layout.Layout) int64 {
	s := newShape(e.model, &e.run, e.kinds, l)
	split := e.classesOf(l.Split)
	p := s.parts()
	var worst int64
	for i := range split.classes {
		c := &split.classes[i]
		_, st := s.rankState(c, &p)
		worst = max(worst, st.weights+st.gradients+st.optimizer+st.persistent+s.workspace(c))
	}
	return worst
}

func (e *Estimator) classesOf(split *layout.Split) *splitClasses {
	if c, ok := e.splits[split]; ok {
		return c
	}
	c := classify(e.model, &e.run, e.kinds, split)
	e.splits[split] = c
	return c
}

func (e *Estimator) scheduleOf(l *layout.Layout, rank int) []moment {
	k := e.keyOf(l, rank).capped()
	if s, ok := e.schedules[k]; ok {
		return s
	}
	var s []moment
	if e.shared != nil {
		s = e.shared.of(k)
	} else {
		s = moments(k)
	}
	e.schedules[k] = s
	return s
}

// rankState prices the state of one class.
func (s *shape) rankState(c *class, p *partElements) (held, state) {
	h := s.holdings(c, p)
	st := s.stateOf(&h)
	if s.run.Optimizer == Muon && s.run.FSDP == NoFSDP {
		s.dealMatrices(c, &h, &st)
	}
	st.gathered, st.persistent = s.gatheredWeights(c, p)
	return h, st
}

// figures are the bytes of one class, as Peak and Estimate both need them.
type figures struct {
	held      held
	state     state
	workspace int64
	residual  int64
	at        peak
}

// fixedOf returns what recompute does not change, by class.
func (e *Estimator) fixedOf(s *shape, split *splitClasses) []fixedFigures {
	key := *s.l
	key.Recompute = layout.Recompute{}
	if e.last.layout == key && len(e.last.each) == len(split.classes) {
		return e.last.each
	}
	e.last.layout, e.last.parts, e.last.each = key, s.parts(), e.last.each[:0]
	for i := range split.classes {
		c := &split.classes[i]
		var f fixedFigures
		f.held, f.state = s.rankState(c, &e.last.parts)
		f.workspace, f.steps = s.workspace(c)+f.state.persistent, e.scheduleOf(s.l, c.rank)
		e.last.each = append(e.last.each, f)
	}
	return e.last.each
}

// figuresWith is figuresOf where the fixed part is known.
func (e *Estimator) figuresWith(s *shape, c *class, known *fixedFigures, acts *activations) figures {
	f := figures{held: known.held, state: known.state, workspace: known.workspace, residual: s.residualTensors(c)}
	f.at = s.stagePeak(c, acts, f.state.gathered, known.steps, &e.chunks)
	return f
}

func (e *Estimator) figuresOf(s *shape, c *class, p *partElements, acts *activations) figures {
	var f figures
	f.held, f.state = s.rankState(c, p)
	f.workspace, f.residual = s.workspace(c)+f.state.persistent, s.residualTensors(c)
	f.at = s.stagePeak(c, acts, f.state.gathered, e.scheduleOf(s.l, c.rank), &e.chunks)
	return f
}

func (f *figures) static() int64 {
	return f.state.weights + f.state.gradients + f.state.optimizer + f.workspace
}

// afterStep is what is there between steps, and the least a step's own peak can be.
func (f *figures) afterStep() int64 { return f.static() + f.residual }

// peak is the larger of the worst moment of the passes and of what is there after the optimizer's step.
func (f *figures) peak() int64 {
	return max(f.afterStep()+f.state.stepTemporary, f.static()-f.state.stepCopies+f.at.activations+f.at.transient)
}

func (e *Estimator) stage(s *shape, c *class, p *partElements, acts *activations) Stage {
	f := e.figuresOf(s, c, p, acts)
	st := &f.state
	out := Stage{
		PipelineRank: c.rank,
		Parameters:   f.held.e,
		Weights:      st.weights, Gradients: st.gradients, Optimizer: st.optimizer,
		DenseState: st.dense, ExpertState: st.expert, StepCopies: st.stepCopies, StepTemporary: st.stepTemporary,
		Workspace:   f.workspace,
		Activations: f.at.activations, Transient: f.at.transient,
		AllocatedAfterStep: f.afterStep(), PeakAllocated: f.peak(),
	}
	if f.at.moment != nil {
		out.InBackward = f.at.moment.backward
		for _, n := range f.at.moment.live {
			out.InFlight += int(n)
		}
	}
	out.ImbalanceSlope = s.imbalanceSlope(c)
	out.Host = s.hostBytes(&f)
	out.Provenance = s.provenance(c, &f)
	out.Device = s.device(c, &f)
	return out
}

// imbalanceSlope is how much one more balanced load would add to the layer that runs: its saved tensors, and its
// transient.
func (s *shape) imbalanceSlope(c *class) int64 {
	if !c.has(layerKind.moe) {
		return 0
	}
	fm := int64(s.m.MoE.FFNHiddenSize) / s.etp
	saved := s.w * s.rows * (s.hl + (s.gate()+1)*fm)
	more := *s.run
	more.Imbalance = s.run.Imbalance + 1
	heavier := newShape(s.m, &more, s.kinds, s.l)
	return saved + heavier.moeForward() - s.moeForward()
}
