package page

import (
	"context"
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/layout/timeline"
	"github.com/moeplan/moeplan/topology"
)

// Answer is what a page shows.
type Answer struct {
	Model    *arch.Model
	Platform *topology.Platform
	Result   *plan.Result
	// Front are the plans of Result.Pareto that are not among Result.Plans, fastest first.
	Front []plan.Plan
	// Steps are the plans' steps over time, tuned and with fewer micro-batches, by the plans' keys; a plan whose step
	// cannot be drawn has none.
	Steps map[string]*timeline.Timeline
	// Stages say where the bytes of the plans' stages come from, by the plans' keys.
	Stages map[string][]plan.StageAccount
	// Flags repeat the question in commands, as far as a layout's text does not say it; GPUFile and ModelFile are the files
	// that describe the platform and the model, "" for those of the catalogue.
	Flags, GPUFile, ModelFile string
	// Version is that of the program.
	Version string
}

const gib = float64(1 << 30)

// mostFront bounds the plans that are shown for the front alone.
const mostFront = 16

// mostSlower is the step time, over the fastest, up to which the front is shown.
const mostSlower = 1.5

// leastStep is the memory, in GiB, by which shown points of the front differ.
const leastStep = 2

// Ask answers a request with everything that a page shows: the plans, the front of time against memory, and the steps.
func Ask(ctx context.Context, r plan.Request) (*Answer, error) {
	r = r.Together()
	r.Pareto = true
	result, err := plan.Search(ctx, r)
	if err != nil {
		return nil, err
	}
	a := &Answer{Model: r.Model, Platform: r.Platform, Result: result, Steps: map[string]*timeline.Timeline{}, Stages: map[string][]plan.StageAccount{}}
	listed := map[string]bool{}
	for i := range result.Plans {
		listed[result.Plans[i].Key] = true
	}
	for i, point := range result.Pareto {
		if listed[point.Key] || len(a.Front) == mostFront || crowded(result.Pareto, i, a.Front) {
			continue
		}
		p, err := describe(ctx, &r, &result.Request, point.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", point.Key, err)
		}
		a.Front = append(a.Front, *p)
	}
	for _, plans := range [][]plan.Plan{result.Plans, a.Front} {
		for i := range plans {
			l := plans[i].Layout
			if a.Stages[plans[i].Key], err = plan.StagesOf(r, l); err != nil {
				return nil, fmt.Errorf("%s: %w", plans[i].Key, err)
			}
			// What cannot be drawn is left out: the page is about the plans, and says what it could not draw.
			if step, err := plan.Timeline(ctx, r, l, true, drawnMicrobatches(&l)); err == nil {
				a.Steps[plans[i].Key] = step
			}
		}
	}
	return a, ctx.Err()
}

// crowded reports whether a point of the front adds too little memory to the one shown before it to be told apart, or
// is so slow that it would squeeze all others.
func crowded(front []plan.Point, i int, shown []plan.Plan) bool {
	if front[i].TunedTimeMS > mostSlower*front[0].TunedTimeMS {
		return true
	}
	if i == 0 || len(shown) == 0 {
		return false
	}
	return front[i].HeadroomGiB-shown[len(shown)-1].HeadroomGiB < leastStep
}

// describe prices a layout of the front, which the result gives as text only.
func describe(ctx context.Context, r *plan.Request, q *plan.Echo, key string) (*plan.Plan, error) {
	l, err := layout.Parse(key, layout.Defaults{
		World: r.GPUs,
		Run:   layout.Run{SeqLength: q.SeqLength, GlobalBatchSize: q.GlobalBatchSize, Precision: r.Precision, Order: r.Order},
		Model: r.Model,
	})
	if err != nil {
		return nil, err
	}
	p, broken, err := plan.Describe(ctx, *r, l)
	if err == nil && len(broken.Errors()) > 0 {
		err = broken
	}
	return p, err
}
