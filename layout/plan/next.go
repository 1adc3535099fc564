package plan

import (
	"context"
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

// Experiment is one change to try, alone, on a layout that runs.
type Experiment struct {
	Order    int      `json:"order"`    // from 1, in which the field tries them
	Variable string   `json:"variable"` // what changes
	Why      string   `json:"why"`      // what speaks for it on this layout
	Flags    []string `json:"flags"`    // Megatron-LM flags that switch it, exactly
	Requires []string `json:"requires"` // packages, versions and rules that must hold
	// Expected is the relative change of the step time by our model, from the run as written (for delayed weight gradients
	// from that with EP overlap); null where it prices no such thing. Memory is the change of the worst stage's allocated
	// peak in bytes, null likewise.
	Expected *float64 `json:"expected_time_change"`
	Memory   *int64   `json:"expected_memory_change"`
	Accept   string   `json:"accept"` // the evidence that would accept it
	Source   string   `json:"source"` // where the experiment is recommended
}

// Experiments are what to try next on a layout.
type Experiments struct {
	Key  string `json:"key"`  // the layout in its text form, complete
	Wall string `json:"wall"` // of the run as written, by our model
	// BaselineMS is the step time that the expectations refer to, with the dispatcher and the overlap that the layout names.
	BaselineMS float64      `json:"baseline_step_time_ms"`
	Software   string       `json:"baseline_software"` // the run as written, in words: dispatcher, CUDA graphs, overlap
	List       []Experiment `json:"experiments"`       // in the order to try them; never a combination
	// Excluded are experiments that cannot be tried here, with the rule that forbids them.
	Excluded []string `json:"excluded"`
}

const (
	docsOptimization = "NVIDIA-NeMo/Megatron-Bridge@067f987df docs/training/moe-optimization.md and skills/perf-*"
	coreSchedule     = "NVIDIA/Megatron-LM@d98e8a64dd megatron/core/models/common/model_chunk_schedule_plan.py"
	coreConfig       = "NVIDIA/Megatron-LM@d98e8a64dd megatron/core/transformer/transformer_config.py"
)

// SteadyAB is what every time comparison needs before it is believed.
const SteadyAB = "matched A/B of at least 50 steady steps, only this variable changed, difference outside the spread; same loss"

const steady = SteadyAB

// Next lists single-variable experiments for a layout, in the order in which the field tries them. No combination is
// ever a first step.
func Next(ctx context.Context, r Request, l layout.Layout) (*Experiments, error) {
	r, _ = r.filled()
	p, err := newPricer(&r)
	if err != nil {
		return nil, err
	}
	base := steptime.AsWritten(&l)
	now := p.time.Price(&l, base)
	if !now.Known {
		return nil, fmt.Errorf("no step time of %s: %v", l.String(), now.Notes.Texts())
	}
	n := &nextList{p: p, l: &l, base: base, now: now, out: &Experiments{Key: l.String(), Wall: now.Wall().String(), BaselineMS: ms(now.Step),
		Software: writtenName(r.Model, &l)}}
	n.peak, _ = p.memory.Peak(&l)
	for _, step := range []func(){n.dispatchers, n.epOverlap, n.sharedOverlap, n.dense, n.recompute, n.host, n.precision, n.graphs, n.pipeline} {
		step()
	}
	for i := range n.out.List {
		n.out.List[i].Order = i + 1
	}
	return n.out, ctx.Err()
}

// nextList builds the list.
type nextList struct {
	p    *pricer
	l    *layout.Layout
	base steptime.Software
	now  steptime.Price
	peak int64
	out  *Experiments
}

func (n *nextList) moe() bool       { return n.p.model.MoE != nil }
func (n *nextList) blackwell() bool { return n.p.platform.SM.Int() >= 100 }

func (n *nextList) add(e Experiment) { n.out.List = append(n.out.List, e) }

func (n *nextList) exclude(format string, args ...any) {
	n.out.Excluded = append(n.out.Excluded, fmt.Sprintf(format, args...))
}

// software prices a change of the software side alone.
func (n *nextList) software(change func(*steptime.Software)) *float64 {
	sw := n.base
	change(&sw)
	price := n.p.time.Price(n.l, sw)
	if !price.Known {
		return nil
	}
	return relative(price.Step, n.now.Step)
}

// layout prices a change of the layout alone. It returns nothing for a layout that a rule forbids or that does not fit.
func (n *nextList) layout(changed layout.Layout) (time *float64, memory *int64, why string) {
	if broken := layout.Check(n.p.model, &changed).Errors(); len(broken) > 0 {
		return nil, nil, string(broken[0].Rule) + ": " + broken[0].Message
	}
	need := n.p.memory.Need(&changed)
	if over := n.p.budget.over(need); over > 0 {
		return nil, nil, fmt.Sprintf("does not fit: %.1f GiB over", float64(over)/float64(gib))
	}
	sw := n.base
	sw.Dispatcher, sw.EPOverlap = changed.Dispatcher, changed.EPOverlap
	price := n.p.time.Price(&changed, sw)
	if !price.Known {
		return nil, nil, "has no price"
	}
	change := need.Allocated - n.peak
	return relative(price.Step, n.now.Step), &change, ""
}

func relative(after, before float64) *float64 {
	x := after/before - 1
	return &x
}

func (n *nextList) dispatchers() {
	if !n.moe() || n.l.EP*n.l.ETP == 1 {
		return
	}
	domain, _ := n.p.platform.UsableDomain(n.l.Degrees)
	spans, _ := topology.SpansOf(n.l.Degrees, n.l.RankOrder(), domain)
	where := "inside one NVLink domain the model cannot tell dispatchers apart: measure"
	if !spans.ETPEP.Local() {
		where = fmt.Sprintf("EP %d spans %d NVLink domains; a flex backend sends each token once per domain", n.l.EP, spans.ETPEP.DomainsMax)
	}
	hybrid := []string{"the deep_ep package with HybridEP"}
	if e := &spans.ETPEP; e.RanksMin == e.RanksMax && e.RanksMax > 0 { // else HybridEP has to find out by itself
		hybrid = append(hybrid, fmt.Sprintf("NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN=%d", e.RanksMax))
	}
	for _, d := range []struct {
		to       layout.Dispatcher
		requires []string
	}{
		{layout.DeepEP, []string{"the deep_ep package", "--moe-router-dtype fp32", "no padding of experts to capacity"}},
		{layout.HybridEP, hybrid},
	} {
		if n.l.Dispatcher == d.to {
			continue
		}
		changed := *n.l
		changed.Dispatcher = d.to
		expected, memory, why := n.layout(changed)
		if why != "" {
			n.exclude("dispatcher %s: %s", d.to, why)
			continue
		}
		if spans.ETPEP.Local() {
			expected = nil
		}
		n.add(Experiment{Variable: "dispatcher " + d.to.String(), Why: where,
			Flags:    []string{"--moe-token-dispatcher-type flex", "--moe-flex-dispatcher-backend " + d.to.String()},
			Requires: d.requires, Expected: expected, Memory: memory,
			Accept: steady + "; the profile shows the backend's kernels", Source: docsOptimization})
	}
}

func (n *nextList) epOverlap() {
	if !n.moe() || n.l.EP == 1 {
		return
	}
	overlapped := n.base
	overlapped.EPOverlap = true
	delayed := Experiment{Variable: "delayed weight gradients, once EP overlap is accepted", Expected: n.delayed(overlapped), Why: "widens the window that communication hides under",
		Flags: []string{"--delay-wgrad-compute"}, Requires: []string{"EP overlap on", "Transformer Engine 2.8 with gradient overlap"},
		Accept: steady, Source: docsOptimization}
	if n.l.EPOverlap {
		delayed.Variable, delayed.Requires = "delayed weight gradients", delayed.Requires[1:]
		n.add(delayed)
		return
	}
	if !n.p.time.OverlapLegal(n.l) {
		n.exclude("EP overlap: needs VPP when PP > 1, no full and no moe recompute, at most one MTP layer (%s)", coreConfig)
		return
	}
	changed := *n.l
	changed.EPOverlap = true
	expected, memory, why := n.layout(changed)
	if why != "" {
		n.exclude("EP overlap: %s", why)
		return
	}
	n.add(Experiment{Variable: "EP overlap", Why: "hides dispatch and combine under another micro-batch's compute",
		Flags: []string{"--overlap-moe-expert-parallel-comm"}, Requires: []string{"torch 2.6", "bf16 or fp16", "no shared-expert overlap"},
		Expected: expected, Memory: memory, Accept: steady + "; the trace shows dispatch kernels under compute", Source: coreSchedule})
	n.add(delayed)
}

// delayed prices delayed weight gradients on top of EP overlap.
func (n *nextList) delayed(overlapped steptime.Software) *float64 {
	before := n.p.time.Price(n.l, overlapped)
	overlapped.DelayWgrad = true
	after := n.p.time.Price(n.l, overlapped)
	if !before.Known || !after.Known {
		return nil
	}
	return relative(after.Step, before.Step)
}

func (n *nextList) sharedOverlap() {
	if !n.moe() || n.p.model.MoE.SharedFFNSize == 0 {
		return
	}
	if n.l.EPOverlap {
		n.exclude("shared-expert overlap: EP overlap is on, and they exclude each other (%s)", coreConfig)
		return
	}
	if n.l.Recompute.Has(layout.SharedExperts) {
		n.exclude("shared-expert overlap: excludes recompute of shared_experts (%s)", coreConfig)
		return
	}
	n.add(Experiment{Variable: "shared-expert overlap", Why: "runs the shared expert under dispatch and combine",
		Flags: []string{"--moe-shared-expert-overlap"}, Requires: []string{"alltoall or flex dispatcher", "EP overlap off: they exclude each other"},
		Accept: steady, Source: coreConfig})
}

func (n *nextList) dense() {
	switch {
	case n.l.TP > 1 && n.l.EPOverlap && !n.blackwell():
		n.exclude("TP overlap: wants CUDA_DEVICE_MAX_CONNECTIONS=1, with which EP overlap cannot work")
	case n.l.TP > 1:
		n.add(Experiment{Variable: "TP overlap", Why: fmt.Sprintf("TP %d gathers and scatters on every linear", n.l.TP),
			Flags: []string{"--tp-comm-overlap"}, Requires: []string{"sequence parallel", "Transformer Engine user buffers"},
			Expected: n.software(func(s *steptime.Software) { s.TPOverlap = true }), Accept: steady, Source: docsOptimization})
	}
	if n.l.DP()*n.l.CP > 1 && !n.base.OverlapDP {
		n.add(Experiment{Variable: "gradient and parameter overlap", Why: "hides reduce-scatter and all-gather under backward and forward",
			Flags: []string{"--overlap-grad-reduce", "--overlap-param-gather"}, Requires: []string{"distributed optimizer"},
			Expected: n.software(func(s *steptime.Software) { s.OverlapDP = true }), Accept: steady,
			Source: "NVIDIA/Megatron-LM@d98e8a64dd megatron/core/distributed/distributed_data_parallel.py"})
	}
}

func (n *nextList) recompute() {
	ladder := layout.RecomputeLadder(n.p.model)
	for i, rung := range ladder {
		if rung != n.l.Recompute || i == 0 {
			continue
		}
		lighter := *n.l
		lighter.Recompute = ladder[i-1]
		time, memory, why := n.layout(lighter)
		if why != "" {
			n.exclude("recompute %s instead of %s: %s", ladder[i-1], rung, why)
			return
		}
		n.add(Experiment{Variable: "recompute " + ladder[i-1].String(), Why: "one rung less to compute again",
			Flags: recomputeFlags(ladder[i-1]), Expected: time, Memory: memory,
			Accept: "max allocated below the limit in every rank's log, then " + steady, Source: "moeplan's own price"})
	}
}

func recomputeFlags(r layout.Recompute) []string {
	switch r.Granularity {
	case layout.Selective:
		return []string{"--recompute-granularity selective", "--recompute-modules " + spaced(r.Modules.String())}
	case layout.Full:
		return []string{"--recompute-granularity full", "--recompute-method uniform", fmt.Sprintf("--recompute-num-layers %d", r.NumLayers)}
	}
	return []string{"(no --recompute flags)"}
}

func spaced(list string) string {
	out := []byte(list)
	for i := range out {
		if out[i] == ',' {
			out[i] = ' '
		}
	}
	return string(out)
}
