package plan

import "github.com/moeplan/moeplan/topology"

// Grade says whether a layout fits a GPU.
type Grade string

const (
	Fits  Grade = "fits"
	Tight Grade = "tight" // only the lower figure fits
	No    Grade = "no"
)

const gib = int64(1) << 30

// defaultHeadroom is how far below the card's memory the allocated peak must stay, in GiB: what the reservation,
// NCCL, the CUDA context and the error of the estimate need together. Set so that nine in ten tuned recipes stay
// in (ranking-findings.md 5.4); supported says whether any recipe on that GPU supports the figure.
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

// tightMargin is what a layout needs at the very least, in GiB (ranking-findings.md 5.4).
const tightMargin = 8

// budget is what a rank may allocate, in bytes.
type budget struct {
	capacity int64 // what the driver offers, less what the user reserved
	headroom int64 // below capacity
	// supported is false where no recipe supports the default headroom.
	supported bool
}

// newBudget derives the budget. A negative headroom asks for the platform's default; platforms without one get
// a fifth of their memory, the H100's share.
func newBudget(p *topology.Platform, memoryGiB, headroomGiB, reserveGiB float64) budget {
	b := budget{capacity: toBytes(memoryGiB - reserveGiB), supported: true}
	if headroomGiB >= 0 {
		b.headroom = toBytes(headroomGiB)
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

// limit is the largest allocated peak that fits.
func (b budget) limit() int64 { return b.capacity - b.headroom }

// grade judges an allocated peak: below the limit it fits; up to 8 GiB below the card, or the limit if the user
// asked for less, it is tight.
func (b budget) grade(allocated int64) Grade {
	switch {
	case allocated <= b.limit():
		return Fits
	case allocated <= b.capacity-toBytes(tightMargin):
		return Tight
	}
	return No
}
