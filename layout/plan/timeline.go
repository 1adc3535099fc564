package plan

import (
	"context"
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/timeline"
	"github.com/moeplan/moeplan/topology/steptime"
)

// Timeline lays one step of a layout out in time, as written or, if tuned, with the usual switches. Of more than
// microbatches of them only so many are run (0: all), which is what a picture needs.
func Timeline(ctx context.Context, r Request, l layout.Layout, tuned bool, microbatches int) (*timeline.Timeline, error) {
	r, _ = r.filled()
	p, err := newPricer(&r)
	if err != nil {
		return nil, err
	}
	sw := steptime.AsWritten(&l)
	if now := p.time.Price(&l, sw); tuned && now.Known {
		_, sw = p.tunedPrice(&l, &now)
	}
	if microbatches > 0 {
		l = timeline.Shorter(&l, microbatches)
	}
	if m := l.NumMicrobatches(); l.VPP > 1 && m%l.PP != 0 {
		near := layout.NearestMultiples(l.PP, m)
		return nil, fmt.Errorf("%d micro-batches: an interleaved pipeline takes a multiple of PP %d: try %d or %d", m, l.PP, near[0], near[len(near)-1])
	}
	out, err := timeline.Of(p.memory, p.time, &l, sw)
	if err != nil {
		return nil, err
	}
	return out, ctx.Err()
}
