package plan

import (
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
)

// Grade says whether a layout fits a GPU.
type Grade string

const (
	Fits  Grade = "fits"
	Tight Grade = "tight" // only the lower figure fits
	No    Grade = "no"
)

const gib = int64(1) << 30

// defaultHeadroom is how far below the card's memory the allocated peak must stay, in GiB, where nobody says what is to stay
// free: what the reservation, NCCL, the CUDA context and the error of the estimate need together. Set so that nine in ten
// tuned recipes stay in (ranking-findings.md 5.4); supported says whether any recipe on that GPU supports the figure.
var defaultHeadroom = map[string]struct {
	gib       float64
	supported bool
}{
	"a100-80": {14, false},
	"h100":    {16, true},
	"h200":    {20, false},
	"b200":    {22, true},
	"b300":    {30, true},
	"gb200":   {20, true},
	"gb300":   {26, true},
	// Not in that table: the figure of the nearest relative in memory and generation.
	"h800":        {16, false},
	"h100-pcie":   {16, false},
	"h20":         {16, false},
	"gb200-nvl36": {20, true},
}

// budget is what a rank may take, in bytes. One rule for every command: the upper figure of what the card sees must not
// exceed what the driver offers, less the headroom that somebody asked for. Where nobody did, the error of the estimate
// needs room too, of which the ranges know nothing: the allocated peak then also stays the platform's default below the
// card.
type budget struct {
	capacity int64 // what the driver offers, less what the user reserved
	headroom int64 // below capacity
	given    bool  // the headroom is the user's, and free above the upper figure; else it is above the allocated peak
	ceiling  int64 // what the upper figure may reach without a given headroom
	host     int64 // memory of the host per GPU; 0 is unknown, and then nothing is held against it
	// supported is false where no recipe supports the default headroom.
	supported bool
}

// newBudget derives the budget. A negative headroom asks for the platform's default; platforms without one get
// a fifth of their memory, the H100's share.
func newBudget(p *topology.Platform, memoryGiB, headroomGiB, reserveGiB float64) budget {
	b := budget{capacity: toBytes(memoryGiB - reserveGiB), supported: true}
	b.ceiling = b.capacity
	if host := p.Figure(topology.FigureHostMemory); host.Known {
		b.host = int64(host.Value * 1e9)
	}
	if headroomGiB >= 0 {
		b.headroom, b.given = toBytes(headroomGiB), true
		return b
	}
	d, ok := defaultHeadroom[p.ID]
	if !ok {
		d.gib = memoryGiB / 5
	}
	b.headroom, b.supported = toBytes(d.gib), d.supported
	if most := b.capacity / 4; b.headroom > most { // the figure is for the whole card
		b.headroom, b.supported = max(most, 0), false
	}
	return b
}

func toBytes(gibs float64) int64 { return int64(gibs * float64(gib)) }

// limit is the largest allocated peak that can fit.
func (b budget) limit() int64 { return b.capacity - b.headroom }

// over is by how many bytes a need is too large; 0 or less fits.
func (b budget) over(n memmodel.Need) int64 {
	over := n.High - b.limit()
	if !b.given {
		over = max(n.Allocated-b.limit(), n.High-b.ceiling)
	}
	if b.host > 0 && n.Host > b.host { // what the host does not have cannot be moved there
		over = max(over, n.Host-b.host)
	}
	return over
}

// grade judges a need: it fits, or only its lower figure does, or not even that.
func (b budget) grade(n memmodel.Need) Grade {
	least := b.ceiling
	if b.given {
		least = b.limit()
	}
	switch {
	case b.over(n) <= 0:
		return Fits
	case n.Low <= least && (b.host == 0 || n.Host <= b.host):
		return Tight
	}
	return No
}

// admit widens the budget for a need that is known to have run.
func (b *budget) admit(n memmodel.Need) {
	b.headroom = min(b.headroom, b.capacity-n.Allocated)
	b.ceiling = max(b.ceiling, n.High)
}
