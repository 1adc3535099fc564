package plan

import (
	"context"
	"errors"
	"strings"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/memmodel/launch"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

// Launch is a Megatron-LM command line to be judged.
type Launch struct {
	Argv  []string
	World int
	Env   map[string]string
	// Platform prices it; nil leaves times out and takes a Hopper's kernels.
	Platform *topology.Platform
	Release  megatron.Release
	// Checks says against what it is judged.
	Checks megatron.CheckSettings
	// Imbalance is the load of the fullest expert rank over the mean; 0 means balanced.
	Imbalance float64
	// TrainableFraction is the share of the parameters that is trained; 0 means all.
	TrainableFraction float64
	// Rank selects one rank's stage for Stages; nil keeps all stages.
	Rank *int
}

// Judgement is what a command line is: which rules it breaks, and, as far as arithmetic defines them, its layout, its
// parameters, and the memory of its stages.
type Judgement struct {
	Violations layout.Violations
	Resolved   *megatron.Resolved // nil if the parser refuses it
	Model      *arch.Model        // nil where none is defined
	Layout     *layout.Layout     // nil where none is defined
	Total      int64              // parameters; 0 where Model is nil
	Active     int64
	Stages     []Stage // nil where memory is not defined
	// Unmodelled lists what the command line asks for and memory does not price.
	Unmodelled []string
	// Missing says why layout or stages are not there; "" if they are.
	Missing string

	StepTimeMS, TFLOPS, NVLinkFraction *float64
	// Untimed says why a step has no price although its memory has one; "" if it has, and where Missing says it.
	Untimed string
	// Timed is what the step was priced with; nil if it was not.
	Timed *Timing
}

// Timing is what a step time depends on besides model and layout.
type Timing struct {
	Software steptime.Software
	Run      steptime.Run
}

// Judge judges a command line as it stands. It never fails on what a command line can say; the error is that of a world
// that is no number of GPUs, or the context's.
func Judge(ctx context.Context, q Launch) (*Judgement, error) {
	out := &Judgement{Violations: layout.Violations{}}
	settings, err := megatron.Parse(q.Argv, q.Release)
	if err != nil {
		var problems megatron.Problems
		if !errors.As(err, &problems) {
			return nil, err
		}
		out.Violations = problems.Violations()
		out.Missing = "the parser refuses the command line"
		return out, ctx.Err()
	}
	resolved, err := megatron.Resolve(settings, q.World, q.Env)
	if err != nil {
		return nil, err
	}
	out.Resolved = resolved
	out.Violations = append(out.Violations, megatron.Check(resolved, q.Checks)...)
	out.price(&q, resolved)
	return out, ctx.Err()
}

// price fills in what arithmetic defines, whatever the violations.
func (j *Judgement) price(q *Launch, r *megatron.Resolved) {
	hardware := launch.Hardware{SM: 90, Imbalance: q.Imbalance}
	if q.Platform != nil {
		if sm, err := computeCapability(q.Platform); err == nil {
			hardware.SM = sm
		}
		hardware.DomainSize = q.Platform.Domain.Int()
	}
	setup, err := launch.Read(r, hardware)
	j.Unmodelled = setup.Unmodelled
	if setup.Model != nil && setup.Model.NumLayers > 0 {
		j.Model = setup.Model
		j.Total, j.Active = setup.Model.Parameters()
	}
	if setup.Layout.World > 0 {
		l := setup.Layout
		j.Layout = &l
	}
	if err != nil {
		j.Missing = err.Error()
		return
	}
	setup.Run.TrainableFraction = q.TrainableFraction
	estimator, err := memmodel.New(setup.Model, setup.Run)
	if err == nil {
		var stages []memmodel.Stage
		if stages, err = estimator.Estimate(&setup.Layout); err == nil {
			j.stages(q, setup.Model, &setup.Layout, stages)
		}
	}
	if err != nil {
		j.Missing = err.Error()
		return
	}
	if setup.Run.FSDP != memmodel.NoFSDP {
		j.Untimed = "the time model knows no Megatron-FSDP: neither its gathers nor its reductions"
		return
	}
	j.time(q, &setup)
}

func (j *Judgement) stages(q *Launch, m *arch.Model, l *layout.Layout, stages []memmodel.Stage) {
	for i := range stages {
		if q.Rank != nil && stageOfRank(l, *q.Rank) != stages[i].PipelineRank {
			continue
		}
		j.Stages = append(j.Stages, stageOf(m, l, &stages[i]))
	}
}

// stageOfRank is the pipeline rank of a global rank; -1 where the layout has none.
func stageOfRank(l *layout.Layout, rank int) int {
	if rank < 0 || rank >= l.World || l.World%l.PP != 0 {
		return -1
	}
	if l.RankOrder() == folding.DefaultOrder {
		return rank / (l.World / l.PP)
	}
	f, err := folding.New(l.Degrees, l.RankOrder(), 1)
	if err != nil {
		return -1
	}
	at, err := f.Coordinates(rank)
	if err != nil {
		return -1
	}
	return at.PP
}

// time prices the step with the software that the command line names; it leaves unknown what no model prices.
func (j *Judgement) time(q *Launch, s *launch.Setup) {
	switch {
	case q.Platform == nil:
		j.Untimed = "no platform was named"
		return
	case s.Layout.Split == nil:
		j.Untimed = "the time model needs to know which layers sit where"
		return
	}
	run := steptime.DefaultRun()
	run.GradBytes = max(s.Run.GradientBytes, 2)
	if q.Imbalance > 0 {
		run.Imbalance = q.Imbalance
	}
	e, err := steptime.New(s.Model, q.Platform, run)
	if err != nil {
		j.Untimed = err.Error()
		return
	}
	sw := j.software(s)
	p := e.Price(&s.Layout, sw)
	if !p.Known {
		j.Untimed = strings.Join((p.Notes & steptime.Unpriced).Texts(), "; ")
		return
	}
	j.Timed = &Timing{sw, run}
	step, tflops := ms(p.Step), p.TFLOPS
	j.StepTimeMS, j.TFLOPS = &step, &tflops
	if hotBytes(&p) > 0 {
		hot := p.HotInNVLink()
		j.NVLinkFraction = &hot
	}
}

// software is the side of a command line that changes its speed alone.
func (j *Judgement) software(s *launch.Setup) steptime.Software {
	flags := j.Resolved.Settings
	sw := steptime.AsWritten(&s.Layout)
	sw.FusedPermute = flags.Bool("moe_permute_fusion")
	sw.DelayWgrad = sw.EPOverlap && flags.Bool("delay_wgrad_compute")
	sw.TPOverlap = flags.Bool("tp_comm_overlap")
	sw.OverlapDP = flags.Bool("overlap_grad_reduce") && flags.Bool("overlap_param_gather")
	switch g := s.Run.Graphs; {
	case g.FullIteration:
		sw.Graph = steptime.FullIteration
	case g.Modules&memmodel.GraphAttention != 0:
		sw.Graph = steptime.AttnGraph
	case g.Modules != 0:
		sw.Graph = steptime.RouterGraph
	}
	return sw
}
