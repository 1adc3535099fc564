package plan

import (
	"context"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/memmodel"
)

// nearestMiss explains why nothing fits and what would: the layout that exceeds the limit by least, changes to the
// question that make something fit, and the smallest number of GPUs that would do.
func (p *pricer) nearestMiss(ctx context.Context, r *Request, fs findings) (*Miss, error) {
	var miss *finding
	for _, f := range fs {
		if f.missPeak >= 0 && (miss == nil || f.missPeak < miss.missPeak) {
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
		LimitBytes: p.budget.limit(), OverBytes: worst.PeakAllocated - p.budget.limit()}
	out.Component, out.ComponentBytes = largestPart(worst)
	if out.Remedies, err = remedies(ctx, r); err != nil {
		return nil, err
	}
	out.SmallestGPUs, out.SmallestKey, err = fewestGPUs(ctx, r)
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
	{"--wide", "longer CP or ETP > 1: more communication",
		func(r *Request) bool { return !r.Wide }, func(r *Request) { r.Wide = true }},
	{"--moments bf16", "--use-precision-aware-optimizer with bf16 moments: check convergence",
		func(r *Request) bool { return !r.LowPrecisionMoments }, func(r *Request) { r.LowPrecisionMoments = true }},
	{"--moments bf16 --grads bf16", "bf16 moments and gradients: check convergence",
		func(r *Request) bool { return !r.BF16Gradients },
		func(r *Request) { r.LowPrecisionMoments, r.BF16Gradients = true, true }},
	{"--headroom 8", "only 8 GiB left for NCCL, CUDA and the estimate's error",
		func(r *Request) bool { return r.HeadroomGiB == nil },
		func(r *Request) { h := float64(tightMargin); r.HeadroomGiB = &h }},
}

// remedies tries each change alone and returns those after which something fits.
func remedies(ctx context.Context, r *Request) ([]Remedy, error) {
	var out []Remedy
	for _, c := range changes {
		if !c.possible(r) {
			continue
		}
		q := *r
		c.apply(&q)
		key, err := fitting(ctx, &q, false)
		if err != nil {
			return nil, err
		}
		if key != "" {
			out = append(out, Remedy{Change: c.name, Cost: c.cost, Key: key})
		}
	}
	return out, nil
}

// fitting returns the fastest layout that fits a question, or "". With leanest it looks at the smallest
// micro-batch and full recompute alone, which fit if anything does.
func fitting(ctx context.Context, r *Request, leanest bool) (string, error) {
	q := *r
	if leanest {
		if q.Pins.MBS.IsZero() {
			q.Pins.MBS = layout.Exactly(1)
		}
		if q.Recompute == nil {
			q.Recompute = &layout.FullRecompute
		}
	}
	best, err := fastestOf(ctx, &q)
	if err != nil || best == nil {
		return "", err
	}
	return best.layout.String(), nil
}

// growAtMost bounds the search for a larger cluster: 64 times the one that was asked for.
const growAtMost = 64

// fewestGPUs finds the smallest number of GPUs, in whole nodes, on which something fits: it starts from the
// arithmetic floor (all state must fit somewhere) and tries node after node, in steps that grow with the cluster.
func fewestGPUs(ctx context.Context, r *Request) (int, string, error) {
	node := 8
	if r.Platform.Node.Known {
		node = r.Platform.Node.Int()
	}
	p, err := newPricer(r)
	if err != nil {
		return 0, "", err
	}
	floor := p.floorGPUs(r)
	if floor == 0 {
		return 0, "", nil
	}
	n := max(node, (floor+node-1)/node*node)
	for step := node; n <= max(r.GPUs, floor)*growAtMost; n += step {
		if n > 32*step {
			step *= 2
			n = (n + step - 1) / step * step
		}
		q := *r
		q.GPUs = n
		if r.assumedBatch {
			q.GlobalBatchSize = layout.DefaultGlobalBatch(r.SeqLength, n)
		}
		key, err := fitting(ctx, &q, true)
		if err != nil {
			return 0, "", err
		}
		if key != "" {
			return n, key, nil
		}
	}
	return 0, "", nil
}
