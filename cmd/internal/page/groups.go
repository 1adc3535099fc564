package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
)

// meshView is one of the two meshes: a picture for every axis along which something travels.
type meshView struct {
	Name, Sizes string
	Groups      []groupView
	Single      string // axes of size 1
}

// groupView shows one group of an axis, the one that crosses most domains, where its ranks lie.
type groupView struct {
	Axis, Size  string
	Crosses     bool
	Where       string // in words, since colour alone must not say it
	Traffic     string
	Near, Far   string // paths: members in the first one's domain, and elsewhere
	Machine     *machine
	Description string
}

// meshAxes are the axes of both meshes with the family that is drawn and the traffic that travels along them.
var meshAxes = []struct {
	name string
	axes []struct {
		axis string
		kind folding.GroupKind
	}
}{
	{"Attention mesh", []struct {
		axis string
		kind folding.GroupKind
	}{{"tp", folding.GroupTP}, {"cp", folding.GroupCP}, {"dp", folding.GroupDP}, {"pp", folding.GroupPP}}},
	{"MoE mesh", []struct {
		axis string
		kind folding.GroupKind
	}{{"etp", folding.GroupETP}, {"ep", folding.GroupEP}, {"edp", folding.GroupEDP}, {"pp", folding.GroupPP}}},
}

// mostPlaced bounds the worlds whose groups are listed: beyond it a picture shows nothing that a sentence does not.
const mostPlaced = 1 << 16

// meshesOf places a plan's groups. machines collects the grounds that the pictures stand on.
func meshesOf(a *Answer, p *plan.Plan, machines *[]*machine) ([]meshView, error) {
	d := p.Layout.Degrees
	domain, err := a.Platform.UsableDomain(d)
	if err != nil {
		return nil, err
	}
	ground := shared(machines, newMachine(d.World, a.Platform.Node.Int(), domain))
	if d.World > mostPlaced {
		return nil, nil
	}
	f, err := folding.New(d, p.Layout.RankOrder(), 1)
	if err != nil {
		return nil, err
	}
	place, err := topology.Place(f, domain)
	if err != nil {
		return nil, err
	}
	var views []meshView
	for i, mesh := range meshAxes {
		if i == 1 && a.Model.MoE == nil {
			break
		}
		v := meshView{Name: mesh.name}
		var sizes, single []string
		for _, x := range mesh.axes {
			g := place.Of(x.kind)
			name := strings.ToUpper(x.axis)
			sizes = append(sizes, fmt.Sprintf("%s %d", name, g.Span.Size))
			if g.Span.Size == 1 {
				single = append(single, name)
				continue
			}
			v.Groups = append(v.Groups, groupOf(g, name, traffic(p, x.axis), ground, domain))
		}
		v.Sizes = strings.Join(sizes, " × ")
		if len(single) > 0 {
			v.Single = strings.Join(single, ", ") + " of 1: nothing travels"
		}
		views = append(views, v)
	}
	return views, nil
}

// shared returns the ground that equals m, adding m if none does.
func shared(machines *[]*machine, m *machine) *machine {
	for _, have := range *machines {
		if have.ID == m.ID {
			return have
		}
	}
	*machines = append(*machines, m)
	return m
}

func traffic(p *plan.Plan, axis string) *plan.Traffic {
	for i := range p.Communication {
		if p.Communication[i].Axis == axis {
			return &p.Communication[i]
		}
	}
	return nil
}

func groupOf(g *topology.GroupPlacement, name string, t *plan.Traffic, ground *machine, domain int) groupView {
	v := groupView{Axis: name, Size: fmt.Sprint(g.Span.Size), Machine: ground, Crosses: !g.Span.Local()}
	var near, far []int
	for _, r := range g.Worst {
		if r/domain == g.Worst[0]/domain {
			near = append(near, r/ground.Unit)
		} else {
			far = append(far, r/ground.Unit)
		}
	}
	v.Near, v.Far = ground.path(slices.Compact(near)), ground.path(slices.Compact(far))
	v.Where = "stays inside NVLink"
	if v.Crosses {
		v.Where = fmt.Sprintf("spans %d NVLink domains", g.Span.DomainsMax)
	}
	if t != nil && t.Bytes > 0 {
		v.Traffic = amount(t.Bytes) + " a step"
		if v.Crosses {
			v.Traffic += fmt.Sprintf(", %s leave NVLink", percent(float64(t.BytesCrossing)/float64(t.Bytes)))
		}
		v.Traffic += fmt.Sprintf("; %s s exposed", seconds(t.ExposedMS))
	}
	v.Description = fmt.Sprintf("%s %d: one of %d groups, %s", name, g.Span.Size, g.Count, v.Where)
	return v
}
