package folding

import "fmt"

// MaxListed is the largest number of ranks that Groups and GroupOf list: a family of groups holds every rank of the
// world once, eight bytes each.
const MaxListed = 1 << 20

// TooLargeError says that listing groups would take more than MaxListed ranks.
type TooLargeError struct {
	Kind  GroupKind
	Ranks int
}

// Error names the family and its number of ranks.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("folding: %s groups hold %d ranks, more than the %d that are listed", e.Kind, e.Ranks, MaxListed)
}

// family is one family of groups in closed form: rank j of group i is values(outside)[i] + values(inside)[j].
type family struct {
	inside, outside []Step
	size, count     int
}

func (f *Folding) family(kind GroupKind) (family, bool) {
	if set, expert, ok := kind.members(); ok {
		return f.product(set, expert), true
	}
	switch kind {
	case GroupEmbedding:
		g := f.product(setOf(axisPP), false)
		if pp := f.degrees.PP; pp > 1 {
			g.inside, g.size = []Step{{2, (pp - 1) * f.attention.stride(setOf(axisPP))}}, 2
		}
		return g, true
	case GroupPositionEmbedding:
		g := f.product(setOf(axisPP), false)
		g.inside, g.size = nil, 1
		return g, true
	case GroupOptimizerInstance:
		// All etp_ep_pp groups one after the other, cut into equal parts.
		g := f.product(setOf(axisTP, axisEP, axisPP), true)
		all := append(canonical(g.inside, g.size), g.outside...)
		return cut(all, g.size*(f.degrees.EDP()/f.instances), g.size*g.count), true
	}
	return family{}, false
}

func (f *Folding) product(set axisSet, expert bool) family {
	m := f.attention
	if expert {
		m = f.expert
	}
	in, out := m.split(set)
	size := product(in)
	return family{in, out, size, m.world / size}
}

// cut splits the first n values of steps into groups of size consecutive ones. A step that straddles a border is divided, so
// size must be a product of whole steps and a divisor of the next: of an optimizer instance, the etp_ep_pp groups times a
// divisor of EDP.
func cut(steps []Step, size, n int) family {
	g := family{size: size, count: n / size}
	done := 1
	for _, s := range steps {
		switch need := size / done; {
		case need <= 1:
			g.outside = append(g.outside, s)
		case s.Size <= need:
			g.inside = append(g.inside, s)
			done *= s.Size
		default:
			g.inside = append(g.inside, Step{need, s.Stride})
			g.outside = append(g.outside, Step{s.Size / need, s.Stride * need})
			done *= need
		}
	}
	return g
}

// Size returns the number of ranks in each group of a family; 0 for a kind that does not exist.
func (f *Folding) Size(kind GroupKind) int {
	g, _ := f.family(kind)
	return g.size
}

// Count returns the number of groups of a family; 0 for a kind that does not exist.
func (f *Folding) Count(kind GroupKind) int {
	g, _ := f.family(kind)
	return g.count
}

// Stride returns the distance in ranks between the first two members of every group of a family. For a group of one
// rank it is the stride that its fastest axis has, at least 1; 0 for a kind that does not exist.
func (f *Folding) Stride(kind GroupKind) int {
	if set, expert, ok := kind.members(); ok {
		if expert {
			return f.expert.stride(set)
		}
		return f.attention.stride(set)
	}
	g, ok := f.family(kind)
	if !ok {
		return 0
	}
	if s := canonical(g.inside, g.size); len(s) > 0 {
		return s[0].Stride
	}
	return 1
}

// Steps returns the members of every group of a family relative to its first, as nested progressions in their shortest
// form, fastest first: tp_dp of TP 2, CP 2, DP 4 in the default order is {2,1},{4,4}. It is empty for groups of one rank
// and for a kind that does not exist. Groups are evenly spaced exactly when there is one step.
func (f *Folding) Steps(kind GroupKind) []Step {
	g, ok := f.family(kind)
	if !ok {
		return nil
	}
	return canonical(g.inside, g.size)
}

// Groups lists every group of a family, groups and members in the framework's own order. It fails with a *TooLargeError
// above MaxListed ranks, and for a kind that does not exist.
func (f *Folding) Groups(kind GroupKind) ([][]int, error) {
	g, ok := f.family(kind)
	if !ok {
		return nil, fmt.Errorf("folding: no groups of kind %q", kind)
	}
	n := mulSaturated(g.size, g.count)
	if n > MaxListed {
		return nil, &TooLargeError{kind, n}
	}
	members, firsts := values(g.inside, g.size), values(g.outside, g.count)
	flat := make([]int, 0, n)
	groups := make([][]int, g.count)
	for i, first := range firsts {
		start := len(flat)
		for _, m := range members {
			flat = append(flat, first+m)
		}
		groups[i] = flat[start:len(flat):len(flat)]
	}
	return groups, nil
}

// GroupOf lists the members of the group of a family that holds a rank, in the framework's own order; nil for a rank
// that is in none, as middle stages are for embedding. It fails for a rank outside the world, for a kind that does not
// exist, above MaxListed members (*TooLargeError), and with ErrRepeatedAxis.
func (f *Folding) GroupOf(kind GroupKind, rank int) ([]int, error) {
	g, ok := f.family(kind)
	if !ok {
		return nil, fmt.Errorf("folding: no groups of kind %q", kind)
	}
	if _, err := f.Coordinates(rank); err != nil {
		return nil, err
	}
	if g.size > MaxListed {
		return nil, &TooLargeError{kind, g.size}
	}
	// Strides are nested, so what is left of a rank once the group's own progression is taken out is the first member.
	first := 0
	for _, s := range g.outside {
		first += rank / s.Stride % s.Size * s.Stride
	}
	members := values(g.inside, g.size)
	found := false
	for i := range members {
		members[i] += first
		found = found || members[i] == rank
	}
	if !found {
		return nil, nil
	}
	return members, nil
}
