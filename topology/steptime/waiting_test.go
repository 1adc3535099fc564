package steptime

import (
	"math"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"pgregory.net/rapid"
)

// pass is one pass of a micro-batch through a chunk of a rank.
type pass struct {
	chunk, microbatch int
	back              bool
}

// order is the order of a rank's passes: 1F1B, interleaved where there are several chunks, with the backward pass first
// where expert communication is overlapped.
func order(rank, pp, vpp, m int, overlap bool) []pass {
	var table []int
	for first := 0; first < m; first += pp {
		for c := range vpp {
			for range min(pp, m-first) {
				table = append(table, c)
			}
		}
	}
	ahead := pp - 1 - rank
	if vpp > 1 {
		if ahead = 2*ahead + (vpp-1)*pp; overlap {
			ahead++
		}
	}
	ahead = min(ahead, len(table))
	var list []pass
	next := [2][]int{make([]int, vpp), make([]int, vpp)}
	add := func(i, back int) {
		c := table[i]
		if back == 1 {
			c = vpp - 1 - c
		}
		list = append(list, pass{c, next[back][c], back == 1})
		next[back][c]++
	}
	for i := range ahead {
		add(i, 0)
	}
	for i := range len(table) - ahead {
		if overlap {
			add(i, 1)
			add(ahead+i, 0)
		} else {
			add(ahead+i, 0)
			add(i, 1)
		}
	}
	for i := len(table) - ahead; i < len(table); i++ {
		add(i, 1)
	}
	return list
}

// played runs every pass of every rank once what it needs is there, and returns when the last one ends.
func played(cells []chunkSeconds, pp, m int, overlap bool) float64 {
	vpp := len(cells) / pp
	lists, next, clock := make([][]pass, pp), make([]int, pp), make([]float64, pp)
	ends := make([]map[pass]float64, pp)
	for r := range lists {
		lists[r], ends[r] = order(r, pp, vpp, m, overlap && vpp > 1), map[pass]float64{}
	}
	needs := func(r int, p pass) (int, pass, bool) {
		switch {
		case !p.back && r == 0 && p.chunk == 0:
			return 0, p, false
		case !p.back && r == 0:
			return pp - 1, pass{p.chunk - 1, p.microbatch, false}, true
		case !p.back:
			return r - 1, p, true
		case r == pp-1 && p.chunk == vpp-1:
			return r, pass{p.chunk, p.microbatch, false}, true
		case r == pp-1:
			return 0, pass{p.chunk + 1, p.microbatch, true}, true
		}
		return r + 1, p, true
	}
	last := 0.0
	for moved := true; moved; {
		moved = false
		for r := range lists {
			for next[r] < len(lists[r]) {
				p := lists[r][next[r]]
				if from, what, needed := needs(r, p); needed {
					end, there := ends[from][what]
					if !there {
						break
					}
					clock[r] = max(clock[r], end)
				}
				c := cells[p.chunk*pp+r]
				if clock[r] += c.forward; p.back {
					clock[r] += c.backward - c.forward
				}
				ends[r][p] = clock[r]
				next[r]++
				moved = true
				last = max(last, clock[r])
			}
		}
	}
	for r := range lists {
		if next[r] < len(lists[r]) {
			return math.NaN()
		}
	}
	return last
}

func drawCells(t *rapid.T, pp, vpp int) []chunkSeconds {
	cells := make([]chunkSeconds, pp*vpp)
	for i := range cells {
		cells[i] = chunkSeconds{rapid.Float64Range(0.1, 4).Draw(t, "forward"), rapid.Float64Range(0.1, 8).Draw(t, "backward")}
	}
	return cells
}

// The closed form of stages without chunks is exact, however unlike they are and however few the micro-batches.
func TestStraight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pp, m := rapid.IntRange(1, 9).Draw(t, "pp"), rapid.IntRange(1, 24).Draw(t, "micro-batches")
		cells := drawCells(t, pp, 1)
		if got, want := straight(cells, m), played(cells, pp, m, false); relative(got, want) > 1e-9 {
			t.Fatalf("PP %d, %d micro-batches: %g s, played %g", pp, m, got, want)
		}
	})
}

// walk follows all given ranks.
func walk(cells []chunkSeconds, pp, groups, slowest int, overlap bool) (seconds float64, ranks int) {
	var w pipeline
	copy(w.cells[:], cells)
	const unit = 1e-9
	w.overlap = overlap
	w.follow(pp, len(cells)/pp, slowest, unit)
	return float64(w.run(groups)) * unit, w.n
}

