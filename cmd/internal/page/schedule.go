package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/layout/timeline"
)

// schedule is the pipeline of one step over time, with the memory of a few ranks under it. Both pictures share the time
// axis and are stretched to the width at hand, so they hold no text.
type schedule struct {
	Title        string
	Lanes        []string // names of the pipeline ranks
	Height       int      // of the picture, px
	W, H         int
	Shapes       []shape
	Ticks        []mark
	Memory       []curve
	MemoryTicks  []mark
	Limit        string
	Note, Merged string
}

// shape is one path of the timeline.
type shape struct {
	Class, Opacity, D string
}

// curve is the memory of one rank; Class gives its line a dash of its own.
type curve struct {
	Name, Class, D, Peak string
}

// drawnMicrobatches is how many micro-batches are drawn: two rounds of the pipeline show how it fills, what repeats, and
// how it drains.
func drawnMicrobatches(l *layout.Layout) int {
	return 2 * max(2, l.PP)
}

const laneHeight, timeUnits = 10, 4000

func scheduleOf(a *Answer, p *plan.Plan) *schedule {
	t := a.Steps[p.Key]
	if t == nil || !(t.Seconds > 0) {
		return nil
	}
	s := &schedule{W: timeUnits, H: laneHeight * len(t.Ranks), Height: min(max(18*len(t.Ranks), 40), 640)}
	total := p.Sizes.NumMicrobatches
	s.Title = fmt.Sprintf("%d micro-batches through %s", t.Microbatches, plural(len(t.Ranks), "stage"))
	if t.Chunks > 1 {
		s.Title += fmt.Sprintf(" of %d chunks", t.Chunks)
	}
	if t.Microbatches < total {
		s.Note = fmt.Sprintf("Drawn with %d of the step's %d micro-batches; what is in the middle repeats.", t.Microbatches, total)
	}
	x := func(seconds float64) int { return int(seconds / t.Seconds * timeUnits) }
	paths := map[string]*strings.Builder{}
	var order []shape
	put := func(class string, chunk int, from, to float64, y int) {
		key := fmt.Sprintf("%s %d", class, chunk)
		if paths[key] == nil {
			paths[key] = &strings.Builder{}
			opacity := 1.0
			if t.Chunks > 1 && chunk > 0 {
				opacity = 1 - 0.5*float64(chunk)/float64(t.Chunks-1)
			}
			order = append(order, shape{Class: class, Opacity: fmt.Sprintf("%.2f", opacity), D: key})
		}
		left := x(from)
		w := max(x(to)-left, 1)
		if w > 12 { // passes of one chunk would run together otherwise
			w -= 3
		}
		// A stroke takes half the text of a rectangle, and there are thousands.
		fmt.Fprintf(paths[key], "M%d %dh%d", left, y, w)
	}
	for r := range t.Ranks {
		y := r * laneHeight
		s.Lanes = append(s.Lanes, fmt.Sprintf("pp%d", r))
		for _, e := range t.Ranks[r].Events {
			switch e.Kind {
			case timeline.Forward: // in the upper half, so that direction needs no colour
				put("t-forward", e.Chunk, e.Start, e.End, y+3)
			case timeline.Backward:
				put("t-backward", e.Chunk, e.Start, e.End, y+7)
			case timeline.Reduce:
				put("t-reduce", 0, e.Start, e.End, y+5)
			case timeline.Optimizer:
				put("t-optimizer", 0, e.Start, e.End, y+5)
			}
			if e.Merged {
				s.Merged = "Forward and backward passes that overlap their communication run as one; they are drawn one after the other."
			}
		}
	}
	for _, shape := range order {
		shape.D = paths[shape.D].String()
		s.Shapes = append(s.Shapes, shape)
	}
	for _, v := range (span{0, t.Seconds, 0, 1}).marks(6) {
		s.Ticks = append(s.Ticks, mark{at(v / t.Seconds), fmt.Sprintf("%.4g", v)})
	}
	s.memory(a, p, t, x)
	return s
}

// memoryHeight is that of the lower picture in units of its own.
const memoryHeight = 1000

// memory draws the first rank, the last one and the one with the largest peak.
func (s *schedule) memory(a *Answer, p *plan.Plan, t *timeline.Timeline, x func(float64) int) {
	q := &a.Result.Request
	limit := q.MemoryGiB - q.HeadroomGiB - q.ReserveGiB
	top := limit
	for r := range t.Ranks {
		top = max(top, float64(t.Ranks[r].Peak)/gib)
	}
	top *= 1.08
	ranks := []int{0}
	for _, r := range []int{p.WorstStage, len(t.Ranks) - 1} {
		if !slices.Contains(ranks, r) && r < len(t.Ranks) {
			ranks = append(ranks, r)
		}
	}
	y := func(bytes int64) int { return memoryHeight - int(float64(bytes)/gib/top*memoryHeight) }
	for i, r := range ranks {
		var b strings.Builder
		for j, m := range t.Ranks[r].Memory {
			if j == 0 {
				fmt.Fprintf(&b, "M0 %dH%d", y(m.Bytes), x(m.At))
				continue
			}
			fmt.Fprintf(&b, "H%dV%d", x(m.At), y(m.Bytes))
		}
		fmt.Fprintf(&b, "H%d", timeUnits)
		s.Memory = append(s.Memory, curve{fmt.Sprintf("pp%d", r), fmt.Sprintf("m-%d", i), b.String(), gibs(t.Ranks[r].Peak)})
	}
	s.Limit = at(1 - limit/top)
	for _, v := range (span{0, limit * 0.95, 0, 1}).marks(3) {
		s.MemoryTicks = append(s.MemoryTicks, mark{at(1 - v/top), fmt.Sprintf("%g", v)})
	}
}
