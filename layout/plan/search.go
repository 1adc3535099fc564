package plan

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/where"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
	"golang.org/x/sync/errgroup"
)

// candidate is one layout that fits, with the two prices that rank it.
type candidate struct {
	layout     layout.Layout
	peak       int64   // allocated, bytes
	over       int64   // beyond the budget, bytes; 0 or less fits
	now, tuned float64 // s
	// bound says that the times are lower bounds, which is enough to drop most layouts.
	bound bool
}

// mesh is what two layouts share that differ only in pipeline interleaving, micro-batch and recompute.
type mesh struct{ tp, cp, pp, etp, ep int }

func meshOf(l *layout.Layout) mesh { return mesh{l.TP, l.CP, l.PP, l.ETP, l.EP} }

// base is a mesh with everything but recompute chosen: what a ladder of rungs belongs to.
type base struct {
	mesh
	vpp, mbs int
}

// finding is what one worker found in its part of the space.
type finding struct {
	counts layout.Counts
	front  []candidate // of time against memory, if asked for
	best   []candidate // one of each mesh that fits: simplestOf
	fit    int64
	// excluded counts legal layouts that the request's condition left out.
	excluded int64
	// failed is why the condition could not be evaluated on some layout; nil if it could on all.
	failed error
	// miss is the layout that exceeds the limit by least.
	miss     layout.Layout
	missOver int64 // bytes, 0 for none
}

// Search answers a request.
//
// Errors: *arch errors of the model, *topology.UnknownFigureError, *memmodel.UnsupportedError and
// *steptime.UnsupportedError for what cannot be priced, *layout.SizeError, *layout.NoLayoutError when nothing is
// legal, and the context's. Nothing fitting is no error: the result then has no plans, and a NearestMiss.
func Search(ctx context.Context, r Request) (*Result, error) {
	start := time.Now()
	r, assumed := r.filled()
	p, err := newPricer(&r)
	if err != nil {
		return nil, err
	}
	space, err := r.space()
	if err != nil {
		return nil, err
	}
	found, err := sweep(ctx, &r, space)
	if err != nil {
		return nil, err
	}
	out := &Result{Assumed: assumed, Request: r.echo(p), Notes: []string{}, Pareto: []Point{}}
	out.Searched = found.searched(space)
	if found.legal() == 0 {
		return nil, found.noLayout(r.Model, space)
	}
	if out.Searched.Excluded == out.Searched.Legal {
		return nil, &layout.NoLayoutError{Message: fmt.Sprintf("none of %d legal layouts meets %q", out.Searched.Legal, r.Where) + found.failure("; it cannot be evaluated on some: ")}
	}
	if r.Pareto {
		out.Pareto = found.front(p.budget)
	}
	out.Plans, err = p.ranked(found.best(), r.Top)
	if err != nil {
		return nil, err
	}
	if len(out.Plans) == 0 {
		if out.NearestMiss, err = p.nearestMiss(ctx, &r, found); err != nil {
			return nil, err
		}
	} else {
		if out.Folding, err = unfolded(ctx, &r, &out.Plans[0]); err != nil {
			return nil, err
		}
		if out.BF16Gradients, err = withBF16Gradients(ctx, &r, &out.Plans[0]); err != nil {
			return nil, err
		}
		p.explain(&r, out)
	}
	out.Notes = p.notes(&r, out)
	if failure := found.failure("left out, because the condition cannot be evaluated on them, are some layouts: "); failure != "" {
		out.Notes = append(out.Notes, failure)
	}
	out.Searched.Seconds = time.Since(start).Seconds()
	return out, nil
}

// findings are those of all parts, in the order of the parts.
type findings []*finding

// failure says why the condition could not be evaluated on some layout, after the given words; "" if it could on all.
func (f findings) failure(before string) string {
	for _, part := range f {
		if part.failed != nil {
			return before + part.failed.Error()
		}
	}
	return ""
}

