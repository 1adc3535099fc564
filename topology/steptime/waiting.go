package steptime

import (
	"math"
	"sync"

	"github.com/moeplan/moeplan/layout"
)

// chunkSeconds are both passes of one chunk with their exchanges, s.
type chunkSeconds struct{ forward, backward float64 }

// pipelined is how long the passes of a step take in a pipeline of more than one stage, start-up aside, s: what every
// stage waits for included. If boundOnly, it is a time that they cannot fall below.
func (e *Estimator) pipelined(k *task, u *units, worst *share, m int, hop float64, boundOnly bool) float64 {
	l := k.l
	pace := worst.seconds + hop
	even := (float64(m) + float64(l.PP-1)/float64(l.VPP)) * pace // if all chunks were alike
	if !e.run.Corrections.UnevenPipeline || !e.run.Corrections.ExactSplit || !(pace > 0) || math.IsInf(pace, 1) ||
		l.PP*l.VPP > maxCells || l.VPP > maxChunks || l.VPP > 1 && (l.PP > history || m%l.PP != 0) {
		return even
	}
	w := pipelines.Get().(*pipeline)
	defer pipelines.Put(w)
	if w.fill(e, k, u, hop/float64(2*l.VPP)) {
		return even
	}
	switch cells := w.cells[:l.PP*l.VPP]; {
	case l.VPP == 1:
		return straight(cells, m)
	case boundOnly:
		return atLeast(cells, l.PP, m)
	}
	unit := pace / (1 << 40)
	w.overlap = k.sw.EPOverlap
	w.follow(l.PP, l.VPP, worst.rank, unit)
	return float64(w.run(m/l.PP)) * unit
}

// pipeline is the work space of one price.
type pipeline struct {
	cells [maxCells]chunkSeconds // as those of a layout.Split
	interleaved
}

var pipelines = sync.Pool{New: func() any { return new(pipeline) }}

// fill computes the time of every chunk and reports whether all are alike.
func (w *pipeline) fill(e *Estimator, k *task, u *units, hop float64) (alike bool) {
	var passes [numKinds]chunkSeconds
	for kind := range passes {
		t := &u.layer[kind]
		if t.total == 0 {
			continue
		}
		forward, _ := t.forward(k, kind&recomputedKind != 0)
		passes[kind] = chunkSeconds{forward * t.total, (1 - forward) * t.total}
	}
	alike = true
	plain := -1 // a cell before with nothing but layers of the last kind
	for i := range k.l.Split.Cells {
		cell := &k.l.Split.Cells[i]
		ordinary := cell.First >= e.uniformFrom && !cell.Loss && cell.MTP == 0
		if ordinary && plain >= 0 && cell.Decoders == k.l.Split.Cells[plain].Decoders {
			w.cells[i] = w.cells[plain]
			alike = alike && w.cells[i] == w.cells[0]
			continue
		}
		if ordinary {
			plain = i
		}
		var s share
		e.add(&s, *cell, k.l.Recompute)
		rest := s.heads*u.head + s.mtp*u.mtp
		c := chunkSeconds{hop + rest/3, hop + rest*2/3}
		for _, kind := range e.kinds {
			n, again := s.layers[kind], s.layers[kind|recomputedKind]
			c.forward += n*passes[kind].forward + again*passes[kind|recomputedKind].forward
			c.backward += n*passes[kind].backward + again*passes[kind|recomputedKind].backward
		}
		w.cells[i] = c
		alike = alike && c == w.cells[0]
	}
	return alike
}

// atLeast is the time of two chains of passes that none can overtake: of a stage that works without a pause once the first
// micro-batch has come down to it; and of the last stage, from the first micro-batch's way through all chunks to the last
// one's way back.
func atLeast(cells []chunkSeconds, pp, m int) float64 {
	both := func(c *chunkSeconds) float64 { return c.forward + c.backward }
	var most, before, all float64
	rounds := float64(m)
	for r := range pp {
		sum := 0.0
		for i := r; i < len(cells); i += pp {
			sum += both(&cells[i])
		}
		most = max(most, before+rounds*sum)
		before += both(&cells[r])
		all += sum
		if r == pp-1 {
			end := both(&cells[len(cells)-1])
			most = max(most, all-end+rounds*end+(rounds-float64(pp))*(sum-end))
		}
	}
	return most
}

// follow chooses the ranks to follow: all of a short pipeline; of a longer one the first, the last, those whose chunks differ
// from a neighbour's, and more in the widest gaps. Where too many differ, which only models of irregular layers have, the
// slowest and the last ones.
func (w *pipeline) follow(pp, vpp, slowest int, unit float64) {
	cells := w.cells[:pp*vpp]
	same := func(a, b int) bool {
		for ; a < len(cells); a, b = a+pp, b+pp {
			if cells[a] != cells[b] {
				return false
			}
		}
		return true
	}
	var ranks [maxFollowed]int
	n, next := 0, false
	for r := range pp {
		before := next
		next = r+1 < pp && same(r, min(r+1, pp-1))
		if pp > maxFollowed && r > 0 && r < pp-1 && before && next {
			continue
		}
		if n == maxFollowed { // drop the earliest that is neither the first nor the slowest
			drop := 1
			if ranks[drop] == slowest {
				drop++
			}
			copy(ranks[drop:], ranks[drop+1:])
			n--
		}
		ranks[n] = r
		n++
	}
	for n < min(pp, maxFollowed) {
		widest := 1
		for k := 2; k < n; k++ {
			if ranks[k]-ranks[k-1] > ranks[widest]-ranks[widest-1] {
				widest = k
			}
		}
		copy(ranks[widest+1:n+1], ranks[widest:n])
		ranks[widest] = (ranks[widest-1] + ranks[widest+1]) / 2
		n++
	}
	w.pp, w.vpp, w.n = pp, vpp, n
	units := func(seconds float64) int64 { return int64(seconds/unit + 0.5) }
	for k := range n {
		f := &w.followed[k]
		f.rank, f.distance = ranks[k], 1
		if k > 0 {
			f.distance = ranks[k] - ranks[k-1]
		}
		for v := range vpp {
			c := &cells[v*pp+f.rank]
			f.chunks[v] = chunkUnits{forward: units(c.forward), backward: units(c.backward)}
			var forward, backward float64
			for r := f.rank - f.distance + 1; r < f.rank; r++ {
				forward += cells[v*pp+r].forward
				backward += cells[v*pp+r].backward
			}
			f.chunks[v].forwardBetween, f.chunks[v].backwardBetween = units(forward), units(backward)
		}
	}
}

// startup is what an overlapped step takes longer because nothing hides the communication of the first forward and the last
// backward pass, s.
func (e *Estimator) startup(l *layout.Layout, sw Software, worst *share, u *units, hop float64) float64 {
	switch {
	case !sw.EPOverlap || l.EP == 1 || !e.run.Corrections.OverlapStartup:
		return 0
	case l.PP == 1:
		return worst.startup(u)
	}
	return 0.5 / float64(l.VPP) * (worst.seconds + hop)
}
