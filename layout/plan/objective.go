package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/topology"
)

// Objective is what plans are ordered by.
type Objective string

const (
	ByTime     Objective = "time"     // estimated tuned step time, equals by simplicity
	ByMemory   Objective = "memory"   // the least allocated peak
	ByLocality Objective = "locality" // the largest share of hot groups inside NVLink domains
	ByWorkflow Objective = "workflow" // the field's rules, literally
)

// Objectives lists them.
func Objectives() []Objective { return []Objective{ByTime, ByMemory, ByLocality, ByWorkflow} }

// ParseObjective reads an objective's name; "" is ByTime.
func ParseObjective(text string) (Objective, error) {
	if text == "" {
		return ByTime, nil
	}
	if o := Objective(text); slices.Contains(Objectives(), o) {
		return o, nil
	}
	names := make([]string, 0, 4)
	for _, o := range Objectives() {
		names = append(names, string(o))
	}
	return "", fmt.Errorf("unknown objective %q; known: %s", text, strings.Join(names, " "))
}

// compareBy orders two candidates by an objective other than time.
//
// ByWorkflow applies the order that the field's documents state (recipes.md, "Scale order"): smallest model parallelism
// and so the largest DP; EP x ETP and TP inside the NVLink domain; a pipeline that is interleaved; EP before ETP; least
// recompute.
func (p *pricer) compareBy(o Objective, a, b *candidate) int {
	x, y := &a.layout, &b.layout
	switch o {
	case ByMemory:
		return cmp.Or(cmp.Compare(a.peak, b.peak), cmp.Compare(a.tuned, b.tuned), compareKeys(x, y))
	case ByLocality:
		return cmp.Or(cmp.Compare(p.hotLeaving(x), p.hotLeaving(y)), cmp.Compare(a.tuned, b.tuned), compareKeys(x, y))
	}
	return cmp.Or(
		cmp.Compare(x.TP*x.CP*x.PP, y.TP*y.CP*y.PP),
		cmp.Compare(p.hotLeaving(x), p.hotLeaving(y)),
		cmp.Compare(plainPipeline(x), plainPipeline(y)),
		cmp.Compare(x.ETP, y.ETP),
		cmp.Compare(recomputeWeight(x.Recompute), recomputeWeight(y.Recompute)),
		cmp.Compare(a.tuned, b.tuned), compareKeys(x, y),
	)
}

// hotLeaving counts by how much the hot groups (TP, CP, token dispatch) leave their NVLink domains.
func (p *pricer) hotLeaving(l *layout.Layout) float64 {
	domain, err := p.platform.UsableDomain(l.Degrees)
	if err != nil {
		return 0
	}
	spans, ok := topology.SpansOf(l.Degrees, l.RankOrder(), domain)
	if !ok {
		return 0
	}
	return spans.TP.Leaving(topology.Ring) + spans.CP.Leaving(topology.Ring) + spans.ETPEP.Leaving(topology.AllToAll)
}

// plainPipeline is 1 for a pipeline that is not interleaved.
func plainPipeline(l *layout.Layout) int {
	if l.PP > 1 && l.VPP == 1 {
		return 1
	}
	return 0
}

// Point is one layout of the front of time against memory: no other that fits is both faster and smaller.
type Point struct {
	Key           string  `json:"key"`                // text form
	TunedTimeMS   float64 `json:"tuned_step_time_ms"` // with the usual switches on
	PeakAllocated int64   `json:"peak_allocated"`     // of the worst stage, bytes
	HeadroomGiB   float64 `json:"headroom_gib"`       // between that peak and the card
}

// addToFront keeps a front of candidates that no other beats in both time and memory.
func addToFront(front []candidate, c candidate) []candidate {
	n := 0
	for _, have := range front {
		if have.tuned <= c.tuned && have.peak <= c.peak {
			return front
		}
		if c.tuned <= have.tuned && c.peak <= have.peak {
			continue
		}
		front[n] = have
		n++
	}
	return append(front[:n], c)
}

// front merges the parts' fronts, fastest first.
func (fs findings) front(b budget) []Point {
	var all []candidate
	for _, f := range fs {
		for _, c := range f.front {
			all = addToFront(all, c)
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.tuned, b.tuned) })
	points := make([]Point, len(all))
	for i := range all {
		points[i] = Point{all[i].layout.String(), ms(all[i].tuned), all[i].peak, float64(b.capacity-all[i].peak) / float64(gib)}
	}
	return points
}
