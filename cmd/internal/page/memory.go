package page

import (
	"fmt"

	"github.com/moeplan/moeplan/layout/plan"
)

// segment is one part of a stacked bar.
type segment struct {
	Class string // of the style sheet: colour and texture
	Name  string
	X, W  string // shares of the bar's width
	Value string // with its unit
	Mid   string // the middle, where a label goes
	Label string // "" where there is no room
}

// mark is a line across a picture with its label.
type mark struct{ At, Label string }

// memoryChart is the memory of each stage against the card.
type memoryChart struct {
	Card, Limit                     mark
	CardText, LimitWords, LimitText string
	Ticks                           []mark
	Rows                            []memoryRow
}

type memoryRow struct {
	Stage, Layers                                           string
	Worst                                                   bool
	Parts                                                   []segment
	Dense, Expert, Activations, Other, Allocated, Low, High string
}

// memoryOf draws the stages of a plan. What the allocator holds is stacked exactly; what lies outside of it is a range.
func memoryOf(r *plan.Result, p *plan.Plan) memoryChart {
	q := &r.Request
	top := q.MemoryGiB
	for i := range p.Stages {
		top = max(top, float64(p.Stages[i].Memory.PeakDevice)/gib)
	}
	scale := top * 1.02
	limit := q.MemoryGiB - q.HeadroomGiB - q.ReserveGiB
	c := memoryChart{
		Card: mark{at(q.MemoryGiB / scale), fmt.Sprintf("card %.4g", q.MemoryGiB)}, CardText: fmt.Sprintf("%.2f", q.MemoryGiB),
		Limit: mark{at(limit / scale), fmt.Sprintf("limit %.4g", limit)}, LimitText: fmt.Sprintf("%.2f", limit),
	}
	c.LimitWords = "what the allocated peak may take"
	if !r.Assumes("headroom") { // then it is kept free above everything
		c.LimitWords = "what the card may see"
	}
	for x := 0.0; x < q.MemoryGiB*0.7; x += niceStep(q.MemoryGiB, 5) { // further right stand the labels of the lines
		c.Ticks = append(c.Ticks, mark{at(x / scale), fmt.Sprintf("%g", x)})
	}
	for i := range p.Stages {
		s := &p.Stages[i]
		m := &s.Memory
		row := memoryRow{Stage: fmt.Sprintf("pp%d", s.PipelineRank), Layers: layersOf(s), Worst: i == p.WorstStage,
			Dense: gibs(m.DenseState), Expert: gibs(m.ExpertState), Activations: gibs(m.Activations),
			Other: gibs(m.Workspace + m.Transient), Allocated: gibs(m.PeakAllocated),
			Low: fmt.Sprintf("%.0f", float64(m.PeakDeviceLow)/gib), High: fmt.Sprintf("%.0f", float64(m.PeakDevice)/gib)}
		from := int64(0)
		add := func(class, name string, n int64) {
			if n <= 0 {
				return
			}
			share := float64(n) / gib / scale
			seg := segment{Class: class, Name: name, X: at(float64(from) / gib / scale), W: at(share), Value: gibs(n) + " GiB",
				Mid: at((float64(from) + float64(n)/2) / gib / scale)}
			if share > 0.09 {
				seg.Label = gibs(n)
			}
			row.Parts = append(row.Parts, seg)
			from += n
		}
		add("k-dense", "dense weights, gradients, optimizer", m.DenseState)
		add("k-expert", "expert weights, gradients, optimizer", m.ExpertState)
		add("k-act", "activations", m.Activations)
		add("k-other", "workspaces and what the running layer needs", m.PeakAllocated-from)
		add("k-out", "outside the allocator, at least", m.PeakDeviceLow-from)
		add("k-range", "outside the allocator, at most so much more", m.PeakDevice-from)
		c.Rows = append(c.Rows, row)
	}
	return c
}

// layersOf says what a stage holds, in few words.
func layersOf(s *plan.Stage) string {
	n := 0
	for _, chunk := range s.Layers {
		n += len(chunk)
	}
	text := plural(n, "layer")
	if s.Embedding {
		text = "embedding, " + text
	}
	if s.MTPLayers > 0 {
		text += fmt.Sprintf(", %d MTP", s.MTPLayers)
	}
	if s.OutputLayer {
		text += ", loss"
	}
	return text
}
