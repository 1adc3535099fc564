package memmodel

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// Pass is one step of a rank's schedule: the forward or the backward pass of one micro-batch through one chunk.
type Pass struct {
	Chunk, Microbatch int // from 0
	Backward          bool
	// Merged says that overlapped expert communication runs this pass together with the one before or after it of the
	// other direction.
	Merged bool
	// Peak is what is allocated at the worst moment of the pass, Held what stays when it is over, bytes.
	Peak, Held int64
}

// Passes is all that one pipeline rank does in a step, in order, with its memory.
type Passes struct {
	List []Pass
	// Before is what is allocated before the first pass, AfterStep once the optimizer has run (and so before the next
	// step), bytes.
	Before, AfterStep int64
}

// Passes returns every pass of a pipeline rank. The largest Peak, or AfterStep if that is larger, is the stage's
// PeakAllocated. The errors are Estimate's, and a rank that the layout has not.
func (e *Estimator) Passes(l *layout.Layout, rank int) (Passes, error) {
	if err := supportedLayout(l); err != nil {
		return Passes{}, err
	}
	if rank < 0 || rank >= l.PP {
		return Passes{}, fmt.Errorf("pipeline rank %d of a layout with PP %d: 0 to %d", rank, l.PP, l.PP-1)
	}
	s := newShape(e.model, &e.run, e.kinds, l)
	split := e.classesOf(l.Split)
	p, acts := s.parts(), s.activations()
	c := split.classes[split.ofRank[rank]] // a copy: the rank of this stage, not of its class
	c.rank, c.last = rank, rank == l.PP-1
	f := e.figuresOf(&s, &c, &p, &acts)
	out := Passes{List: e.keyOf(l, rank).passes(), AfterStep: f.afterStep()}
	base := f.static() - f.state.stepCopies
	out.Before = base

	// Steps of the steady state repeat, so each distinct one is priced once.
	type priced struct {
		at   moment
		peak int64
	}
	var seen []priced
	peakOf := func(at moment) int64 {
		for i := len(seen) - 1; i >= 0; i-- {
			if h := &seen[i]; h.at.chunk == at.chunk && h.at.backward == at.backward &&
				dominates(h.at.live, at.live) && dominates(at.live, h.at.live) {
				return h.peak
			}
		}
		at.live = append([]int32(nil), at.live...)
		most := s.stagePeak(&c, &acts, f.state.gathered, []moment{at}, &e.chunks)
		seen = append(seen, priced{at, base + most.activations + most.transient})
		return seen[len(seen)-1].peak
	}
	live := make([]int32, l.VPP)
	for i := range out.List {
		pass := &out.List[i]
		if !pass.Backward {
			live[pass.Chunk]++
		}
		pass.Peak = peakOf(moment{pass.Chunk, pass.Backward, live})
		if pass.Backward {
			live[pass.Chunk]--
		}
		pass.Held = base
		for v, n := range live {
			pass.Held += int64(n) * e.chunks[v].saved // as stagePeak left them
		}
	}
	return out, nil
}

// keyOf is the whole schedule of a rank, not bounded as the one that is priced.
func (e *Estimator) keyOf(l *layout.Layout, rank int) scheduleKey {
	k := scheduleKey{pp: l.PP, vpp: l.VPP, microbatches: l.NumMicrobatches(), rank: rank, group: e.run.GroupSize, overlap: l.EPOverlap}
	if k.group == 0 {
		k.group = k.pp
	}
	return k
}

// passes lists the steps of a schedule, in the order of moments. One that is overlapped without interleaving exists for a
// single stage alone; its merged steps begin with the second micro-batch
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/pipeline_parallel/combined_1f1b.py, combined_1f1b_schedule_for_no_pipelining).
func (k scheduleKey) passes() []Pass {
	table := k.forwards()
	total, warmup := len(table), k.warmup()
	if k.overlap {
		warmup = min(max(1, warmup), total)
	}
	out := make([]Pass, 0, 2*total)
	var next [2][maxChunks]int // micro-batches are taken in order by each chunk
	add := func(i int, backward, merged bool) {
		p := Pass{Chunk: table[i], Backward: backward, Merged: merged}
		counts := &next[0]
		if backward {
			p.Chunk, counts = k.vpp-1-p.Chunk, &next[1]
		}
		p.Microbatch = counts[p.Chunk]
		counts[p.Chunk]++
		out = append(out, p)
	}
	for i := range warmup {
		add(i, false, false)
	}
	for i := range total - warmup {
		if k.overlap {
			add(i, true, true)
			add(warmup+i, false, true)
			continue
		}
		add(warmup+i, false, false)
		add(i, true, false)
	}
	for i := total - warmup; i < total; i++ {
		add(i, true, false)
	}
	return out
}
