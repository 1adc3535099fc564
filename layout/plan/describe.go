package plan

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

// pricer prices layouts of one request. It is not safe for concurrent use: each worker has its own.
type pricer struct {
	model     *arch.Model
	platform  *topology.Platform
	memory    *memmodel.Estimator
	balanced  *memmodel.Estimator // the same with balanced routing; nil if memory has it
	schedules *memmodel.Schedules // that all estimators of the question share
	time      *steptime.Estimator
	budget    budget
	objective Objective
}

// newPricer refuses, by name, models and platforms that cannot be priced.
func newPricer(r *Request) (*pricer, error) {
	sm, err := computeCapability(r.Platform)
	if err != nil {
		return nil, err
	}
	if err := precisionRuns(r.Precision, r.Platform, sm); err != nil {
		return nil, err
	}
	memory, err := r.Platform.Need(topology.FigureMemory)
	if err != nil {
		return nil, err
	}
	run := memmodel.DefaultRun(sm)
	if d := r.Platform.Domain; d.Known {
		run.DomainSize = d.Int()
	}
	run.ExpandableSegments = true // as the launches that emit writes set it
	run.Imbalance = r.Imbalance
	run.MomentBytes, run.GradientBytes, run.MasterBytes = r.momentBytes(), r.gradientBytes(), r.masterBytes()
	run.PrecisionAware = r.LowPrecisionMoments
	run.TrainableFraction = r.TrainableFraction
	r.Offload.moved(&run, r.Model.MoE != nil)
	mem, err := memmodel.New(r.Model, run)
	if err != nil {
		return nil, err
	}
	mem.Share(r.schedules)
	var balanced *memmodel.Estimator
	if run.Imbalance != 1 {
		run.Imbalance = 1
		if balanced, err = memmodel.New(r.Model, run); err != nil {
			return nil, err
		}
		balanced.Share(r.schedules)
	}
	timing := steptime.DefaultRun()
	timing.Imbalance = r.Imbalance
	timing.GradBytes = r.gradientBytes()
	timing.Factors = r.Factors
	est, err := steptime.New(r.Model, r.Platform, timing)
	if err != nil {
		return nil, err
	}
	if err := est.Need(r.GPUs); err != nil {
		return nil, err
	}
	headroom := -1.0
	if r.HeadroomGiB != nil {
		headroom = *r.HeadroomGiB
	}
	return &pricer{
		model: r.Model, platform: r.Platform, memory: mem, balanced: balanced, schedules: r.schedules, time: est,
		budget: newBudget(r.Platform, memory, headroom, r.ReserveGiB), objective: cmp.Or(r.Objective, ByTime),
	}, nil
}

// Supported reports what stands in the way of planning a model, as the *UnsupportedError of memmodel or steptime.
func Supported(m *arch.Model) error {
	if err := memmodel.Supported(m); err != nil {
		return err
	}
	p, err := topology.LookupPlatform("h100") // any platform whose figures are known
	if err != nil {
		return err
	}
	_, err = steptime.New(m, p, steptime.DefaultRun())
	return err
}

// computeCapability is what NVIDIA's cards have; cards of others are given a Hopper's workspaces.
func computeCapability(p *topology.Platform) (int, error) {
	if !p.SM.Known && strings.HasPrefix(p.Arch, "cdna") {
		return 90, nil
	}
	sm, err := p.Need(topology.FigureSM)
	return int(sm), err
}

// PrecisionError is a precision that a GPU's tensor cores do not have.
type PrecisionError struct {
	Precision layout.Precision
	Platform  string
	Needs     int // the first compute capability times ten that has it
}

func (e *PrecisionError) Error() string {
	return fmt.Sprintf("--precision %s needs compute capability %.1f, which %s lacks; try bf16", e.Precision, float64(e.Needs)/10, e.Platform)
}

// PrecisionRuns reports, as a *PrecisionError, a precision that a platform's tensor cores do not have.
func PrecisionRuns(precision layout.Precision, p *topology.Platform) error {
	sm, err := computeCapability(p)
	if err != nil {
		return err
	}
	return precisionRuns(precision, p, sm)
}

// precisionRuns checks that the GPU has a format (NVIDIA/TransformerEngine@d0067d0da transformer_engine/pytorch/fp8.py,
// check_fp8_support and its neighbours: FP8 from 8.9, block scaling from 9.0, MXFP8 and NVFP4 from 10.0).
func precisionRuns(precision layout.Precision, p *topology.Platform, sm int) error {
	needs := 0
	switch precision {
	case layout.FP8Tensorwise:
		needs = 89
	case layout.FP8Blockwise:
		needs = 90
	case layout.MXFP8, layout.NVFP4:
		needs = 100
	}
	if sm < needs {
		return &PrecisionError{precision, p.ID, needs}
	}
	return nil
}

