package plan

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/recipes"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
	"golang.org/x/sync/errgroup"
)

// Replayed compares the published layouts with the plans that moeplan finds for the same questions.
type Replayed struct {
	Rows     []ReplayRow `json:"rows"`     // in the order of the records; one of each layout
	Legality Legality    `json:"legality"` // whether the published layouts break our rules
	Pairs    []Pairs     `json:"pairs"`    // measured runs that the step time should put in order, by set
	// Skipped counts the records that ask nothing we can answer, by reason; Repeats those left out because another one
	// states the same layout and software.
	Skipped map[string]int `json:"skipped"`
	Repeats int            `json:"repeats"`
}

// ReplayRow is one published layout against our best for the same question. Ratios are predicted times over that of our
// best, at least 1; null where there is none.
type ReplayRow struct {
	ID       string `json:"id"`        // the record, as moeplan recipes lists it
	Model    string `json:"model"`     // the catalogue's id
	Platform string `json:"platform"`  // the catalogue's id
	GPUs     int    `json:"gpus"`      // how many the layout takes
	Layout   string `json:"layout"`    // in text form; recompute is the first rung that fits where the record leaves it open
	MeshText string `json:"mesh_text"` // its degrees and VPP, in text form
	Dense    bool   `json:"dense"`     // a dense model: reported apart, without an aim
	Linear   bool   `json:"linear"`    // Mamba or gated delta net layers, whose time rests on counting: reported apart, without an aim
	Overlap  bool   `json:"overlap"`   // the recipe overlaps EP communication
	Measured bool   `json:"measured"`  // its throughput was published
	// Apart says why the row is not counted; "" for those that are.
	Apart string `json:"apart"`
	// Refused are the rules that the layout breaks.
	Refused []string `json:"refused"`
	// Grade is "" for layouts that are refused or have no step time.
	Grade       Grade    `json:"grade"`
	PeakGiB     *float64 `json:"peak_allocated_gib"` // its predicted allocated peak, GiB; null where grade is ""
	StepSeconds *float64 `json:"step_time_s"`        // its predicted step time, s; null where grade is ""
	// MeasuredSeconds is the published step time, from tokens a second where those were published; null elsewhere.
	MeasuredSeconds *float64 `json:"measured_step_time_s"`

	// AsIs is the published layout against our best, AsIsPinned against our best with its micro-batch, Mesh the best of
	// its pair of meshes against that.
	AsIs       *float64 `json:"as_is"`
	AsIsPinned *float64 `json:"as_is_pinned"`
	Mesh       *float64 `json:"mesh"`
	// Place is that of its mesh among the Meshes that fit with its micro-batch, in the order in which plans are shown;
	// null: not among them, or there was no comparison. PlaceFree is the same with any micro-batch.
	Place     *int `json:"place"`
	Meshes    *int `json:"meshes"` // null where there was no comparison
	PlaceFree *int `json:"place_free"`
	// Best is our best with its micro-batch, BestOfMesh that of its mesh.
	Best       string `json:"best"`
	BestOfMesh string `json:"best_of_mesh"`
	// Verdict is what an examination by hand found; "" if nobody looked.
	Verdict string `json:"verdict"`
}

