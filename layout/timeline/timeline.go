package timeline

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology/steptime"
)

// Kind is what a rank does during an event.
type Kind string

const (
	Forward  Kind = "forward"
	Backward Kind = "backward"
	// Exchange sends to a neighbour what a pass made and receives from it what the next one needs, as far as the rank
	// waits for it.
	Exchange Kind = "exchange"
	// Reduce is the exposed part of reducing gradients and gathering parameters over the data parallel ranks.
	Reduce    Kind = "reduce"
	Optimizer Kind = "optimizer"
)

// Event is a stretch of time in which one rank does one thing. What lies between two events is waiting.
type Event struct {
	Start float64 `json:"start"` // s from the beginning of the step
	End   float64 `json:"end"`
	Kind  Kind    `json:"kind"`
	// Microbatch and Chunk count from 0. They are those of the pass, for an exchange those of the pass before it, and -1 for
	// the end of the step.
	Microbatch int `json:"microbatch"`
	Chunk      int `json:"chunk"`
	// Exposed is the communication inside a pass that nothing hides, s.
	Exposed float64 `json:"exposed,omitempty"`
	// Merged says that the framework runs this pass and its neighbour of the other direction as one, layer by layer
	// (--overlap-moe-expert-parallel-comm); they are shown one after the other.
	Merged bool `json:"merged,omitempty"`
}

// Memory is a step of a rank's memory over time: so many bytes are allocated from this moment on.
type Memory struct {
	At    float64 `json:"at"` // s
	Bytes int64   `json:"bytes"`
}

// Rank is one pipeline rank of the step.
type Rank struct {
	Events []Event `json:"events"` // in time, none overlaps another
	// Memory is a step function: a pass counts with its worst moment while it runs, then with what it leaves behind.
	Memory []Memory `json:"memory"`
	// Peak is the largest of Memory, bytes: torch.cuda.max_memory_allocated() of the stage.
	Peak int64 `json:"peak_allocated"`
	// Busy is the time in passes and exchanges, s.
	Busy float64 `json:"busy"`
}

// Timeline is one step of one layout.
type Timeline struct {
	Ranks   []Rank  `json:"ranks"` // by pipeline rank
	Seconds float64 `json:"seconds"`
	// Passes is when the last pass and its exchange end; what follows is reduction and optimizer.
	Passes float64 `json:"passes"`
	// Priced is the estimated step time, s.
	Priced       float64 `json:"priced"`
	Chunks       int     `json:"chunks"` // per rank
	Microbatches int     `json:"microbatches"`
}

// MaxEvents bounds a timeline; a step of more passes is refused (draw one of fewer micro-batches instead: Shorter).
const MaxEvents = 2_000_000

// Of lays out one step. Both estimators must be of the layout's model.
func Of(memory *memmodel.Estimator, time *steptime.Estimator, l *layout.Layout, sw steptime.Software) (*Timeline, error) {
	price := time.Price(l, sw)
	times, ok := time.Passes(l, sw)
	if !ok {
		return nil, fmt.Errorf("no step time exists for %s: %v", l, price.Notes.Texts())
	}
	m := l.NumMicrobatches()
	if n := 4 * l.PP * l.VPP * m; n > MaxEvents {
		return nil, fmt.Errorf("a step of %d micro-batches through %d chunks on %d stages is %d events, more than %d: ask for %d micro-batches",
			m, l.VPP, l.PP, n, MaxEvents, max(1, MaxEvents/(4*l.PP*l.VPP)/l.PP*l.PP))
	}
	s := simulation{l: l, times: &times, ranks: make([]rankState, l.PP)}
	// The order of passes must be that of the software priced.
	scheduled := *l
	scheduled.EPOverlap = sw.EPOverlap
	for r := range s.ranks {
		passes, err := memory.Passes(&scheduled, r)
		if err != nil {
			return nil, err
		}
		s.ranks[r].passes = passes
	}
	if err := s.run(); err != nil {
		return nil, err
	}
	out := s.finish()
	out.Priced = price.Step
	return out, nil
}

// Shorter returns the layout with so many micro-batches a step, or fewer if it has fewer: the same passes, and a picture
// that can be looked at.
func Shorter(l *layout.Layout, microbatches int) layout.Layout {
	out := *l
	out.GlobalBatchSize = l.MicroBatchSize * l.DP() * min(microbatches, l.NumMicrobatches())
	return out
}