// describe accounts for one layout in full.
func (p *pricer) describe(l *layout.Layout) (Plan, error) {
	stages, err := p.memory.Estimate(l)
	if err != nil {
		return Plan{}, err
	}
	now := p.time.Price(l, steptime.AsWritten(l))
	tuned, tunedSide := p.tunedPrice(l, &now)
	lo, hi := now.Band()
	out := Plan{
		Key: l.String(), Layout: *l, Sizes: SizesOf(p.model, l),
		StepTimeMS: ms(now.Step), StepTimeBand: [2]float64{ms(lo), ms(hi)},
		StepSoftware: writtenName(p.model, l),
		TunedTimeMS:  ms(tuned.Step), TunedSoftware: softwareName(p.model, tunedSide),
		TFLOPSPerGPU: now.TFLOPS, TokensPerGPU: now.Tokens, Wall: now.Wall().String(),
		ExposedMS: ms(now.Exposed), Communication: p.traffic(l, &now),
		TimeParts: timeParts(&now, &tuned),
		Notes:     append([]string{}, now.Notes.Texts()...), Why: []string{},
	}
	if hotBytes(&now) > 0 {
		hot := now.HotInNVLink()
		out.NVLinkFraction = &hot
	}
	out.PublishedTwin = twinOf(p.model.ID, p.platform.ID, l)
	var worst memmodel.Stage
	var most memmodel.Need
	for i := range stages {
		if stages[i].PeakAllocated > worst.PeakAllocated {
			worst = stages[i]
		}
		most = most.Max(stages[i].Need())
		out.Stages = append(out.Stages, stageOf(p.model, l, &stages[i]))
	}
	out.HostBytes = most.Host
	out.WorstStage = worst.PipelineRank
	out.CheckStage = checkStage(out.Stages)
	checked, err := p.checkStages(l, stages)
	if err != nil {
		return Plan{}, err
	}
	out.CheckPeak = checked[out.CheckStage].PeakAllocated
	out.Grade = p.budget.grade(most)
	tunedNeed, err := p.tunedNeed(l, tunedSide)
	if err != nil {
		return Plan{}, err
	}
	out.TunedGrade, out.TunedPeak = p.budget.grade(tunedNeed), tunedNeed.Allocated
	out.TunedCard = [2]int64{tunedNeed.Low, tunedNeed.High}
	out.HeadroomGiB = float64(p.budget.capacity-worst.PeakAllocated) / float64(gib)
	if p.model.MoE != nil {
		out.MaxImbalance = p.maxImbalance(stages, l.EP)
	}
	return out, nil
}

// maxImbalance is the load of the fullest expert rank over the mean, during one layer, at which the first stage
// reaches the budget; null if a stage does not fit at the imbalance asked for.
func (p *pricer) maxImbalance(stages []memmodel.Stage, ep int) *float64 {
	most := 0.0
	for i := range stages {
		s := &stages[i]
		if s.ImbalanceSlope == 0 {
			continue
		}
		room := -p.budget.over(s.Need())
		if room < 0 {
			return nil
		}
		limit := p.memory.Run().Imbalance + float64(room)/float64(s.ImbalanceSlope)
		if most == 0 || limit < most {
			most = limit
		}
	}
	if most == 0 {
		return nil
	}
	most = min(most, MostImbalance(p.model, ep))
	return &most
}

// MostImbalance is the largest load that one expert rank can have over the mean: a token sends at most one copy to each
// of its top-k experts, so no rank receives more than all of them from every token, nor more than its experts take.
func MostImbalance(m *arch.Model, ep int) float64 {
	if m.MoE == nil {
		return 1
	}
	return min(float64(ep), float64(m.MoE.NumExperts)/float64(m.MoE.TopK))
}

// checkStage is the stage with the largest peak among those that a run under the fake process group can
// impersonate: the first, the last, and any with MTP layers (layout-rules.md 4.3).
func checkStage(stages []Stage) int {
	best := 0
	for i := range stages {
		if i > 0 && i < len(stages)-1 && stages[i].MTPLayers == 0 {
			continue
		}
		if stages[i].Memory.PeakAllocated > stages[best].Memory.PeakAllocated {
			best = i
		}
	}
	return best
}

func ms(seconds float64) float64 { return seconds * 1e3 }

// softwareName names the switches of a run: "hybridep + EP overlap + delayed wgrad + attn graphs", and "eager" for none. A dense model
// has no dispatcher.
func softwareName(m *arch.Model, s steptime.Software) string {
	var on []string
	if m.MoE != nil {
		on = append(on, s.Dispatcher.String())
	}
	for _, x := range []struct {
		is   bool
		name string
	}{
		{s.EPOverlap, "EP overlap"}, {s.DelayWgrad, "delayed wgrad"}, {s.TPOverlap, "TP overlap"},
		{s.Graph != steptime.Eager, s.Graph.String() + " graphs"},
	} {
		if x.is {
			on = append(on, x.name)
		}
	}
	return cmp.Or(strings.Join(on, " + "), "eager")
}