// sweep prices a space, one part per candidate of PP so that no two workers share a split. The result depends on
// the space alone, never on the number of workers.
func sweep(ctx context.Context, r *Request, space *layout.Space) (findings, error) {
	parts := make(findings, len(space.PP))
	workers := r.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i := range space.PP {
		part := *space
		part.PP = space.PP[i : i+1]
		g.Go(func() error {
			p, err := newPricer(r)
			if err != nil {
				return err
			}
			keep, failed, err := r.keeps()
			if err != nil {
				return err
			}
			if parts[i], err = p.sweepPart(ctx, &part, keep, r.Pareto); err == nil {
				parts[i].failed = failed()
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return parts, nil
}

// keeps compiles the conditions that layouts must meet beyond legality, for one worker; nil if there are none. failed says
// afterwards why one could not be evaluated, if so.
func (r *Request) keeps() (keep func(*layout.Layout) bool, failed func() error, err error) {
	if r.Where == "" {
		return r.keep, func() error { return nil }, nil
	}
	condition, err := where.Compile(r.Where)
	if err != nil {
		return nil, nil, err
	}
	return func(l *layout.Layout) bool { return (r.keep == nil || r.keep(l)) && condition.Holds(l) }, condition.Err, nil
}

// checkEvery is how many layouts a worker prices between looks at the context.
const checkEvery = 4096

// sweepPart prices one part of a space. Of each ladder of recompute rungs, cheapest first, those are timed up to the
// first that fits with room to spare. keep, if not nil, restricts the layouts.
func (p *pricer) sweepPart(ctx context.Context, space *layout.Space, keep func(*layout.Layout) bool, pareto bool) (*finding, error) {
	f := &finding{}
	edge := p.budget.edge()
	var (
		current base // whose ladder is being climbed
		fits    bool
		at      mesh
		rungs   []candidate // of the mesh: those that fit, up to the first of each ladder with room to spare
		seen    int
	)
	flush := func() {
		if len(rungs) > 0 {
			f.best = append(f.best, p.simplestOf(rungs))
		}
		rungs = rungs[:0]
	}
	for l := range layout.Enumerate(p.model, space, &f.counts) {
		if seen++; seen%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if keep != nil && !keep(&l) {
			f.excluded++
			continue
		}
		if m := meshOf(&l); m != at {
			flush()
			at = m
		}
		if b := (base{at, l.VPP, l.MicroBatchSize}); b != current {
			current, fits = b, false
		}
		need := p.memory.Need(&l)
		over := p.budget.over(need)
		if over > 0 {
			if f.missOver == 0 || over < f.missOver {
				f.miss, f.missOver = l, over
			}
			continue
		}
		f.fit++
		climbing := !fits
		fits = fits || over <= -edge // at the edge of memory the next rung is a choice too
		if !climbing && !pareto {
			continue
		}
		price := p.bounded
		if pareto {
			price = p.timed
		}
		c, ok := price(&l, need)
		if ok && pareto {
			f.front = addToFront(f.front, c)
		}
		if ok && climbing {
			rungs = append(rungs, c)
		}
	}
	flush()
	return f, ctx.Err()
}

// timed prices a layout's step under both software sides; false where no time exists.
func (p *pricer) timed(l *layout.Layout, need memmodel.Need) (candidate, bool) {
	now := p.time.Price(l, steptime.AsWritten(l))
	if !now.Known {
		return candidate{}, false
	}
	tuned, _ := p.tunedPrice(l, &now)
	return candidate{layout: *l, peak: need.Allocated, over: p.budget.over(need), now: now.Step, tuned: tuned.Step}, true
}

// bounded is timed with lower bounds of both times where those are cheaper.
func (p *pricer) bounded(l *layout.Layout, need memmodel.Need) (candidate, bool) {
	if l.VPP == 1 {
		return p.timed(l, need)
	}
	now := p.time.Bound(l, steptime.AsWritten(l))
	if !now.Known {
		return candidate{}, false
	}
	tuned := p.time.Bound(l, p.time.Tuned(l))
	return candidate{layout: *l, peak: need.Allocated, over: p.budget.over(need), now: now.Step, tuned: min(now.Step, tuned.Step), bound: true}, true
}

// settle replaces a candidate's bounds by its times.
func (p *pricer) settle(c *candidate) {
	if !c.bound {
		return
	}
	now := p.time.Price(&c.layout, steptime.AsWritten(&c.layout))
	tuned, _ := p.tunedPrice(&c.layout, &now)
	c.now, c.tuned, c.bound = now.Step, tuned.Step, false
}

// tunedPrice prices the tuned state, which keeps the software as written where the usual switches would not pay.
func (p *pricer) tunedPrice(l *layout.Layout, now *steptime.Price) (steptime.Price, steptime.Software) {
	sw := p.time.Tuned(l)
	if tuned := p.time.Price(l, sw); tuned.Step <= now.Step {
		return tuned, sw
	}
	return *now, steptime.AsWritten(l)
}

func (fs findings) legal() (n int64) {
	for _, f := range fs {
		n += f.counts.Legal
	}
	return n
}

func (fs findings) best() (all []candidate) {
	for _, f := range fs {
		all = append(all, f.best...)
	}
	return all
}

// searched adds the parts' counts up.
func (fs findings) searched(space *layout.Space) Searched {
	s := Searched{RejectedByRule: map[string]int{}, NotSearched: []string{
		"offload", "FSDP", "uneven expert placement"}}
	for _, f := range fs {
		s.Meshes += int(f.counts.Meshes)
		s.Layouts += int(f.counts.Layouts)
		s.Legal += int(f.counts.Legal)
		s.Fit += int(f.fit)
		s.Excluded += int(f.excluded)
		s.FitMeshes += len(f.best)
		for _, c := range f.counts.Illegal() {
			s.RejectedByRule[string(c.Rule)] += int(c.Count)
		}
	}
	if !space.Wide {
		s.NotSearched = append(s.NotSearched, "ETP > 1 and longer CP (--wide)")
	}
	return s
}

// noLayout says why nothing is legal, by one pass over the whole space.
func (fs findings) noLayout(m *arch.Model, space *layout.Space) error {
	var counts layout.Counts
	for range layout.Enumerate(m, space, &counts) {
		break
	}
	return counts.Err(m, space)
}

// space is the request's search space.
func (r *Request) space() (*layout.Space, error) {
	// TP may span what shares NVLink or, without NVLink, a host.
	node := max(r.Platform.Domain.Int(), r.Platform.Node.Int(), 1)
	pins := r.Pins
	if r.Recompute != nil {
		pins.Recompute = []layout.Recompute{*r.Recompute}
	}
	run := layout.Run{SeqLength: r.SeqLength, GlobalBatchSize: r.GlobalBatchSize, Precision: r.Precision, Order: r.Order}
	build := layout.DefaultSpace
	if r.Wide {
		build = layout.WideSpace
	}
	space, err := build(r.Model, r.GPUs, node, run, pins)
	if err != nil {
		return nil, err
	}
	return space, tooLarge(space)
}

// maxCombinations bounds a search: ten times the widest space that is searched without pins.
const maxCombinations = 5_000_000

// tooLarge refuses a space whose pins ask for more than can be priced in a moment.
func tooLarge(s *layout.Space) error {
	n := 1
	for _, list := range [][]int{s.TP, s.CP, s.PP, s.ETP, s.EP, s.VPP, s.MBS} {
		if n *= max(1, len(list)); n > maxCombinations {
			return &layout.SizeError{What: "search of more than", Value: fmt.Sprint(maxCombinations), Problem: "combinations: pin fewer sizes"}
		}
	}
	return nil
}

// echo repeats the question with its defaults.
func (r *Request) echo(p *pricer) Echo {
	total, active := r.Model.Parameters()
	e := Echo{
		Model: r.Model.ID, ParametersTotal: total, ParametersActive: active, Platform: r.Platform.ID, GPUs: r.GPUs,
		SeqLength: r.SeqLength, GlobalBatchSize: r.GlobalBatchSize, Precision: r.Precision.String(),
		Gradients: "fp32", Moments: "fp32", Offload: r.Offload, Imbalance: r.Imbalance,
		MemoryGiB:   r.Platform.MemoryGiB.Value,
		HeadroomGiB: float64(p.budget.headroom) / float64(gib), ReserveGiB: r.ReserveGiB,
		GPUsPerNode: 8, OrderedBy: "tuned time", Given: map[string]float64{},
		ModelDigest: ModelDigest(r.Model), PlatformDigest: PlatformDigest(r.Platform), TrainableFraction: cmp.Or(r.TrainableFraction, 1),
	}
	if ownModel(r.Model) {
		e.ModelSpec = r.Model
	}
	if ownPlatform(r.Platform) {
		e.PlatformSpec = specOf(r.Platform)
	}
	if r.Factors != (steptime.Factors{}) {
		e.Factors = &r.Factors
	}
	if p.objective != ByTime {
		e.OrderedBy = string(p.objective)
	}
	for _, id := range r.Platform.Overridden {
		e.Given[string(id)] = r.Platform.Figure(id).Value
	}
	if r.Precision == layout.FP16 {
		e.Gradients = "fp16"
	}
	if r.BF16Gradients {
		e.Gradients = "bf16"
	}
	if r.LowPrecisionMoments {
		e.Moments = "bf16"
	}
	if n, err := r.Platform.Need(topology.FigureNode); err == nil {
		e.GPUsPerNode = int(n)
	}
	if n, err := r.Platform.Need(topology.FigureDomain); err == nil {
		e.NVLinkDomain = int(n)
	}
	return e
}
