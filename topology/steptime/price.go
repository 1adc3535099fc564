package steptime

import (
	"math"

	"github.com/moeplan/moeplan/topology"
)

// Axis is one direction of a mesh along which bytes travel.
type Axis uint8

const (
	TP Axis = iota
	CP
	EP
	ETP
	PP
	DP  // dense gradients and parameters, over DP x CP
	EDP // expert gradients and parameters
	NumAxes
)

// String is the axis as Megatron's flags spell it.
func (a Axis) String() string {
	switch a {
	case TP:
		return "tp"
	case CP:
		return "cp"
	case EP:
		return "ep"
	case ETP:
		return "etp"
	case PP:
		return "pp"
	case DP:
		return "dp"
	case EDP:
		return "edp"
	}
	return "unknown"
}

// Communication is the traffic of one axis in one step, on one rank of the slowest stage.
type Communication struct {
	Bytes    int64   // that leave the rank
	Crossing int64   // of them, those that leave the NVLink domain
	Seconds  float64 // time on the wire, overlapped or not
	Exposed  float64 // s of it that the step waits for
}

// Price is the estimated time of one training step. Its parts add up:
// Step = Compute + Host + Exposed (all axes) + Bubble + Optimizer.
type Price struct {
	// Known is false when no step time exists; Notes then says why, and all else is zero.
	Known bool
	Notes Notes

	Step      float64 // s
	Compute   float64 // s, kernels of the slowest stage over all micro-batches, recompute included
	Host      float64 // s, what launching and syncs add to it
	Exposed   float64 // s, communication that nothing hides: the sum over Communication
	Bubble    float64 // s, pipeline fill and drain
	Optimizer float64 // s, with a fixed tail of 20 ms

	Stage          int     // pipeline rank that decides
	StageSeconds   float64 // its forward and backward of one micro-batch
	Microbatches   int
	BubbleFraction float64 // (PP-1)/(m VPP)

	// TFLOPS is 1e12 model FLOP/s per GPU in Megatron's convention: recompute never counts.
	TFLOPS float64
	// Tokens is tokens per second and GPU.
	Tokens float64

	Communication [NumAxes]Communication
}

// Band returns the step time's range, s: one published run in ten lies outside of about +-17 %
// (comm-model 5.2 and 5.4).
func (p *Price) Band() (lo, hi float64) {
	return p.Step * (1 - bandHalfWidth), p.Step * (1 + bandHalfWidth)
}

// Distinguishable reports whether two step times differ by more than the model can tell apart, 5 %
// (ranking-findings 5.2).
func Distinguishable(a, b float64) bool {
	return math.Abs(a-b) > distinguishable*min(a, b)
}

// HotInNVLink is the part of the bytes of TP, CP, EP and ETP that stays inside NVLink domains; 1 when there
// are none. DP and PP are left out: they are rare or small (comm-model 2.4).
func (p *Price) HotInNVLink() float64 {
	of := func(a Axis) topology.Traffic {
		c := &p.Communication[a]
		if c.Bytes == 0 {
			return topology.Traffic{}
		}
		return topology.Traffic{Bytes: c.Bytes, Leaving: float64(c.Crossing) / float64(c.Bytes)}
	}
	return topology.HotFraction(of(TP), of(CP), of(EP), of(ETP))
}

// Wall is what a layout's step mostly waits for.
type Wall uint8

const (
	ComputeWall Wall = iota
	CommunicationWall
	HostWall
)

// String names the wall as the plan's JSON does.
func (w Wall) String() string {
	switch w {
	case ComputeWall:
		return "compute"
	case CommunicationWall:
		return "communication"
	case HostWall:
		return "host"
	}
	return "unknown"
}

// Wall returns the largest of compute, exposed communication and host time.
func (p *Price) Wall() Wall {
	switch {
	case p.Exposed > p.Compute && p.Exposed >= p.Host:
		return CommunicationWall
	case p.Host > p.Compute:
		return HostWall
	}
	return ComputeWall
}
