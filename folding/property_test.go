package folding

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawAccepted draws degrees of at most 2^4 * 3^2 * ... ranks, any order that names every axis once, and optimizer
// instances, by construction rather than by filter: DP is what makes both meshes equal.
func drawAccepted(t *rapid.T) *Folding {
	degree := rapid.SampledFrom([]int{1, 1, 2, 3, 4})
	d := Degrees{
		TP: degree.Draw(t, "tp"), CP: degree.Draw(t, "cp"), PP: degree.Draw(t, "pp"),
		EP: degree.Draw(t, "ep"), ETP: degree.Draw(t, "etp"),
	}
	attention, expert := d.TP*d.CP, d.ETP*d.EP
	d.World = attention / gcd(attention, expert) * expert * d.PP * rapid.IntRange(1, 3).Draw(t, "replicas")
	order := Order(strings.Join(rapid.Permutation([]string{"tp", "cp", "ep", "dp", "pp"}).Draw(t, "order"), "-"))
	instances := rapid.IntRange(1, 4).Draw(t, "instances")
	f, err := New(d, order, instances)
	if err != nil {
		// Orders whose pipelines differ, and instances that do not divide: take the nearest accepted ones.
		if f, err = New(d, DefaultOrder, 1); err != nil {
			t.Fatalf("%v is refused: %v", d, err)
		}
	}
	return f
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// wantSizes are the group sizes as products of degrees, written out independently of the axis sets.
func wantSizes(d Degrees, instances int) map[GroupKind]int {
	return map[GroupKind]int{
		GroupTP: d.TP, GroupCP: d.CP, GroupDP: d.DP(), GroupDPCP: d.DP() * d.CP, GroupPP: d.PP, GroupTPCP: d.TP * d.CP,
		GroupTPPP: d.TP * d.PP, GroupTPDP: d.TP * d.DP(), GroupTPDPCP: d.TP * d.DP() * d.CP, GroupEP: d.EP,
		GroupETP: d.ETP, GroupEDP: d.EDP(), GroupETPEP: d.ETP * d.EP, GroupETPEPPP: d.ETP * d.EP * d.PP,
		GroupOptimizerInstance: d.World / instances,
	}
}

// checkPartition: the groups of every family that is a product of axes hold each rank exactly once, all have the size
// that the degrees say, and the closed forms describe them.
func checkPartition(t *rapid.T) {
	f := drawAccepted(t)
	d := f.Degrees()
	for kind, size := range wantSizes(d, f.OptimizerInstances()) {
		groups, err := f.Groups(kind)
		if err != nil {
			t.Fatal(err)
		}
		if len(groups) != d.World/size || f.Count(kind) != len(groups) || f.Size(kind) != size {
			t.Fatalf("%v %q %s: %d groups, Count %d, Size %d; want %d of %d", d, f.Order(), kind, len(groups), f.Count(kind),
				f.Size(kind), d.World/size, size)
		}
		var all []int
		for _, g := range groups {
			if len(g) != size {
				t.Fatalf("%v %q: a %s group has %d ranks, want %d", d, f.Order(), kind, len(g), size)
			}
			if size > 1 && g[1]-g[0] != f.Stride(kind) {
				t.Fatalf("%v %q: %s group %v, Stride says %d", d, f.Order(), kind, g, f.Stride(kind))
			}
			for j, m := range values(f.Steps(kind), size) {
				if g[j] != g[0]+m {
					t.Fatalf("%v %q: %s group %v, Steps say %v", d, f.Order(), kind, g, f.Steps(kind))
				}
			}
			of, err := f.GroupOf(kind, g[len(g)-1])
			if err != nil || !slices.Equal(of, g) {
				t.Fatalf("%v %q: GroupOf(%s, %d) = %v, %v; the group is %v", d, f.Order(), kind, g[len(g)-1], of, err, g)
			}
			all = append(all, g...)
		}
		slices.Sort(all)
		for r, got := range all {
			if r != got {
				t.Fatalf("%v %q: %s groups do not hold each rank once: %v", d, f.Order(), kind, groups)
			}
		}
	}
}

// checkCoordinates: ranks and positions are a bijection, both meshes place a rank on the same stage, and the members of
// a group differ in its own axis only.
func checkCoordinates(t *rapid.T) {
	f := drawAccepted(t)
	d := f.Degrees()
	seen := map[Position]bool{}
	for r := range d.World {
		p, err := f.Coordinates(r)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := f.Rank(p); err != nil || back != r {
			t.Fatalf("%v %q: rank %d is at %+v, which is rank %d (%v)", d, f.Order(), r, p, back, err)
		}
		if seen[p] {
			t.Fatalf("%v %q: two ranks at %+v", d, f.Order(), p)
		}
		seen[p] = true
		if e := f.expert.coordinate(r, axisPP); e != p.PP {
			t.Fatalf("%v %q: rank %d is on stage %d of attention and %d of the experts", d, f.Order(), r, p.PP, e)
		}
		pipeline, err := f.GroupOf(GroupPP, r)
		if err != nil || pipeline[p.PP] != r {
			t.Fatalf("%v %q: rank %d is not at place %d of its pipeline %v (%v)", d, f.Order(), r, p.PP, pipeline, err)
		}
	}
}

// checkPipelines: both meshes list the same pipelines in the same order, and the embedding families follow from them.
func checkPipelines(t *rapid.T) {
	f := drawAccepted(t)
	list := func(expert bool) [][]int {
		g := f.product(setOf(axisPP), expert)
		var out [][]int
		for _, first := range values(g.outside, g.count) {
			var group []int
			for _, m := range values(g.inside, g.size) {
				group = append(group, first+m)
			}
			out = append(out, group)
		}
		return out
	}
	attention, expert := list(false), list(true)
	if !slices.EqualFunc(attention, expert, slices.Equal) {
		t.Fatalf("%v %q: pipelines %v and %v", f.Degrees(), f.Order(), attention, expert)
	}
	embedding, err := f.Groups(GroupEmbedding)
	if err != nil {
		t.Fatal(err)
	}
	position, err := f.Groups(GroupPositionEmbedding)
	if err != nil {
		t.Fatal(err)
	}
	for i, pipeline := range attention {
		want := pipeline
		if len(want) > 2 {
			want = []int{pipeline[0], pipeline[len(pipeline)-1]}
		}
		if !slices.Equal(embedding[i], want) || !slices.Equal(position[i], pipeline[:1]) {
			t.Fatalf("%v %q: pipeline %v, embedding %v, position embedding %v", f.Degrees(), f.Order(), pipeline, embedding[i], position[i])
		}
	}
}

// checkAny: no degrees and no order text make New panic or accept what Check refuses.
func checkAny(t *rapid.T) {
	degree := rapid.OneOf(rapid.IntRange(-2, 70), rapid.Int())
	d := Degrees{
		World: degree.Draw(t, "world"), TP: degree.Draw(t, "tp"), CP: degree.Draw(t, "cp"), PP: degree.Draw(t, "pp"),
		EP: degree.Draw(t, "ep"), ETP: degree.Draw(t, "etp"),
	}
	order := Order(rapid.OneOf(rapid.String(), rapid.StringMatching(`((tp|cp|ep|dp|pp|TP|gtp_remat)-){0,6}pp`)).Draw(t, "order"))
	instances := degree.Draw(t, "instances")
	f, err := New(d, order, instances)
	if refusals := Check(d, order, instances); (err == nil) != (len(refusals) == 0) || (err != nil && err.Error() != refusals[0].Error()) {
		t.Fatalf("New gives %v, Check %v", err, refusals)
	}
	if err != nil {
		return
	}
	for _, kind := range Kinds() {
		if _, err := f.Groups(kind); err != nil && f.Degrees().World <= MaxListed && len(f.Repeated()) == 0 {
			t.Fatal(err)
		}
	}
}

func TestPartition(t *testing.T)   { rapid.Check(t, checkPartition) }
func TestCoordinates(t *testing.T) { rapid.Check(t, checkCoordinates) }
func TestPipelines(t *testing.T)   { rapid.Check(t, checkPipelines) }
func TestAny(t *testing.T)         { rapid.Check(t, checkAny) }

func FuzzPartition(f *testing.F)   { f.Fuzz(rapid.MakeFuzz(checkPartition)) }
func FuzzCoordinates(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkCoordinates)) }
func FuzzPipelines(f *testing.F)   { f.Fuzz(rapid.MakeFuzz(checkPipelines)) }
func FuzzAny(f *testing.F)         { f.Fuzz(rapid.MakeFuzz(checkAny)) }
