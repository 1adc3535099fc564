package topology

import (
	"fmt"

	"github.com/moeplan/moeplan/folding"
)

// Placement is where every group of a folding lies, from explicit rank lists.
type Placement struct {
	World   int
	Domains int // domains that hold ranks
	Groups  []GroupPlacement
}

// GroupPlacement is the placement of one kind of groups.
type GroupPlacement struct {
	Kind  folding.GroupKind
	Count int // groups of this kind
	Span  Span
	// Worst holds the ranks of the group that crosses domains most (all-to-all), the first of equals.
	Worst []int
}

// Of returns the placement of a kind, nil for one that Place does not cover (Kinds lists those it does).
func (p *Placement) Of(kind folding.GroupKind) *GroupPlacement {
	for i := range p.Groups {
		if p.Groups[i].Kind == kind {
			return &p.Groups[i]
		}
	}
	return nil
}

// Place lists all groups and counts where their ranks lie, rank r in domain r / ranks (comm-model 2.4).
// SpansOf gives the same spans without listing anything.
//
// Errors: ranks below 1; *folding.TooLargeError for a world that folding does not list.
func Place(f *folding.Folding, ranks int) (*Placement, error) {
	if ranks < 1 {
		return nil, fmt.Errorf("a domain of %d ranks: must be at least 1", ranks)
	}
	return place(f, func(rank int) int { return rank / ranks })
}

// PlaceOn is Place for a cluster whose ranks lie otherwise: rank r is in domain domainOf[r]. Domains are
// numbered from 0, gaps are allowed, and no number may reach the number of ranks.
func PlaceOn(f *folding.Folding, domainOf []int) (*Placement, error) {
	world := f.Degrees().World
	if len(domainOf) != world {
		return nil, fmt.Errorf("a map of %d ranks for a world of %d", len(domainOf), world)
	}
	for rank, d := range domainOf {
		if d < 0 || d >= world {
			return nil, fmt.Errorf("rank %d is in domain %d: domains are numbered 0 to %d", rank, d, world-1)
		}
	}
	return place(f, func(rank int) int { return domainOf[rank] })
}

func place(f *folding.Folding, domainOf func(rank int) int) (*Placement, error) {
	if len(f.Repeated()) > 0 {
		return nil, folding.ErrRepeatedAxis
	}
	p := &Placement{World: f.Degrees().World}
	counts := make([]int, p.World) // ranks of the current group in each domain
	for _, kind := range Kinds() {
		groups, err := f.Groups(kind)
		if err != nil {
			return nil, err
		}
		g := GroupPlacement{Kind: kind, Count: len(groups)}
		fewest := int64(-1)
		for _, ranks := range groups {
			s := count(ranks, counts, domainOf)
			if fewest < 0 || s.SamePairs < fewest {
				fewest, g.Worst = s.SamePairs, ranks
			}
			g.Span = g.Span.worst(s)
		}
		p.Groups = append(p.Groups, g)
	}
	for rank := range p.World {
		if d := domainOf(rank); counts[d] == 0 {
			counts[d] = 1
			p.Domains++
		}
	}
	return p, nil
}

// count takes one group's histogram over domains. counts is scratch: zero before and after.
func count(ranks, counts []int, domainOf func(rank int) int) Span {
	s := Span{Size: len(ranks)}
	for i, rank := range ranks {
		d := domainOf(rank)
		if counts[d] == 0 {
			s.DomainsMax++
		}
		counts[d]++
		if len(ranks) > 1 {
			if next := domainOf(ranks[(i+1)%len(ranks)]); next != d {
				s.RingEdges++
				if i+1 < len(ranks) {
					s.ChainHops++
				}
			}
		}
	}
	s.DomainsMin = s.DomainsMax
	for _, rank := range ranks {
		d := domainOf(rank)
		if c := counts[d]; c > 0 {
			if s.RanksMin == 0 || c < s.RanksMin {
				s.RanksMin = c
			}
			s.RanksMax = max(s.RanksMax, c)
			s.SamePairs += int64(c) * int64(c-1)
			counts[d] = 0
		}
	}
	return s
}
