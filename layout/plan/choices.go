package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

// Choice is one thing done differently, alone: what it saves on the worst stage, and what it costs.
type Choice struct {
	Name  string   `json:"name"`  // in words, such as "recompute moe_act"
	Flags []string `json:"flags"` // Megatron-LM flags that make it
	// SavedBytes is by how many bytes lower the largest allocated peak of all stages becomes; negative if it rises.
	SavedBytes int64 `json:"saved"`
	PeakBytes  int64 `json:"peak_allocated"` // bytes, the largest allocated peak of all stages with it
	Grade      Grade `json:"grade"`          // whether the layout then fits: fits, tight (only the lower figure does) or no
	// TimeMS is the change of the step time as written, eager, by our model; null where it prices no such thing.
	TimeMS *float64 `json:"step_time_change_ms"`
	// HostBytes is the bytes of host memory per GPU that it takes, TrafficBytes those that cross the host link each step.
	HostBytes    int64 `json:"host_bytes"`
	TrafficBytes int64 `json:"host_traffic_per_step"`
	// Note says what the figures leave out; "" if nothing.
	Note string `json:"note"`
}

// moduleNotes explain choices that look better or worse than they are.
var moduleNotes = map[layout.Modules]string{
	layout.CoreAttn: "fused attention keeps no scores; it saves next to nothing and is never proposed",
}

// chooser fills in the choices of an account.
type chooser struct {
	p    *pricer
	r    *Request
	l    *layout.Layout
	peak int64
	now  steptime.Price
	out  *Account
}

// choices tries every recompute module, offload and narrower state, one at a time.
func (a *Account) choices(ctx context.Context, p *pricer, r *Request, l *layout.Layout) {
	a.Choices = []Choice{}
	c := chooser{p: p, r: r, l: l, out: a, peak: a.Stages[a.Worst].Stage.Memory.PeakAllocated, now: p.time.Price(l, steptime.AsWritten(l))}
	c.recompute()
	c.batch()
	c.activationOffload()
	c.state()
	if ctx.Err() != nil {
		return
	}
	slices.SortStableFunc(a.Choices, func(a, b Choice) int { return cmp.Compare(b.SavedBytes, a.SavedBytes) })
}

// recompute switches each module on or off, and takes full recompute.
func (c *chooser) recompute() {
	have := c.l.Recompute
	if have.Granularity != layout.Full {
		for module := layout.CoreAttn; module <= layout.SharedExperts; module <<= 1 {
			l := *c.l
			name := "recompute " + module.String()
			if have.Has(module) {
				name = "no recompute of " + module.String()
			}
			l.Recompute = layout.Recompute{}
			if modules := have.Modules ^ module; modules != 0 {
				l.Recompute = layout.SelectiveRecompute(modules)
			}
			c.layout(name, l, moduleNotes[module])
		}
		l := *c.l
		l.Recompute = layout.FullRecompute
		c.layout("full recompute", l, "")
		return
	}
	l := *c.l
	l.Recompute = layout.Recompute{}
	c.layout("no recompute", l, "")
}

// batch halves the micro-batch.
func (c *chooser) batch() {
	if l := *c.l; l.MicroBatchSize > 1 && l.MicroBatchSize%2 == 0 {
		l.MicroBatchSize /= 2
		c.layout(fmt.Sprintf("micro-batches of %d", l.MicroBatchSize), l, "")
	}
}

// layout prices a change of the layout. What a rule forbids is named with the rule; a module that the model lacks is not.
func (c *chooser) layout(name string, l layout.Layout, note string) {
	for _, broken := range layout.Check(c.p.model, &l) {
		switch {
		case broken.Rule == "recompute-no-effect", broken.Rule == "recompute-mla-up-proj-needs-mla":
			return // the model has nothing of the kind
		case broken.Severity == layout.Error:
			c.out.Excluded = append(c.out.Excluded, fmt.Sprintf("%s: %s: %s", name, broken.Rule, broken.Message))
			return
		}
	}
	stages, err := c.p.memory.Estimate(&l)
	if err != nil {
		return
	}
	choice := c.choice(name, stages, note)
	choice.Flags = c.flags(&l)
	if price := c.p.time.Price(&l, steptime.AsWritten(&l)); price.Known && c.now.Known {
		delta := ms(price.Step) - ms(c.now.Step)
		choice.TimeMS = &delta
	}
	c.add(choice)
}

// flags are the training flags that the changed layout has and this one has not, with their values.
func (c *chooser) flags(l *layout.Layout) []string {
	before, err1 := megatron.Training(c.l, c.p.model)
	after, err2 := megatron.Training(l, c.p.model)
	if err1 != nil || err2 != nil {
		return []string{}
	}
	out := []string{}
	for _, f := range changedFlags(before, after) {
		switch f.B {
		case "":
			out = append(out, "without "+f.Flag)
		default:
			out = append(out, strings.TrimSpace(f.Flag+" "+f.B))
		}
	}
	return out
}

