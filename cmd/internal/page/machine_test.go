package page

import (
	"testing"
)

// TestMachineCells: every rank has a cell of its own inside the frame of its domain, whatever the machine.
func TestMachineCells(t *testing.T) {
	for _, x := range []struct{ world, node, domain int }{
		{1, 8, 8}, {4, 8, 8}, {8, 8, 8}, {256, 8, 8}, {256, 4, 64}, {256, 4, 72}, {288, 4, 72}, {512, 8, 8}, {1024, 8, 8},
		{4096, 4, 64}, {16384, 8, 8}, {65536, 8, 8}, {64, 8, 1}, {96, 8, 12}, {1000, 8, 8},
	} {
		m := newMachine(x.world, x.node, x.domain)
		if m.cells > mostCells+mostCells/8 {
			t.Errorf("%v: %d cells", x, m.cells)
		}
		if m.cells*m.Unit < x.world {
			t.Errorf("%v: %d cells of %d ranks", x, m.cells, m.Unit)
		}
		seen := map[[2]int]bool{}
		for i := range m.cells {
			cx, cy := m.cell(i)
			if seen[[2]int{cx, cy}] {
				t.Errorf("%v: two cells at %d,%d", x, cx, cy)
			}
			seen[[2]int{cx, cy}] = true
			inside := 0
			for d, b := range m.Domains {
				if cx >= b.X && cx+cellSize <= b.X+b.W && cy >= b.Y && cy+cellSize <= b.Y+b.H {
					inside++
					if m.Unit <= m.Domain && d != i*m.Unit/m.Domain {
						t.Errorf("%v: cell %d lies in domain %d", x, i, d)
					}
				}
			}
			if inside != 1 {
				t.Errorf("%v: cell %d lies in %d domains", x, i, inside)
			}
		}
	}
}

func TestNiceStep(t *testing.T) {
	for _, x := range []struct {
		most float64
		n    int
		want float64
	}{{80, 5, 20}, {185, 5, 50}, {30, 5, 10}, {1, 5, 0.2}, {0, 5, 1}} {
		if got := niceStep(x.most, x.n); got != x.want {
			t.Errorf("niceStep(%g, %d) = %g, want %g", x.most, x.n, got, x.want)
		}
	}
}
