package plan

import (
	"context"

	"github.com/moeplan/moeplan/layout"
)

// Base is where a layout that somebody has stands among those that the search finds.
type Base struct {
	Key string `json:"key"` // its text form
	// Place is 1 for a layout that no pair of meshes beats, Of the number of pairs that fit, this one included if it fits.
	Place int `json:"place"`
	Of    int `json:"of"`
	// TunedTimeMS is its own tuned time; SlowerBy is that over the best plan's, less one.
	TunedTimeMS float64 `json:"tuned_step_time_ms"`
	SlowerBy    float64 `json:"slower_by"`
	Fits        bool    `json:"fits"`           // into the memory that may be taken
	PeakBytes   int64   `json:"peak_allocated"` // of its worst stage, bytes
	Best        string  `json:"best"`           // text form of the best plan
}

// CompareBase finds the place of a layout among the best of each pair of meshes that answers the same question. It is nil
// where the layout has no price or nothing fits.
func CompareBase(ctx context.Context, r Request, l layout.Layout) (*Base, error) {
	r, _ = r.filled()
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
	mine, ok := p.timed(&l, p.memory.Need(&l))
	all := found.best()
	if !ok || len(all) == 0 {
		return nil, nil
	}
	out := &Base{Key: l.String(), Place: 1, TunedTimeMS: ms(mine.tuned), PeakBytes: mine.peak, Fits: mine.over <= 0}
	best := all[0]
	listed := false
	for _, c := range all {
		if c.tuned < best.tuned {
			best = c
		}
		if meshOf(&c.layout) == meshOf(&l) {
			listed = true
			continue
		}
		if c.tuned < mine.tuned {
			out.Place++
		}
	}
	out.Of = len(all)
	if !listed {
		out.Of++
	}
	out.SlowerBy, out.Best = mine.tuned/best.tuned-1, best.layout.String()
	return out, nil
}
