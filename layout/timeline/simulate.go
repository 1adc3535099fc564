package timeline

import (
	"fmt"
	"slices"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology/steptime"
)

// simulation runs the passes of all ranks, each rank in its own order, each pass once what it needs has arrived.
type simulation struct {
	l     *layout.Layout
	times *steptime.Passes
	ranks []rankState
}

// rankState is how far one rank has come.
type rankState struct {
	passes memmodel.Passes
	next   int
	clock  float64
	out    Rank
	// sent is when the result of a pass is at its receiver, by direction, chunk and micro-batch; negative while it is not.
	sent [2][][]float64
}

func (s *simulation) run() error {
	m := s.l.NumMicrobatches()
	for r := range s.ranks {
		rank := &s.ranks[r]
		for d := range rank.sent {
			rank.sent[d] = make([][]float64, s.l.VPP)
			for v := range rank.sent[d] {
				rank.sent[d][v] = slices.Repeat([]float64{-1}, m)
			}
		}
		rank.out.Events = make([]Event, 0, 2*len(rank.passes.List)+2)
		rank.out.Memory = append(make([]Memory, 0, 2*len(rank.passes.List)+2), Memory{0, rank.passes.Before})
	}
	for moved := true; moved; {
		moved = false
		for r := range s.ranks {
			for s.advance(r) {
				moved = true
			}
		}
	}
	for r := range s.ranks {
		if rank := &s.ranks[r]; rank.next < len(rank.passes.List) {
			p := rank.passes.List[rank.next]
			return fmt.Errorf("bug: the schedule of %s waits for itself: stage %d, chunk %d, micro-batch %d, backward %v",
				s.l, r, p.Chunk, p.Microbatch, p.Backward)
		}
	}
	return nil
}

// advance runs the next pass of a rank, if what it needs has arrived.
func (s *simulation) advance(r int) bool {
	rank := &s.ranks[r]
	if rank.next == len(rank.passes.List) {
		return false
	}
	p := &rank.passes.List[rank.next]
	arrived, ok := s.arrival(r, p)
	if !ok {
		return false
	}
	start := max(rank.clock, arrived)
	seconds, exposed := s.lasts(r, p)
	end := start + seconds
	event := Event{Start: start, End: end, Kind: Forward, Microbatch: p.Microbatch, Chunk: p.Chunk, Exposed: exposed, Merged: p.Merged}
	if p.Backward {
		event.Kind = Backward
	}
	rank.out.Events = append(rank.out.Events, event)
	rank.out.Memory = append(rank.out.Memory, Memory{start, p.Peak}, Memory{end, p.Held})
	if s.times.Hop > 0 {
		start, end = end, end+s.times.Hop
		rank.out.Events = append(rank.out.Events, Event{Start: start, End: end, Kind: Exchange, Microbatch: p.Microbatch, Chunk: p.Chunk})
	}
	rank.sent[direction(p)][p.Chunk][p.Microbatch] = end
	rank.out.Busy += end - event.Start
	rank.clock = end
	rank.next++
	return true
}

func direction(p *memmodel.Pass) int {
	if p.Backward {
		return 1
	}
	return 0
}

// lasts is the time of a pass, s, and the exposed communication in it. The first forward and the last backward pass of an
// overlapped schedule have nothing to hide their expert communication under; a backward pass has twice as much.
func (s *simulation) lasts(r int, p *memmodel.Pass) (seconds, exposed float64) {
	t := &s.times.Chunks[r][p.Chunk].Forward
	alone := s.times.Startup / 3
	if p.Backward {
		t = &s.times.Chunks[r][p.Chunk].Backward
		alone *= 2
	}
	first := r == 0 && s.ranks[r].next == 0
	last := r == 0 && s.ranks[r].next == len(s.ranks[r].passes.List)-1
	if !first && !last {
		alone = 0
	}
	return t.Seconds + alone, t.Exposed + alone
}

// arrival is when the input of a pass is there; false while it is not. Chunks follow each other round the pipeline: the
// last rank's chunk c feeds the first rank's chunk c+1.
func (s *simulation) arrival(r int, p *memmodel.Pass) (float64, bool) {
	from, chunk := r-1, p.Chunk
	if p.Backward {
		from = r + 1
	}
	last := len(s.ranks) - 1
	switch {
	case !p.Backward && r == 0 && chunk == 0:
		return 0, true
	case p.Backward && r == last && chunk == s.l.VPP-1: // its own loss
		at := s.ranks[r].sent[0][chunk][p.Microbatch]
		return at, at >= 0
	case from < 0:
		from, chunk = last, chunk-1
	case from > last:
		from, chunk = 0, chunk+1
	}
	at := s.ranks[from].sent[direction(p)][chunk][p.Microbatch]
	return at, at >= 0
}

// finish adds the end of the step: every rank reduces its gradients when its passes are done, and the optimizer, which
// needs the norm over all of them, starts when the last one has.
func (s *simulation) finish() *Timeline {
	out := &Timeline{Ranks: make([]Rank, len(s.ranks)), Chunks: s.l.VPP, Microbatches: s.l.NumMicrobatches()}
	for r := range s.ranks {
		out.Passes = max(out.Passes, s.ranks[r].clock)
	}
	update := out.Passes + s.times.Reduce
	out.Seconds = update + s.times.Optimizer
	for r := range s.ranks {
		rank := &s.ranks[r]
		if s.times.Reduce > 0 {
			rank.out.Events = append(rank.out.Events,
				Event{Start: rank.clock, End: rank.clock + s.times.Reduce, Kind: Reduce, Microbatch: -1, Chunk: -1})
		}
		rank.out.Events = append(rank.out.Events, Event{Start: update, End: out.Seconds, Kind: Optimizer, Microbatch: -1, Chunk: -1})
		rank.out.Memory = append(rank.out.Memory, Memory{update, rank.passes.AfterStep})
		for _, m := range rank.out.Memory {
			rank.out.Peak = max(rank.out.Peak, m.Bytes)
		}
		out.Ranks[r] = rank.out
	}
	return out
}