// Replay answers the questions of the tuned records and compares. Tuned MoE records have a kind that says so
// (recipes.Kind.Tuned) and EP above 1; dense ones are reported beside them. The outcome does not depend on workers; 0 means one
// per CPU.
func Replay(ctx context.Context, workers int) (*Replayed, error) {
	out := &Replayed{Legality: checkAll(), Skipped: make(map[string]int)}
	for _, pairs := range []func() (Pairs, error){anchorPairs, foldingPairs} {
		p, err := pairs()
		if err != nil {
			return nil, err
		}
		out.Pairs = append(out.Pairs, p)
	}
	questions := out.questions()
	out.Rows = make([]ReplayRow, len(questions))
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i, q := range questions {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			row, err := q.replay(ctx)
			if err != nil {
				return fmt.Errorf("record %s: %w", q.recipe.ID, err)
			}
			out.Rows[i] = row
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// questions are those of the tuned records, repeats removed. A measured record stands for the others.
func (out *Replayed) questions() []*question {
	var questions []*question
	seen := make(map[string]int)
	for _, r := range recipes.All() {
		if !r.Kind.Tuned() || r.Inconsistent {
			continue
		}
		q, why := asked(r)
		switch {
		case q == nil:
			out.Skipped[why]++
			continue
		case q.model.MoE != nil && r.EP <= 1:
			out.Skipped["MoE without expert parallelism"]++
			continue
		}
		key := q.identity()
		if at, ok := seen[key]; ok {
			out.Repeats++
			if questions[at].recipe.Throughput() == "" && r.Throughput() != "" {
				questions[at] = q
			}
			continue
		}
		seen[key] = len(questions)
		questions = append(questions, q)
	}
	return questions
}

// replay compares one layout.
func (q *question) replay(ctx context.Context) (ReplayRow, error) {
	row := ReplayRow{
		ID: q.recipe.ID, Model: q.model.ID, Platform: q.platform.ID, GPUs: q.layout.World, Dense: q.model.MoE == nil,
		Linear:  q.model.Kind == arch.Hybrid || q.model.LinearAttention != nil,
		Overlap: q.software.EPOverlap, Measured: q.recipe.Throughput() != "",
		Apart: apart[q.recipe.ID], Verdict: verdicts[q.recipe.ID], Refused: []string{}, Layout: q.layout.String(),
		MeshText: q.recipe.Mesh(),
	}
	if r := q.recipe; r.StepMS > 0 {
		row.MeasuredSeconds = pointer(r.StepMS / 1e3)
	} else if r.Tokens > 0 {
		row.MeasuredSeconds = pointer(float64(r.GlobalBatch) * float64(r.Sequence) / float64(r.GPUs) / r.Tokens)
	}
	if row.Apart == "" && q.offload {
		row.Apart = "offload is not priced"
	}
	for _, v := range layout.Check(q.model, &q.layout).Errors() {
		row.Refused = append(row.Refused, v.Error())
	}
	if len(row.Refused) > 0 {
		return row, nil
	}
	p, err := q.pricer()
	if err != nil {
		return row, err
	}
	own := q.layout
	c, ok := p.as(q, &own)
	if !ok {
		return row, nil
	}
	if q.anyRecompute {
		for _, rung := range layout.RecomputeLadder(q.model) {
			own.Recompute = rung
			if c, ok = p.as(q, &own); ok && c.over <= 0 {
				break
			}
		}
		row.Layout = own.String()
	}
	row.PeakGiB, row.StepSeconds, row.Grade = new(float64(c.peak)/float64(gib)), new(c.tuned), p.budget.grade(p.memory.Need(&own))
	if c.peak > p.budget.capacity {
		return row, nil
	}
	// The recipe ran, so where our estimate is above our limit the limit is low here, for all layouts alike.
	p.budget.admit(p.memory.Need(&own))

	space, err := layout.DefaultSpace(q.model, q.layout.World, q.platform.Domain.Int(), q.run(), layout.Pins{})
	if err != nil {
		return row, err
	}
	all, err := p.replaySweep(ctx, q, space)
	if err != nil {
		return row, err
	}
	one, err := layout.DefaultSpace(q.model, q.layout.World, q.platform.Domain.Int(), q.run(), layout.Pins{
		TP: layout.Exactly(own.TP), CP: layout.Exactly(own.CP), PP: layout.Exactly(own.PP), ETP: layout.Exactly(own.ETP),
		EP: layout.Exactly(own.EP), MBS: layout.Exactly(own.MicroBatchSize)})
	if err != nil {
		return row, err
	}
	members, err := p.replaySweep(ctx, q, one)
	if err != nil {
		return row, err
	}
	members = append(members, c)
	pinned := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return c.layout.MicroBatchSize != own.MicroBatchSize })

	if free := fastest(all); free != nil {
		row.AsIs = over(&c, free)
	}
	if best := fastest(pinned); best != nil {
		member := fastest(members)
		row.AsIsPinned, row.Mesh = over(&c, best), over(member, best)
		row.Best, row.BestOfMesh = best.layout.String(), member.layout.String()
	}
	place, meshes := p.place(pinned, meshOf(&own))
	row.Place, row.Meshes = orNull(place), &meshes
	place, _ = p.place(all, meshOf(&own))
	row.PlaceFree = orNull(place)
	return row, nil
}

