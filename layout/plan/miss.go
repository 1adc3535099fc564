package plan

import (
	"context"
	"errors"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
)

// nearestMiss explains why nothing fits and what would: the layout that exceeds the limit by least, changes to the
// question that make something fit, and the smallest number of GPUs that would do.
func (p *pricer) nearestMiss(ctx context.Context, r *Request, fs findings) (*Miss, error) {
	var miss *finding
	for _, f := range fs {
		if f.missOver > 0 && (miss == nil || f.missOver < miss.missOver) {
			miss = f
		}
	}
	if miss == nil {
		return nil, nil
	}
	stages, err := p.memory.Estimate(&miss.miss)
	if err != nil {
		return nil, err
	}
	worst := &stages[0]
	for i := range stages {
		if stages[i].PeakAllocated > worst.PeakAllocated {
			worst = &stages[i]
		}
	}
	out := &Miss{Key: miss.miss.String(), Stage: worst.PipelineRank, PeakBytes: worst.PeakAllocated,
		LimitBytes: p.budget.limit(), OverBytes: miss.missOver}
	out.Component, out.ComponentBytes = largestPart(worst)
	if out.Remedies, err = remedies(ctx, r); err != nil {
		return nil, err
	}
	smallest, key, err := fewestGPUs(ctx, r)
	out.SmallestGPUs, out.SmallestKey = orNull(smallest), orNull(key)
	var unknown *topology.UnknownFigureError
	if errors.As(err, &unknown) { // a larger cluster would need a figure that this question does not
		err = nil
	}
	return out, err
}

// largestPart names the component that weighs most on a stage.
func largestPart(s *memmodel.Stage) (string, int64) {
	name, most := "", int64(-1)
	for _, part := range []struct {
		name  string
		bytes int64
	}{
		{"expert state (weights, gradients, optimizer)", s.ExpertState},
		{"dense state (weights, gradients, optimizer)", s.DenseState},
		{"saved activations", s.Activations},
		{"what the running layer needs", s.Transient},
		{"workspaces", s.Workspace},
	} {
		if part.bytes > most {
			name, most = part.name, part.bytes
		}
	}
	return name, most
}

// change is one thing to give up, cheapest first.
type change struct {
	name, cost string
	possible   func(*Request) bool
	apply      func(*Request)
}

var changes = []change{
	{"without the pinned sizes", "other degrees than those asked for",
		func(r *Request) bool { return r.pinned() }, func(r *Request) { r.Pins, r.Recompute, r.Where = layout.Pins{}, nil, "" }},
	{"--wide", "longer CP or ETP > 1: more communication",
		func(r *Request) bool { return !r.Wide }, func(r *Request) { r.Wide = true }},
	{"--moments bf16", "--use-precision-aware-optimizer with bf16 moments: check convergence",
		func(r *Request) bool { return !r.LowPrecisionMoments }, func(r *Request) { r.LowPrecisionMoments = true }},
	{"--moments bf16 --grads bf16", "bf16 moments and gradients: check convergence",
		func(r *Request) bool { return !r.BF16Gradients },
		func(r *Request) { r.LowPrecisionMoments, r.BF16Gradients = true, true }},
	{"--offload activations", "saved tensors wait in host memory: time over the host link, which is not priced",
		func(r *Request) bool { return r.Offload == OffloadNothing }, func(r *Request) { r.Offload = OffloadActivations }},
	{"--offload optimizer", "optimizer state and step on the CPU: host memory, and time that is not priced",
		func(r *Request) bool { return r.Offload == OffloadNothing }, func(r *Request) { r.Offload = OffloadOptimizer }},
	{"--offload both", "activations and optimizer state in host memory, at a price in time that is not known",
		func(r *Request) bool { return r.Offload == OffloadNothing }, func(r *Request) { r.Offload = OffloadBoth }},
	{"--headroom 0", "the upper figure may fill the card: no room for the estimate's error",
		func(r *Request) bool { return r.HeadroomGiB == nil },
		func(r *Request) { r.HeadroomGiB = new(float64) }},
}

// remedies tries each change alone and returns those after which something fits.
func remedies(ctx context.Context, r *Request) ([]Remedy, error) {
	out := []Remedy{}
	for _, c := range changes {
		if !c.possible(r) {
			continue
		}
		q := *r
		c.apply(&q)
		key, err := fitting(ctx, &q)
		if err != nil {
			return nil, err
		}
		if key != "" {
			out = append(out, Remedy{Change: c.name, Cost: c.cost, Key: key})
		}
	}
	return out, nil
}

// fitting returns the fastest layout that fits a question, or "".
func fitting(ctx context.Context, r *Request) (string, error) {
	lean := r.leanest()
	p, err := newPricer(&lean)
	if err != nil {
		return "", err
	}
	if fits, _ := p.anyFits(&lean); !fits {
		return "", ctx.Err()
	}
	best, err := fastestOf(ctx, r)
	if err != nil || best == nil {
		return "", err
	}
	return best.layout.String(), nil
}

// leanest restricts a question to what fits if anything does: the smallest micro-batch and full recompute.
func (r *Request) leanest() Request {
	q := *r
	if q.Pins.MBS.IsZero() {
		q.Pins.MBS = layout.Exactly(1)
	}
	if q.Recompute == nil {
		q.Recompute = &layout.FullRecompute
	}
	return q
}

// mostNodes bounds the search for a larger cluster, mostLooked the layouts that it looks at: absurd questions, such as a sequence
// of 64 Mi tokens, fit nowhere.
const (
	mostNodes  = 1024
	mostLooked = 150_000
)

// fewestGPUs finds the smallest number of GPUs, in whole nodes, on which something fits: from the arithmetic floor (weights
// and gradients must fit somewhere) node by node.
func fewestGPUs(ctx context.Context, r *Request) (int, string, error) {
	node := 8
	if r.Platform.Node.Known {
		node = r.Platform.Node.Int()
	}
	q := r.leanest()
	q.GPUs = node
	p, err := newPricer(&q)
	if err != nil {
		return 0, "", err
	}
	floor := p.floorGPUs(r)
	if floor == 0 {
		return 0, "", nil
	}
	looked := 0
	for nodes := (floor + node - 1) / node; nodes <= mostNodes && looked < mostLooked; nodes++ {
		if ctx.Err() != nil {
			return 0, "", ctx.Err()
		}
		q.GPUs = nodes * node
		if r.assumedBatch {
			q.GlobalBatchSize = layout.DefaultGlobalBatch(r.SeqLength, q.GPUs)
		}
		fits, n := p.anyFits(&q)
		looked += n
		if !fits {
			continue
		}
		key, err := fitting(ctx, &q)
		return q.GPUs, key, err
	}
	return 0, "", nil
}

// anyFits reports whether any layout of a question fits, and how many it has looked at. Memory depends on the model and the run alone, so one pricer
// serves every number of GPUs.
func (p *pricer) anyFits(r *Request) (fits bool, looked int) {
	space, err := r.space()
	if err != nil {
		return false, 0
	}
	keep, _, err := r.keeps()
	if err != nil {
		return false, 0
	}
	for l := range layout.Enumerate(p.model, space, nil) {
		if keep != nil && !keep(&l) {
			continue
		}
		looked++
		if p.budget.over(p.memory.Need(&l)) <= 0 {
			return true, looked
		}
	}
	return false, looked
}
