package layout

import (
	"iter"
	"math/bits"

	"github.com/moeplan/moeplan/layout/arch"
)

// Enumerate yields every legal layout of a space: those of the space's combinations for which Check finds no violation
// of severity Error. Sequence parallelism is on exactly when TP > 1, and the split is BalancedSplit's.
//
// The order is fixed: nested loops over TP, CP, PP, ETP, EP (so all layouts of one pair of meshes come together), then
// VPP, micro-batch, recompute, each in the order of its list. Layouts with equal PP and VPP share one *Split.
//
// counts may be nil; it is reset when an iteration starts and complete when it ends. To divide the work, give each
// worker a copy of the space with some of the TP (or PP) candidates, and its own counts.
//
// A space with a size below 1 or above MaxSize, which the constructors do not make, has no layouts.
//
// Rules are asked by the axes they look at, each as early as possible, so a rule added to the table prunes here without
// further change. A step costs tens of nanoseconds and allocates nothing.
func Enumerate(m *arch.Model, s *Space, counts *Counts) iter.Seq[Layout] {
	return func(yield func(Layout) bool) {
		if counts == nil {
			counts = new(Counts)
		}
		counts.reset()
		if !s.sane() {
			return
		}
		e := newEnumerator(m, s, counts)
		e.run(yield)
	}
}

// The levels of the nest. A rule is asked at the level of the last axis it looks at.
const (
	levelRun = iota
	levelTP
	levelCP
	levelPP
	levelETP
	levelEP
	levelVPP
	levelMBS
	levelRecompute
	levels
)

type enumerator struct {
	space  *Space
	counts *Counts
	l      Layout
	s      subject
	rules  [levels][]int // indices into table

	placed  [][]placement // by index of PP and VPP
	leaves  int64         // micro-batches x recompute
	experts int64         // pairs (ETP, EP)
}

// placement is what is known of one pair of PP and VPP before any mesh is chosen.
type placement struct {
	vpp   int
	split *Split
	cut   int // the rule that all layouts with this split break, or -1
}

func newEnumerator(m *arch.Model, s *Space, counts *Counts) *enumerator {
	e := &enumerator{space: s, counts: counts}
	e.l = Layout{VPP: 1, MicroBatchSize: 1, GlobalBatchSize: s.Run.GlobalBatchSize, SeqLength: s.Run.SeqLength,
		Precision: s.Run.Precision, Dispatcher: s.Run.Dispatcher, EPOverlap: s.Run.EPOverlap, Order: s.Run.Order}
	e.l.World, e.l.TP, e.l.CP, e.l.PP, e.l.EP, e.l.ETP = s.World, 1, 1, 1, 1, 1
	e.s = subject{m: m, l: &e.l, traits: traitsOf(m)}
	const pipeline = axisPP | axisVPP
	var splitRules []int
	for i := range table {
		r := &table[i]
		switch {
		case r.Severity != Error || r.broken == nil || r.ID == sizesPositive:
		case r.axes&axisVPP != 0 && r.axes&^pipeline == 0:
			splitRules = append(splitRules, i)
		default:
			level := bits.Len16(uint16(r.axes))
			e.rules[level] = append(e.rules[level], i)
		}
	}
	e.place(m, splitRules)
	for _, etp := range s.ETP {
		for _, ep := range s.EP {
			if s.groupFits(etp, ep) {
				e.experts++
			}
		}
	}
	e.leaves = int64(len(s.MBS)) * int64(len(s.Recompute))
	counts.Layouts = int64(len(s.TP)) * int64(len(s.CP)) * e.belowCP()
	return e
}

// place computes the split of every pair of PP and VPP once, and which rule it breaks, if any.
func (e *enumerator) place(m *arch.Model, rules []int) {
	w := weigh(m)
	e.placed = make([][]placement, len(e.space.PP))
	for i, pp := range e.space.PP {
		for _, vpp := range e.space.VPP {
			if pp*vpp > e.space.MaxCells {
				continue
			}
			p := placement{vpp: vpp, split: w.balance(m, pp, vpp), cut: -1}
			e.l.PP, e.l.VPP, e.l.Split = pp, vpp, p.split
			p.cut = e.firstBroken(rules)
			e.placed[i] = append(e.placed[i], p)
		}
	}
	e.l.PP, e.l.VPP, e.l.Split = 1, 1, nil
}