// writtenName names what a first run of a layout has: its dispatcher and overlap, without graphs.
func writtenName(m *arch.Model, l *layout.Layout) string {
	if name := softwareName(m, steptime.AsWritten(l)); name != "eager" {
		return name + ", eager"
	}
	return "eager"
}

func hotBytes(p *steptime.Price) (n int64) {
	for _, a := range []steptime.Axis{steptime.TP, steptime.CP, steptime.EP, steptime.ETP} {
		n += p.Communication[a].Bytes
	}
	return n
}

// axisGroups are the group families of the axes, as traffic lists them.
var axisGroups = [steptime.NumAxes]folding.GroupKind{
	steptime.TP: folding.GroupTP, steptime.CP: folding.GroupCP, steptime.EP: folding.GroupEP, steptime.ETP: folding.GroupETP,
	steptime.PP: folding.GroupPP, steptime.DP: folding.GroupDPCP, steptime.EDP: folding.GroupEDP,
}

func (p *pricer) traffic(l *layout.Layout, price *steptime.Price) []Traffic {
	domain, err := p.platform.UsableDomain(l.Degrees)
	if err != nil {
		return nil
	}
	spans, _ := topology.SpansOf(l.Degrees, l.RankOrder(), domain)
	out := []Traffic{}
	for a := range steptime.NumAxes {
		span, _ := spans.Of(axisGroups[a])
		c := price.Communication[a]
		if span.Size <= 1 && c.Bytes == 0 {
			continue
		}
		out = append(out, Traffic{Axis: a.String(), GroupSize: span.Size, Domains: span.DomainsMax,
			Bytes: c.Bytes, BytesCrossing: c.Crossing, TimeMS: ms(c.Seconds), ExposedMS: ms(c.Exposed)})
	}
	return out
}

// SizesOf are a layout's degrees and batch under Megatron's names.
func SizesOf(m *arch.Model, l *layout.Layout) Sizes {
	s := Sizes{TP: l.TP, CP: l.CP, DP: l.DP(), PP: l.PP, VPP: l.VPP, ETP: l.ETP, EP: l.EP, EDP: l.EDP(),
		MicroBatchSize: l.MicroBatchSize, GlobalBatchSize: l.GlobalBatchSize, NumMicrobatches: l.NumMicrobatches(),
		Recompute: l.Recompute.String()}
	if l.Split != nil && !l.Split.IsEven(m) {
		s.PipelineLayout = l.Split.String()
	}
	return s
}

// tunedNeed is what a layout takes under the software of the tuned state.
func (p *pricer) tunedNeed(l *layout.Layout, sw steptime.Software) (memmodel.Need, error) {
	run, tuned := p.memory.Run(), *l
	tuned.Dispatcher, tuned.EPOverlap = sw.Dispatcher, sw.EPOverlap
	run.DelayWeightGradient = sw.DelayWgrad
	switch sw.Graph {
	case steptime.FullIteration:
		run.Graphs.FullIteration = true
	case steptime.AttnGraph:
		run.Graphs.Modules = memmodel.GraphAttention | memmodel.GraphRouter | memmodel.GraphPreprocess
	case steptime.RouterGraph:
		run.Graphs.Modules = memmodel.GraphRouter | memmodel.GraphPreprocess
	}
	e, err := memmodel.New(p.model, run)
	if err != nil {
		return memmodel.Need{}, err
	}
	e.Share(p.schedules)
	return e.Need(&tuned), nil
}

func stageOf(m *arch.Model, l *layout.Layout, s *memmodel.Stage) Stage {
	out := Stage{
		PipelineRank: s.PipelineRank,
		Layers:       make([][]int, l.VPP),
		Parameters:   StageParams{s.Parameters.Dense, s.Parameters.Expert, s.Parameters.Total()},
		Memory: Memory{
			Weights: s.Weights, Gradients: s.Gradients, Optimizer: s.Optimizer - s.StepCopies, Workspace: s.Workspace,
			Activations: s.Activations, Transient: s.Transient, DenseState: s.DenseState, ExpertState: s.ExpertState,
			AllocatedAfterStep: s.AllocatedAfterStep, PeakAllocated: s.PeakAllocated,
			PeakReserved: s.Device.Reserved, PeakDevice: s.Device.High, PeakDeviceLow: s.Device.Low,
		},
	}
	for v := range l.VPP {
		cell := l.Split.Cell(s.PipelineRank, v)
		chunk := make([]int, cell.Decoders)
		for i := range chunk {
			chunk[i] = cell.First + i + 1
		}
		out.Layers[v] = chunk
		out.Embedding = out.Embedding || cell.Embedding
		out.OutputLayer = out.OutputLayer || cell.Loss
		out.MTPLayers += cell.MTP
	}
	return out
}
