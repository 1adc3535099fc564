package memmodel

import (
	"fmt"

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
	mtpMoE    bool
	splits    map[*layout.Split]*splitClasses
	schedules map[scheduleKey][]moment
}

// New returns an estimator, or an *UnsupportedError that names the kind of layer it cannot price.
func New(m *arch.Model, run Run) (*Estimator, error) {
	if err := Supported(m); err != nil {
		return nil, err
	}
	if run.Imbalance < 1 {
		return nil, fmt.Errorf("routing imbalance %g is below 1, which is perfect balance", run.Imbalance)
	}
	return &Estimator{
		model:     m,
		run:       run,
		mtpMoE:    mtpIsMoE(m),
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
	// DenseState and ExpertState are the same bytes, by parameter set.
	DenseState, ExpertState int64
	// Workspace is everything persistent inside the allocator that is not the model's state.
	Workspace int64
	// Activations are the saved tensors of all micro-batches in flight, Transient what the running layer needs
	// beside them.
	Activations, Transient int64

	// AllocatedAfterStep is torch.cuda.memory_allocated() between steps, PeakAllocated
	// torch.cuda.max_memory_allocated() after two or more steps.
	AllocatedAfterStep, PeakAllocated int64
	// Device is what the card sees.
	Device Device

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
	if l.VPP > maxChunks {
		return nil, &UnsupportedError{fmt.Sprintf("VPP %d (the largest priced is %d)", l.VPP, maxChunks)}
	}
	s := newShape(e.model, &e.run, e.mtpMoE, l)
	split := e.classesOf(l.Split)
	kinds, acts := s.parameters(), s.activations()
	stages := make([]Stage, l.PP)
	for r := range stages {
		c := split.classes[split.ofRank[r]] // a copy: the rank of this stage, not of its class
		if r > 0 {
			c.rank = r
		}
		stages[r] = e.stage(&s, &c, &kinds, &acts)
	}
	return stages, nil
}

// Peak returns the largest peak_allocated over all stages and the stage that has it. It allocates nothing for
// a pipeline split it has seen. The layout must be one that Estimate accepts.
func (e *Estimator) Peak(l *layout.Layout) (bytes int64, pipelineRank int) {
	s := newShape(e.model, &e.run, e.mtpMoE, l)
	split := e.classesOf(l.Split)
	kinds, acts := s.parameters(), s.activations()
	for i := range split.classes {
		c := &split.classes[i]
		if b := e.allocated(&s, c, &kinds, &acts); b > bytes {
			bytes, pipelineRank = b, c.rank
		}
	}
	return bytes, pipelineRank
}

// Static returns the largest state plus workspace over all stages, a lower bound of Peak that recompute and
// the batch do not change: a search drops a mesh whose Static does not fit.
func (e *Estimator) Static(l *layout.Layout) int64 {
	s := newShape(e.model, &e.run, e.mtpMoE, l)
	split := e.classesOf(l.Split)
	kinds := s.parameters()
	var worst int64
	for i := range split.classes {
		c := &split.classes[i]
		st := s.stateOf(c.elements(&kinds))
		worst = max(worst, st.weights+st.gradients+st.optimizer+s.workspace(c))
	}
	return worst
}

func (e *Estimator) classesOf(split *layout.Split) *splitClasses {
	if c, ok := e.splits[split]; ok {
		return c
	}
	c := classify(e.model, split)
	e.splits[split] = c
	return c
}

func (e *Estimator) scheduleOf(l *layout.Layout, rank int) []moment {
	k := scheduleKey{l.PP, l.VPP, l.NumMicrobatches(), rank, l.EPOverlap}.capped()
	if s, ok := e.schedules[k]; ok {
		return s
	}
	s := moments(k)
	e.schedules[k] = s
	return s
}

// allocated is the peak of one class: the larger of its worst moment and what is there between steps.
func (e *Estimator) allocated(s *shape, c *class, kinds *kindElements, acts *activations) int64 {
	st := s.stateOf(c.elements(kinds))
	static := st.weights + st.gradients + st.optimizer + s.workspace(c)
	p := s.stagePeak(c, acts, e.scheduleOf(s.l, c.rank))
	return max(static+s.residualTensors(c), static-s.stepCopies(c, kinds)+p.activations+p.transient)
}

// stepCopies is what the optimizer's step leaves until the next zero_grad and the forward pass does not see
// (memory-findings.md C12).
func (s *shape) stepCopies(c *class, kinds *kindElements) int64 {
	if s.run.PrecisionAware || s.run.GradientBytes >= 4 && s.l.Precision != layout.FP16 {
		return 0
	}
	e := c.elements(kinds)
	if !s.run.DistributedOptimizer {
		return 4 * e.Total()
	}
	return 4*ceilDiv(e.Dense, int64(s.l.DP())*int64(s.l.CP)) + 4*ceilDiv(e.Expert, int64(s.l.EDP()))
}

func (e *Estimator) stage(s *shape, c *class, kinds *kindElements, acts *activations) Stage {
	elements := c.elements(kinds)
	st := s.stateOf(elements)
	ws := s.workspace(c)
	p := s.stagePeak(c, acts, e.scheduleOf(s.l, c.rank))
	out := Stage{
		PipelineRank: c.rank,
		Parameters:   elements,
		Weights:      st.weights, Gradients: st.gradients, Optimizer: st.optimizer,
		DenseState: st.dense, ExpertState: st.expert,
		Workspace:   ws,
		Activations: p.activations, Transient: p.transient,
	}
	static := st.weights + st.gradients + st.optimizer + ws
	out.AllocatedAfterStep = static + s.residualTensors(c)
	running := static - s.stepCopies(c, kinds) + p.activations + p.transient
	out.PeakAllocated = max(running, out.AllocatedAfterStep)
	if p.moment != nil {
		out.InBackward = p.moment.backward
		for _, n := range p.moment.live {
			out.InFlight += int(n)
		}
	}
	out.ImbalanceSlope = s.imbalanceSlope(c)
	out.Device = s.device(c, out.PeakAllocated)
	return out
}

// imbalanceSlope is how much one more balanced load would add to the layer that runs: its saved tensors, and its
// transient.
func (s *shape) imbalanceSlope(c *class) int64 {
	if c.moe == 0 && !(c.mtp > 0 && c.mtpMoE) {
		return 0
	}
	fm := int64(s.m.MoE.FFNHiddenSize) / s.etp
	saved := w * s.rows * (s.hl + (s.gate()+1)*fm)
	more := *s.run
	more.Imbalance = s.run.Imbalance + 1
	heavier := newShape(s.m, &more, s.mtpMoE, s.l)
	return saved + heavier.moeForward() - s.moeForward()
}
