package report

import (
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout/plan"
)

// MEMORY takes these columns in full; a reader with less room gets the shorter form, without what lies outside the
// allocator, and with a shorter bar.
const fullMemory = 100

// memory shows the first plan stage by stage; neighbouring stages that hold the same share a line.
func (p printer) memory(r *plan.Result) {
	best := &r.Plans[0]
	full := p.width >= fullMemory
	head, cells := "GiB     dense  expert  activ  other  allocated    card", max(0, min(12, p.width-labelWidth-62))
	if full {
		head, cells = "GiB     dense  expert  activations  other  allocated  outside    card", 12
	}
	p.section("MEMORY 1", head)
	for i := 0; i < len(best.Stages); {
		j, most := i+1, i
		for ; j < len(best.Stages) && sameState(&best.Stages[i].Memory, &best.Stages[j].Memory); j++ {
			if best.Stages[j].Memory.PeakAllocated > best.Stages[most].Memory.PeakAllocated {
				most = j
			}
		}
		name := fmt.Sprintf("pp%d", i)
		if j > i+1 {
			name = fmt.Sprintf("pp%d-%d", i, j-1)
		}
		p.section("", memoryLine(name, &best.Stages[most].Memory, r.Request.MemoryGiB, full, cells))
		i = j
	}
	legend := "of several stages the largest; other: workspaces and what the running layer needs;"
	if full {
		p.section("", legend, "outside: allocator slack, NCCL buffers, CUDA context")
	} else {
		p.prose("", legend+" card: with allocator slack, NCCL buffers, CUDA context")
	}
	p.blank()
}

func memoryLine(name string, m *plan.Memory, capacity float64, full bool, cells int) string {
	low, high := float64(m.PeakDeviceLow)/gib, float64(m.PeakDevice)/gib
	allocated := float64(m.PeakAllocated) / gib
	activations, outside := 5, ""
	if full {
		activations, outside = 11, fmt.Sprintf("%3.0f-%-3.0f ", low-allocated, high-allocated)
	}
	line := fmt.Sprintf("%-7s %5.1f  %6.1f  %*.1f  %5.1f  %9.1f  %s%7s", name, float64(m.DenseState)/gib, float64(m.ExpertState)/gib,
		activations, float64(m.Activations)/gib, float64(m.Workspace+m.Transient)/gib, allocated, outside, fmt.Sprintf("%.0f-%.0f", low, high))
	if cells < 4 {
		return line
	}
	return line + fmt.Sprintf("  %s %.0f", bar(low, high, capacity, cells), capacity)
}

// sameState reports whether two stages hold the same parameters, to a tenth of a GiB.
func sameState(a, b *plan.Memory) bool {
	round := func(n int64) int64 { return (n*10 + 1<<29) >> 30 }
	return round(a.DenseState) == round(b.DenseState) && round(a.ExpertState) == round(b.ExpertState)
}

// bar draws the range of a peak against the card: # up to the lower figure, - up to the upper one.
func bar(low, high, capacity float64, cells int) string {
	at := func(x float64) int { return int(min(max(x/capacity, 0), 1)*float64(cells) + 0.5) }
	return strings.Repeat("#", at(low)) + strings.Repeat("-", at(high)-at(low)) + strings.Repeat(" ", cells-at(high)) + "|"
}