// over is the time of one layout over that of another, at least 1: a published layout outside the space we search may be
// faster than all in it.
func over(c, best *candidate) *float64 { return pointer(max(1, c.tuned/best.tuned)) }

func pointer(x float64) *float64 { return &x }

// orNull is a value for JSON, in which one that is not known, which its zero stands for, is null.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func (q *question) run() layout.Run {
	return layout.Run{SeqLength: q.layout.SeqLength, GlobalBatchSize: q.layout.GlobalBatchSize, Precision: q.layout.Precision}
}

func (q *question) pricer() (*pricer, error) {
	mem, err := memmodel.New(q.model, q.memory)
	if err != nil {
		return nil, err
	}
	est, err := steptime.New(q.model, q.platform, q.time)
	if err != nil {
		return nil, err
	}
	gibs, err := q.platform.Need(topology.FigureMemory)
	if err != nil {
		return nil, err
	}
	return &pricer{model: q.model, platform: q.platform, memory: mem, time: est, objective: ByTime, budget: newBudget(q.platform, gibs, -1, 0)}, nil
}

// as prices a layout under the question's software: EP overlap only where the recipe has it and the layout allows it.
func (p *pricer) as(q *question, l *layout.Layout) (candidate, bool) {
	sw := q.software
	sw.EPOverlap = sw.EPOverlap && p.time.OverlapLegal(l)
	sw.DelayWgrad = sw.DelayWgrad && sw.EPOverlap
	l.EPOverlap = sw.EPOverlap
	need := p.memory.Need(l)
	price := p.time.Price(l, sw)
	return candidate{layout: *l, peak: need.Allocated, over: p.budget.over(need), now: price.Step, tuned: price.Step}, price.Known
}

// replaySweep prices a space as sweepPart does, and returns every layout up to the first of each ladder that fits with
// room to spare.
func (p *pricer) replaySweep(ctx context.Context, q *question, space *layout.Space) ([]candidate, error) {
	var all []candidate
	var current base
	done, seen := false, 0
	edge := p.budget.edge()
	for l := range layout.Enumerate(q.model, space, nil) {
		if seen++; seen%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if b := (base{meshOf(&l), l.VPP, l.MicroBatchSize}); b != current {
			current, done = b, false
		}
		if done {
			continue
		}
		c, ok := p.as(q, &l)
		if !ok || c.over > 0 {
			continue
		}
		done = c.over <= -edge
		all = append(all, c)
	}
	return all, nil
}

// fastest returns the layout with the least time, or nil.
func fastest(all []candidate) *candidate {
	var best *candidate
	for i := range all {
		if best == nil || all[i].tuned < best.tuned {
			best = &all[i]
		}
	}
	return best
}

// place ranks one layout of each mesh as plans are ranked, and finds a mesh among them.
func (p *pricer) place(all []candidate, of mesh) (place, meshes int) {
	var each []candidate
	for start := 0; start < len(all); {
		end := start + 1
		for end < len(all) && meshOf(&all[end].layout) == meshOf(&all[start].layout) {
			end++
		}
		each = append(each, p.simplestOf(all[start:end]))
		start = end
	}
	p.order(each)
	at := slices.IndexFunc(each, func(c candidate) bool { return meshOf(&c.layout) == of })
	return at + 1, len(each)
}
