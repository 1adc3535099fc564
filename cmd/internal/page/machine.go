package page

import (
	"fmt"
	"math"
	"strings"
)

// machine is the ground on which groups are drawn: one cell for so many ranks, cells in nodes, nodes in domains.
// Plans that fill domains alike share one.
type machine struct {
	ID                    string
	W, H                  int
	Cells                 string // one path for all of them
	Domains               []box
	Unit                  int // ranks in a cell
	Node, Domain          int // ranks
	cells                 int
	node, inside, outside grid
}

type box struct{ X, Y, W, H int }

// grid is a block of equal parts.
type grid struct{ columns, rows, partW, partH, gap int }

func (g grid) width() int  { return g.columns*(g.partW+g.gap) - g.gap }
func (g grid) height() int { return g.rows*(g.partH+g.gap) - g.gap }
func (g grid) at(i int) (x, y int) {
	return i % g.columns * (g.partW + g.gap), i / g.columns * (g.partH + g.gap)
}

// mostCells is how many cells can still be told apart; larger worlds are drawn by node, domain, or several.
const mostCells = 512

const cellSize, cellGap, nodeGap, domainGap, domainPad = 10, 2, 6, 8, 4

// newMachine lays out a world. Each domain holds the given number of ranks, as topology.Platform.UsableDomain counts.
func newMachine(world, node, domain int) *machine {
	node, domain = max(1, node), max(1, domain)
	if node > domain || domain%node != 0 {
		node = domain // without NVLink, or a box cut by hand: domains are what matters here
	}
	m := &machine{Node: node, Domain: domain, Unit: 1}
	switch {
	case world <= mostCells:
	case world/node <= mostCells:
		m.Unit = node
	default:
		m.Unit = domain
		for world/m.Unit > mostCells {
			m.Unit *= 2
		}
	}
	m.cells = (world + m.Unit - 1) / m.Unit
	perNode := max(1, min(node, world)/m.Unit)
	nodes := max(1, min(domain, world)/max(node, m.Unit))
	domains := (world + max(domain, m.Unit) - 1) / max(domain, m.Unit)

	m.node = block(perNode, cellSize, cellSize, cellGap, square(perNode))
	m.inside = block(nodes, m.node.width(), m.node.height(), nodeGap, square(nodes))
	w, h := m.inside.width()+2*domainPad, m.inside.height()+2*domainPad
	m.outside = block(domains, w, h, domainGap, across(domains, w, h))
	m.W, m.H = m.outside.width(), m.outside.height()
	m.ID = fmt.Sprintf("machine-%d-%d-%d", world, node, domain)
	for d := range domains {
		x, y := m.outside.at(d)
		m.Domains = append(m.Domains, box{x, y, w, h})
	}
	all := make([]int, m.cells)
	for i := range all {
		all[i] = i
	}
	m.Cells = m.path(all)
	return m
}

// cell is where a cell's corner lies.
func (m *machine) cell(i int) (x, y int) {
	perNode := max(1, m.Node/m.Unit)
	perDomain := max(1, m.Domain/m.Unit)
	x, y = m.outside.at(i / perDomain)
	dx, dy := m.inside.at(i % perDomain / perNode)
	cx, cy := m.node.at(i % perNode)
	return x + domainPad + dx + cx, y + domainPad + dy + cy
}

// path draws cells as squares.
func (m *machine) path(cells []int) string {
	var b strings.Builder
	for _, i := range cells {
		x, y := m.cell(i)
		fmt.Fprintf(&b, "M%d %dh%dv%dh-%dz", x, y, cellSize, cellSize, cellSize)
	}
	return b.String()
}

func block(n, partW, partH, gap, columns int) grid {
	return grid{columns: columns, rows: (n + columns - 1) / columns, partW: partW, partH: partH, gap: gap}
}

// square is the number of columns that makes n parts nearly square and leaves no hole, if such a number is near.
func square(n int) int {
	root := int(math.Ceil(math.Sqrt(float64(n))))
	for c := root; c <= min(n, 2*root); c++ {
		if n%c == 0 {
			return c
		}
	}
	return root
}

// across is the number of columns that makes n parts of a size into a picture about twice as wide as high.
func across(n, w, h int) int {
	best, least := 1, math.Inf(1)
	for c := 1; c <= n; c++ {
		rows := (n + c - 1) / c
		off := math.Abs(math.Log(float64(c*w) / float64(rows*h) / 2.2))
		if n%c != 0 {
			off += 0.5 // a ragged last row looks like missing GPUs
		}
		if off < least {
			best, least = c, off
		}
	}
	return best
}