func (e *enumerator) firstBroken(rules []int) int {
	for _, i := range rules {
		if table[i].broken(&e.s) {
			return i
		}
	}
	return -1
}

// pass asks the rules of one level and counts what a broken one cuts.
func (e *enumerator) pass(level int, below int64) bool {
	if i := e.firstBroken(e.rules[level]); i >= 0 {
		e.counts.cut(i, below, &e.l)
		return false
	}
	return true
}

// belowCP is the number of candidates below one pair of TP and CP.
func (e *enumerator) belowCP() int64 {
	n := int64(0)
	for i := range e.placed {
		n += e.belowPP(i)
	}
	return n
}

func (e *enumerator) belowPP(pp int) int64 { return e.experts * e.belowEP(pp) }
func (e *enumerator) belowEP(pp int) int64 { return int64(len(e.placed[pp])) * e.leaves }

func (e *enumerator) run(yield func(Layout) bool) {
	if e.counts.Layouts == 0 || !e.pass(levelRun, e.counts.Layouts) {
		return
	}
	for _, tp := range e.space.TP {
		e.l.TP, e.l.SequenceParallel = tp, tp > 1
		if !e.pass(levelTP, int64(len(e.space.CP))*e.belowCP()) {
			continue
		}
		for _, cp := range e.space.CP {
			e.l.CP = cp
			if !e.pass(levelCP, e.belowCP()) {
				continue
			}
			for i, pp := range e.space.PP {
				e.l.PP = pp
				if len(e.placed[i]) > 0 && e.pass(levelPP, e.belowPP(i)) && !e.meshes(i, yield) {
					return
				}
			}
			e.l.PP = 1
		}
		e.l.CP = 1
	}
}

// meshes runs over ETP and EP. It returns false to stop.
func (e *enumerator) meshes(pp int, yield func(Layout) bool) bool {
	below := e.belowEP(pp)
	for _, etp := range e.space.ETP {
		e.l.ETP = etp
		pairs := int64(0)
		for _, ep := range e.space.EP {
			if e.space.groupFits(etp, ep) {
				pairs++
			}
		}
		if pairs == 0 || !e.pass(levelETP, pairs*below) {
			continue
		}
		for _, ep := range e.space.EP {
			if !e.space.groupFits(etp, ep) {
				continue
			}
			e.l.EP = ep
			if e.pass(levelEP, below) {
				before := e.counts.Legal
				more := e.chunks(pp, yield)
				if e.counts.Legal > before {
					e.counts.Meshes++
				}
				if !more {
					return false
				}
			}
		}
		e.l.EP = 1
	}
	e.l.ETP = 1
	return true
}

// chunks runs over VPP, micro-batch and recompute of one pair of meshes.
func (e *enumerator) chunks(pp int, yield func(Layout) bool) bool {
	for i := range e.placed[pp] {
		p := &e.placed[pp][i]
		e.l.VPP, e.l.Split = p.vpp, p.split
		if p.cut >= 0 {
			e.counts.cut(p.cut, e.leaves, &e.l)
			continue
		}
		if !e.pass(levelVPP, e.leaves) {
			continue
		}
		for _, mbs := range e.space.MBS {
			e.l.MicroBatchSize = mbs
			if !e.pass(levelMBS, int64(len(e.space.Recompute))) {
				continue
			}
			before := e.counts.Legal
			for _, r := range e.space.Recompute {
				e.l.Recompute = r
				if !e.pass(levelRecompute, 1) {
					continue
				}
				e.counts.Legal++
				if !yield(e.l) {
					return false
				}
			}
			if e.counts.Legal > before {
				e.counts.Bases++
			}
			e.l.Recompute = Recompute{}
		}
		e.l.MicroBatchSize = 1
	}
	e.l.VPP, e.l.Split = 1, nil
	return true
}
