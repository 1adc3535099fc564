package steptime

// Bounds of the recurrence. What exceeds them is priced as if all chunks took the mean of the slowest stage.
const (
	maxFollowed = 8   // pipeline ranks
	maxChunks   = 64  // of one rank
	maxCells    = 256 // of all ranks
	history     = 64  // slots, a power of two above the largest distance between two followed ranks

	// A step of more groups of PP micro-batches repeats the last one walked through: the first, from settledGroups on, in
	// which every rank advances as far, for then nothing can change any more; or that of maxGroups, from which on the step
	// grows by no more than the rank that advances most.
	settledGroups = 3
	maxGroups     = 8
)

// interleaved is an interleaved 1F1B pipeline whose chunks differ.
//
// The schedule runs in slots. A rank r of PP has a forward step in slot i+r for its i-th, and a backward step in slot
// r+ahead+i, where ahead = 2(PP-1-r) + (VPP-1) PP is how many forward steps it has before the first backward one. Then
// every step needs what its rank did before it, and one result of the slot before it: forward of rank r-1 (of the last
// rank for the chunks after the first), backward of rank r+1 (or of the first). So one walk over the slots with a number
// a rank gives the step exactly. Overlapped expert communication puts the backward step one slot later and in front of the
// forward step of that slot.
//
// Ranks between two with the same chunks need not be followed: the longest path gains nothing by dwelling there instead of
// with one of the two, and passes through in as many slots. Their passes count on the way.
//
// Numbers are integers so that the walk is cheap: a unit is the slowest stage's time over 2^40.
type interleaved struct {
	pp, vpp  int
	overlap  bool
	n        int // followed ranks
	followed [maxFollowed]followed
	forward  [maxFollowed][history]int64 // ends of forward steps by slot
	backward [maxFollowed][history]int64
}

// followed is one rank of the walk.
type followed struct {
	rank, distance int // distance to the followed rank before it
	first          int // slot of its first backward step
	chunks         [maxChunks]chunkUnits

	clock, mark  int64
	fDone, bDone int
	fIn, bIn     int // place in the group
	fAt, bAt     int // chunk
}

// chunkUnits are the passes of a chunk, and those of the same chunk on the ranks between this and the followed one before it.
type chunkUnits struct{ forward, backward, forwardBetween, backwardBetween int64 }

// run returns the time of some groups of PP micro-batches.
func (w *interleaved) run(groups int) int64 {
	block := w.pp * w.vpp
	simulated := min(groups, maxGroups)
	steps := simulated * block
	for k := range w.n {
		f := &w.followed[k]
		f.first = f.rank + 2*(w.pp-1-f.rank) + (w.vpp-1)*w.pp
		if w.overlap {
			f.first++
		}
		f.clock, f.mark, f.fDone, f.bDone, f.fIn, f.bIn, f.fAt, f.bAt = 0, 0, 0, 0, 0, 0, 0, w.vpp-1
	}
	period := int64(0)
	for t := 0; t < w.followed[0].first+steps; t++ {
		w.slot(t, steps)
		if groups <= settledGroups || t >= steps || (t+1)%block != 0 || t+1 < (settledGroups-1)*block {
			continue
		}
		least, most := w.advance()
		if period = most; least == most && t+1 >= settledGroups*block {
			simulated = (t + 1) / block
			steps = t + 1
		}
	}
	return w.followed[0].clock + int64(groups-simulated)*period
}

// advance returns the least and the most that a rank has advanced since it was called before.
func (w *interleaved) advance() (least, most int64) {
	for k := range w.n {
		f := &w.followed[k]
		d := f.clock - f.mark
		f.mark = f.clock
		if k == 0 || d < least {
			least = d
		}
		most = max(most, d)
	}
	return least, most
}

// slot does what all ranks do in one slot.
func (w *interleaved) slot(t, steps int) {
	now, before := t&(history-1), (t-1)&(history-1)
	for k := range w.n {
		f := &w.followed[k&(maxFollowed-1)]
		back := t >= f.first && f.bDone < steps
		if back && w.overlap {
			w.back(f, k, t)
		}
		if t >= f.rank && f.fDone < steps {
			c := &f.chunks[f.fAt&(maxChunks-1)]
			clock, at := f.clock, int64(0)
			if k > 0 {
				at = w.forward[(k-1)&(maxFollowed-1)][(t-f.distance)&(history-1)] + c.forwardBetween
			} else if f.fAt > 0 {
				at = w.forward[(w.n-1)&(maxFollowed-1)][before]
			}
			if at > clock {
				clock = at
			}
			f.clock = clock + c.forward
			w.forward[k&(maxFollowed-1)][now] = f.clock
			f.fDone++
			if f.fIn++; f.fIn == w.pp {
				f.fIn = 0
				if f.fAt++; f.fAt == w.vpp {
					f.fAt = 0
				}
			}
		}
		if back && !w.overlap {
			w.back(f, k, t)
		}
	}
}

// back does a rank's next backward step.
func (w *interleaved) back(f *followed, k, t int) {
	clock, at := f.clock, int64(0)
	if k < w.n-1 {
		behind := &w.followed[(k+1)&(maxFollowed-1)]
		at = w.backward[(k+1)&(maxFollowed-1)][(t-behind.distance)&(history-1)] + behind.chunks[f.bAt&(maxChunks-1)].backwardBetween
	} else if f.bAt < w.vpp-1 {
		at = w.backward[0][(t-1)&(history-1)]
	}
	if at > clock {
		clock = at
	}
	f.clock = clock + f.chunks[f.bAt&(maxChunks-1)].backward
	w.backward[k&(maxFollowed-1)][t&(history-1)] = f.clock
	f.bDone++
	if f.bIn++; f.bIn == w.pp {
		f.bIn = 0
		if f.bAt--; f.bAt < 0 {
			f.bAt = w.vpp - 1
		}
	}
}
