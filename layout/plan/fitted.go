package plan

import (
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
)

// Fit says whether given stages fit a GPU.
type Fit struct {
	Grade      Grade `json:"grade"`               // fits, tight (only the lower figure of what the card sees does) or no
	WorstStage int   `json:"worst_pipeline_rank"` // that with the largest allocated peak
	PeakBytes  int64 `json:"peak_allocated"`      // bytes, the largest allocated peak of all stages
	LimitBytes int64 `json:"limit"`               // bytes, the largest allocated peak that can fit
	// CardLow and CardHigh are the bytes that the card sees, OverBytes by how many that is too much; 0 or less fits.
	CardLow   int64 `json:"peak_device_low"`
	CardHigh  int64 `json:"peak_device"`
	OverBytes int64 `json:"over"`
	// HeadroomGiven says that the headroom was asked for: it then lies above CardHigh, else above the allocated peak.
	HeadroomGiven bool    `json:"headroom_given"`
	MemoryGiB     float64 `json:"memory_gib"`   // what the driver offers, 2^30 bytes
	HeadroomGiB   float64 `json:"headroom_gib"` // 2^30 bytes, as given or the platform's default
}

// Judged applies the one fit rule to stages that were priced elsewhere and keep nothing in host memory. The error is that of
// a platform whose memory is unknown.
func Judged(r Request, stages []Stage) (*Fit, error) { return judged(r, stages, 0) }

// judged is Judged of stages of which the fullest rank keeps so many bytes in host memory.
func judged(r Request, stages []Stage, host int64) (*Fit, error) {
	memory, err := r.Platform.Need(topology.FigureMemory)
	if err != nil {
		return nil, err
	}
	headroom := -1.0
	if r.HeadroomGiB != nil {
		headroom = *r.HeadroomGiB
	}
	b := newBudget(r.Platform, memory, headroom, r.ReserveGiB)
	out := &Fit{LimitBytes: b.limit(), MemoryGiB: memory, HeadroomGiB: float64(b.headroom) / float64(gib), HeadroomGiven: b.given}
	most := memmodel.Need{Host: host}
	for i := range stages {
		m := &stages[i].Memory
		if m.PeakAllocated > out.PeakBytes {
			out.PeakBytes, out.WorstStage = m.PeakAllocated, stages[i].PipelineRank
		}
		most = most.Max(memmodel.Need{Allocated: m.PeakAllocated, Low: m.PeakDeviceLow, High: m.PeakDevice})
	}
	out.CardLow, out.CardHigh = most.Low, most.High
	out.Grade, out.OverBytes = b.grade(most), b.over(most)
	return out, nil
}
