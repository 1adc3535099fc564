package folding

import (
	"errors"
	"fmt"
)

// Folding is the attention mesh and the MoE mesh over the same ranks. It is immutable and safe for concurrent use.
type Folding struct {
	degrees           Degrees
	order             Order
	instances         int
	attention, expert mesh
}

// ErrRepeatedAxis is returned where an order names an axis of size above 1 twice, so that ranks have no coordinates.
var ErrRepeatedAxis = errors.New("folding: the order repeats an axis, so ranks have no unique coordinates")

// New places both meshes. An empty order is the default one; optimizerInstances is
// --num-distributed-optimizer-instances, 1 by default. The error is a *[Refusal]: the first reason for which the framework
// would stop; [Check] returns all.
func New(d Degrees, order Order, optimizerInstances int) (*Folding, error) {
	refusals, attention, expert := check(d, order, optimizerInstances)
	if len(refusals) > 0 {
		return nil, refusals[0]
	}
	if order == "" {
		order = DefaultOrder
	}
	return &Folding{d, order, optimizerInstances, attention, expert}, nil
}

// Degrees returns the degrees of both meshes.
func (f *Folding) Degrees() Degrees { return f.degrees }

// Order returns the rank order as given, or the default one.
func (f *Folding) Order() Order { return f.order }

// OptimizerInstances returns the number of distributed-optimizer instances.
func (f *Folding) OptimizerInstances() int { return f.instances }

// Repeated returns the names of the axes that the order repeats in a mesh that gives them a size above 1. The framework
// accepts such an order and then builds groups with ranks outside the world, which a real launch cannot run. It is
// empty for every order that the command line can produce.
func (f *Folding) Repeated() []string {
	twice := f.attention.repeated() | f.expert.repeated()
	var names []string
	for a := range numAxes {
		if twice.has(a) {
			names = append(names, axisNames[a])
		}
	}
	return names
}

// Position is where a rank sits in both meshes: 0-based coordinates. PP is shared.
type Position struct {
	TP, CP, DP int // attention mesh
	ETP, EP    int // MoE mesh
	EDP        int
	PP         int
}

// Coordinates returns the position of a rank in both meshes. It fails for a rank outside the world and with
// ErrRepeatedAxis.
func (f *Folding) Coordinates(rank int) (Position, error) {
	if rank < 0 || rank >= f.degrees.World {
		return Position{}, fmt.Errorf("folding: rank %d is outside the world of %d", rank, f.degrees.World)
	}
	if f.attention.repeated()|f.expert.repeated() != 0 {
		return Position{}, ErrRepeatedAxis
	}
	return Position{
		TP:  f.attention.coordinate(rank, axisTP),
		CP:  f.attention.coordinate(rank, axisCP),
		DP:  f.attention.coordinate(rank, axisDP),
		PP:  f.attention.coordinate(rank, axisPP),
		ETP: f.expert.coordinate(rank, axisTP),
		EP:  f.expert.coordinate(rank, axisEP),
		EDP: f.expert.coordinate(rank, axisDP),
	}, nil
}

// Rank returns the rank at a position. It fails where the two halves of the position belong to different ranks, for
// coordinates outside their axis, and with ErrRepeatedAxis.
func (f *Folding) Rank(p Position) (int, error) {
	a, err := f.AttentionRank(p.TP, p.CP, p.DP, p.PP)
	if err != nil {
		return 0, err
	}
	e, err := f.ExpertRank(p.ETP, p.EP, p.EDP, p.PP)
	if err != nil {
		return 0, err
	}
	if a != e {
		return 0, fmt.Errorf("folding: position %+v is rank %d of the attention mesh but rank %d of the MoE mesh", p, a, e)
	}
	return a, nil
}

// AttentionRank returns the rank at 0-based coordinates of the attention mesh.
func (f *Folding) AttentionRank(tp, cp, dp, pp int) (int, error) {
	return f.attention.rank([numAxes]int{axisTP: tp, axisCP: cp, axisDP: dp, axisPP: pp}, attentionSizes(f.degrees))
}

// ExpertRank returns the rank at 0-based coordinates of the MoE mesh.
func (f *Folding) ExpertRank(etp, ep, edp, pp int) (int, error) {
	return f.expert.rank([numAxes]int{axisTP: etp, axisEP: ep, axisDP: edp, axisPP: pp}, expertSizes(f.degrees))
}

func (m mesh) rank(at, sizes [numAxes]int) (int, error) {
	if m.repeated() != 0 {
		return 0, ErrRepeatedAxis
	}
	r := 0
	for a := range numAxes {
		if at[a] < 0 || at[a] >= sizes[a] {
			return 0, fmt.Errorf("folding: %s coordinate %d is outside its axis of %d", axisNames[a], at[a], sizes[a])
		}
		r += at[a] * m.step(a).Stride
	}
	return r, nil
}
