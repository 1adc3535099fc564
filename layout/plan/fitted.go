package plan

import "github.com/moeplan/moeplan/topology"

// Fit says whether given stages fit a GPU.
type Fit struct {
	Grade       Grade   `json:"grade"`
	WorstStage  int     `json:"worst_pipeline_rank"`
	PeakBytes   int64   `json:"peak_allocated"`
	LimitBytes  int64   `json:"limit"`
	MemoryGiB   float64 `json:"memory_gib"`
	HeadroomGiB float64 `json:"headroom_gib"`
}

// Judged applies the one fit rule to stages that were priced elsewhere. The error is that of a platform whose memory is
// unknown.
func Judged(r Request, stages []Stage) (*Fit, error) {
	memory, err := r.Platform.Need(topology.FigureMemory)
	if err != nil {
		return nil, err
	}
	headroom := -1.0
	if r.HeadroomGiB != nil {
		headroom = *r.HeadroomGiB
	}
	b := newBudget(r.Platform, memory, headroom, r.ReserveGiB)
	out := &Fit{LimitBytes: b.limit(), MemoryGiB: memory, HeadroomGiB: float64(b.headroom) / float64(gib)}
	for i := range stages {
		if peak := stages[i].Memory.PeakAllocated; peak > out.PeakBytes {
			out.PeakBytes, out.WorstStage = peak, stages[i].PipelineRank
		}
	}
	out.Grade = b.grade(out.PeakBytes)
	return out, nil
}