func (c *chooser) choice(name string, stages []memmodel.Stage, note string) Choice {
	out := Choice{Name: name, Note: note, Flags: []string{}}
	var most memmodel.Need
	for i := range stages {
		most = most.Max(stages[i].Need())
		out.PeakBytes = max(out.PeakBytes, stages[i].PeakAllocated)
		out.HostBytes = max(out.HostBytes, stages[i].Host.Total())
		out.TrafficBytes = max(out.TrafficBytes, stages[i].Host.TrafficPerStep)
	}
	out.SavedBytes = c.peak - out.PeakBytes
	out.Grade = c.p.budget.grade(most)
	return out
}

// add keeps what changes anything, and what is asked about although it does not.
func (c *chooser) add(choice Choice) {
	const least = 8 << 20 // below it a choice is noise
	if choice.SavedBytes > least || choice.SavedBytes < -least || choice.Note != "" {
		c.out.Choices = append(c.out.Choices, choice)
	}
}

// activationOffload moves the tensors of each module, and of all of them, to the host.
func (c *chooser) activationOffload() {
	if c.l.Recompute.Granularity == layout.Full {
		c.out.Excluded = append(c.out.Excluded, "activation offload: full recompute keeps only the layers' inputs")
		return
	}
	names := modulesOf(c.p.model.MoE != nil)
	c.offload(names...)
	if c.l.PP == 1 && c.l.Recompute.Granularity == layout.NoRecompute {
		run := c.p.memory.Run()
		if layers := c.p.model.NumLayers - 1; layers > 0 {
			run.Offload.Layers = layers
			c.run(fmt.Sprintf("offload of %d whole layers", layers), run, nil, "--cpu-offloading", fmt.Sprintf("--cpu-offloading-num-layers %d", layers))
		}
	}
	if len(names) > 1 {
		for _, name := range names {
			c.offload(name)
		}
	}
}

func (c *chooser) offload(names ...string) {
	run := c.p.memory.Run()
	for _, name := range names {
		module, ok := memmodel.ParseOffloadModule(name)
		if !ok {
			panic("bug: memmodel does not price the offload of " + name)
		}
		run.Offload.Modules |= module
	}
	what := "offload of " + names[0]
	if len(names) > 1 {
		what = "offload of every module"
	}
	c.run(what, run, nil, "--fine-grained-activation-offloading", "--offload-modules "+strings.Join(names, " "))
}

// state makes what the optimizer keeps smaller, or moves it.
func (c *chooser) state() {
	run := c.p.memory.Run()
	if c.l.Precision != layout.FP16 && run.GradientBytes > 2 {
		run.GradientBytes = 2
		timing := steptime.DefaultRun()
		timing.Imbalance, timing.Factors, timing.GradBytes = c.r.Imbalance, c.r.Factors, 2
		c.run("gradients reduced in bf16", run, &timing, "--grad-reduce-in-bf16")
	}
	run = c.p.memory.Run()
	if !run.PrecisionAware && c.l.Precision != layout.FP16 {
		q := *c.r
		q.LowPrecisionMoments = true
		run.MomentBytes, run.MasterBytes, run.PrecisionAware = q.momentBytes(), q.masterBytes(), true
		c.run("Adam's moments in bf16", run, nil, "--use-precision-aware-optimizer", "--exp-avg-dtype bf16", "--exp-avg-sq-dtype bf16")
	}
	run = c.p.memory.Run()
	run.PrecisionAware, run.Offload.OptimizerFraction = true, 1
	run.MasterBytes = (&Request{LowPrecisionMoments: true}).masterBytes()
	c.run("offload of the optimizer", run, nil, "--optimizer-cpu-offload", "--optimizer-offload-fraction 1", "--use-precision-aware-optimizer")
}

// run prices a change of the run's memory side; timing, if not nil, is the run that its step is priced with.
func (c *chooser) run(name string, run memmodel.Run, timing *steptime.Run, flags ...string) {
	e, err := memmodel.New(c.p.model, run)
	if err != nil {
		return
	}
	stages, err := e.Estimate(c.l)
	if err != nil {
		return
	}
	choice := c.choice(name, stages, "")
	choice.Flags = flags
	switch {
	case timing != nil:
		if e, err := steptime.New(c.p.model, c.p.platform, *timing); err == nil && c.now.Known {
			price := e.Price(c.l, steptime.AsWritten(c.l))
			delta := ms(price.Step) - ms(c.now.Step)
			choice.TimeMS = &delta
		}
	case choice.TrafficBytes > 0:
		choice.Note = c.hostNote(&choice)
	}
	c.add(choice)
}

// hostNote says what the host link needs for the traffic, which our time model does not price, and whether the host has
// the memory.
func (c *chooser) hostNote(choice *Choice) string {
	var notes []string
	if link := c.p.platform.Figure(topology.FigureHostLink); link.Known && link.Value > 0 {
		seconds := float64(choice.TrafficBytes) / (link.Value * 1e9)
		notes = append(notes, fmt.Sprintf("the host link needs %.2f s of each step, hidden or not", seconds))
	} else {
		notes = append(notes, "the host link's rate is unknown")
	}
	if have := c.p.platform.Figure(topology.FigureHostMemory); have.Known && float64(choice.HostBytes) > have.Value*1e9 {
		notes = append(notes, fmt.Sprintf("the host has %.0f GB a GPU", have.Value))
	}
	return strings.Join(notes, "; ")
}
