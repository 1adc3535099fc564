package folding

import (
	"math"
	"math/bits"
)

// axis is one direction of a mesh. In the MoE mesh axisTP stands for ETP and axisDP for EDP, as in the framework.
// The constants are in the order in which the framework appends axes that an order string leaves out.
type axis uint8

const (
	axisTP axis = iota
	axisPP
	axisDP
	axisEP
	axisCP
	numAxes
)

var axisNames = [numAxes]string{"tp", "pp", "dp", "ep", "cp"}

type axisSet uint8

func setOf(axes ...axis) axisSet {
	var s axisSet
	for _, a := range axes {
		s |= 1 << a
	}
	return s
}

func (s axisSet) has(a axis) bool { return s&(1<<a) != 0 }

// dim is one place of an order string in one mesh.
type dim struct {
	axis         axis
	size, stride int
}

// mesh is one of the two meshes: the places of the order, fastest first. An axis stands in more than one place only if
// the order repeats it.
type mesh struct {
	world int
	dims  []dim
}

// newMesh gives every place of the order its stride. Axes that the order leaves out have size 1 and come last.
func newMesh(world int, order []axis, sizes [numAxes]int) mesh {
	m := mesh{world: world, dims: make([]dim, 0, len(order)+int(numAxes))}
	var seen axisSet
	stride := 1
	add := func(a axis) {
		m.dims = append(m.dims, dim{a, sizes[a], stride})
		stride = mulSaturated(stride, sizes[a])
		seen |= setOf(a)
	}
	for _, a := range order {
		add(a)
	}
	for a := range numAxes {
		if !seen.has(a) {
			add(a)
		}
	}
	return m
}

// attentionSizes and expertSizes are the axis sizes of the two meshes
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/parallel_state.py:857-897).
func attentionSizes(d Degrees) [numAxes]int {
	return [numAxes]int{axisTP: d.TP, axisPP: d.PP, axisDP: d.DP(), axisEP: 1, axisCP: d.CP}
}

func expertSizes(d Degrees) [numAxes]int {
	return [numAxes]int{axisTP: d.ETP, axisPP: d.PP, axisDP: d.EDP(), axisEP: d.EP, axisCP: 1}
}

// repeated returns the axes of size above 1 that stand in more than one place.
func (m mesh) repeated() axisSet {
	var seen, twice axisSet
	for _, d := range m.dims {
		if d.size > 1 && seen.has(d.axis) {
			twice |= setOf(d.axis)
		}
		seen |= setOf(d.axis)
	}
	return twice
}

// split separates the places that span a group from those that number the groups. Only the first place of a repeated
// axis spans, as in the framework's get_mask.
func (m mesh) split(members axisSet) (inside, outside []Step) {
	both := make([]Step, len(m.dims))
	inside, outside = both[:0:len(both)], make([]Step, 0, len(m.dims))
	for _, d := range m.dims {
		s := Step{Size: d.size, Stride: d.stride}
		if members.has(d.axis) {
			members &^= setOf(d.axis)
			inside = append(inside, s)
		} else {
			outside = append(outside, s)
		}
	}
	return inside, outside
}

// stride returns the stride of the fastest place of the set whose size is above 1, else of its fastest place.
func (m mesh) stride(members axisSet) int {
	first := 0
	for _, d := range m.dims {
		if !members.has(d.axis) {
			continue
		}
		if d.size > 1 {
			return d.stride
		}
		if first == 0 {
			first = d.stride
		}
	}
	return first
}

// coordinate returns the position of a rank along an axis that is not repeated.
func (m mesh) coordinate(rank int, a axis) int {
	for _, d := range m.dims {
		if d.axis == a && d.size > 1 {
			return rank / d.stride % d.size
		}
	}
	return 0
}

// step returns size and stride of an axis that is not repeated.
func (m mesh) step(a axis) Step {
	for _, d := range m.dims {
		if d.axis == a && d.size > 1 {
			return Step{d.size, d.stride}
		}
	}
	return Step{1, 0}
}

// mulSaturated returns a*b for a, b >= 1, or the largest int where that does not fit.
func mulSaturated(a, b int) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt {
		return math.MaxInt
	}
	return int(lo)
}