// As long as every group is walked through and every rank followed, the recurrence is exact.
func TestInterleavedIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pp, vpp := rapid.IntRange(2, maxFollowed).Draw(t, "pp"), rapid.IntRange(2, 4).Draw(t, "vpp")
		groups, overlap := rapid.IntRange(1, settledGroups).Draw(t, "groups"), rapid.Bool().Draw(t, "overlap")
		cells := drawCells(t, pp, vpp)
		got, _ := walk(cells, pp, groups, 0, overlap)
		if want := played(cells, pp, groups*pp, overlap); relative(got, want) > 1e-6 {
			t.Fatalf("PP %d, VPP %d, %d groups, overlap %v: %g s, played %g", pp, vpp, groups, overlap, got, want)
		}
	})
}

// Steps of more groups repeat the last one, and ranks between two of their kind are passed through. Chunks as layouts have
// them: one layer more on some chunks, one fewer on early ranks, anything on the last chunk.
func TestLongSteps(t *testing.T) {
	worst := 0.0
	rapid.Check(t, func(t *rapid.T) {
		pp, vpp := rapid.IntRange(2, 16).Draw(t, "pp"), rapid.IntRange(2, 4).Draw(t, "vpp")
		groups, overlap := rapid.IntRange(1, 12).Draw(t, "groups"), rapid.Bool().Draw(t, "overlap")
		forward := rapid.Float64Range(0.2, 0.5).Draw(t, "forward share")
		cells := make([]chunkSeconds, pp*vpp)
		fewer := rapid.IntRange(0, pp-1).Draw(t, "ranks with fewer layers")
		base := rapid.IntRange(1, 4).Draw(t, "layers")
		for v := range vpp {
			n := base + rapid.IntRange(0, 1).Draw(t, "more")
			less := n - rapid.IntRange(0, 1).Draw(t, "less")
			for r := range pp {
				layers := float64(n)
				if r < fewer {
					layers = float64(less)
				}
				cells[v*pp+r] = chunkSeconds{0.01 + forward*layers, 0.01 + (1-forward)*layers}
			}
		}
		tail := rapid.Float64Range(0, 6).Draw(t, "tail")
		c := &cells[len(cells)-1]
		c.forward, c.backward = 0.01+tail/3, 0.01+2*tail/3
		slowest, most := 0, 0.0
		for r := range pp {
			sum := 0.0
			for i := r; i < len(cells); i += pp {
				sum += cells[i].forward + cells[i].backward
			}
			if sum > most {
				slowest, most = r, sum
			}
		}
		got, ranks := walk(cells, pp, groups, slowest, overlap)
		want := played(cells, pp, groups*pp, overlap)
		if d := relative(got, want); d > worst {
			worst = d
		}
		if relative(got, want) > 0.01 {
			t.Fatalf("PP %d, VPP %d, %d groups, overlap %v, %d ranks followed: %g s, played %g", pp, vpp, groups, overlap, ranks, got, want)
		}
		if bound := atLeast(cells, pp, groups*pp); bound > want*(1+1e-9) {
			t.Fatalf("PP %d, VPP %d, %d groups: bound %g s, played %g", pp, vpp, groups, bound, want)
		}
	})
	t.Logf("largest difference %.4f", worst)
}

// Chunks that are alike are priced by the formula alone, to the last digit.
func TestAlikeChunks(t *testing.T) {
	m := testModel(t, "Qwen3-30B-A3B")
	e := newEstimator(t, m, "h100", DefaultRun())
	run := DefaultRun()
	run.Corrections.UnevenPipeline = false
	even := newEstimator(t, m, "h100", run)
	l := testLayout(m, layoutSpec{world: 64, pp: 4, vpp: 3, ep: 8, gbs: 512})
	for i := range l.Split.Cells {
		l.Split.Cells[i] = layout.Cell{First: 4 * i, Decoders: 4}
	}
	for _, sw := range []Software{BringUp(), e.Tuned(&l)} {
		if got, want := known(t, e, &l, sw), known(t, even, &l, sw); got != want {
			t.Errorf("%+v: %+v, want %+v", sw, got, want)
		}
	}
}

// A bound never exceeds the price, and has all its other parts.
func TestBound(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		d := draw(t, tt)
		price := d.price(t, tt)
		e, err := New(testModel(tt, d.model), d.platform, d.run)
		if err != nil {
			t.Fatal(err)
		}
		bound := e.Bound(&d.layout, d.software)
		if bound.Step > price.Step*(1+1e-9) {
			t.Fatalf("bound %g s, price %g", bound.Step, price.Step)
		}
		if bound.Compute != price.Compute || bound.Exposed != price.Exposed || bound.Bubble < 0 {
			t.Fatalf("bound %+v, price %+v", bound, price)
		}
	})
}
