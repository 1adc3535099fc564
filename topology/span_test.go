package topology

import (
	"fmt"
	"math"
	"testing"

	"github.com/moeplan/moeplan/folding"
	"pgregory.net/rapid"
)

func TestSpanOf(t *testing.T) {
	for _, tt := range []struct {
		world, size, stride, domain int
		domains, ranks              int // of the worst group; 0 ranks: not equal
		allToAll, ring, twoLevel    float64
		reason                      string
	}{
		// comm-model 2.2: tp=2, cp=1, ep=32, pp=8 on 256 GPUs, domain 8.
		{256, 2, 1, 8, 1, 2, 0, 0, 0, "TP in 1 domain"},
		{256, 32, 1, 8, 4, 8, 24.0 / 31, 4.0 / 32, 3.0 / 31, "EP stride 1: nd 4, r 8; phi = (32-8)/31"},
		{256, 16, 2, 8, 4, 4, 12.0 / 15, 4.0 / 16, 3.0 / 15, "DP 16 stride 2: nd 4"},
		{256, 8, 32, 8, 8, 1, 1, 1, 1, "PP stride 32: every stage elsewhere"},
		// comm-model 2.2: NVL72 used as 64.
		{256, 64, 1, 64, 1, 64, 0, 0, 0, "EP64 in one rack"},
		{256, 8, 32, 64, 4, 2, 6.0 / 7, 4.0 / 8, 3.0 / 7, "EP32 PP8: a rack holds two stages"},
		{256, 128, 1, 64, 2, 64, 64.0 / 127, 2.0 / 128, 1.0 / 127, "ranking-findings C5: EP128 spans two racks, not one"},
		// All 72 GPUs numbered: the second block of 64 (ranks 64 to 127) is torn 8 + 56 (layout-rules 1.5); the
		// third (128 to 191) 16 + 48; the fifth (256 to 319) 32 + 32, the worst.
		{256, 64, 1, 72, 2, 0, 1 - (24*23+40*39)/(64.0*63), 2.0 / 64, 1.0 / 63, "256 GPUs: fourth block (192 to 255) is torn 24 + 40"},
		{576, 64, 1, 72, 2, 0, 1 - 2*32*31/(64.0*63), 2.0 / 64, 1.0 / 63, "576 GPUs: the fifth block is halved"},
		{24, 3, 2, 8, 2, 0, 2.0 / 3, 2.0 / 3, 1.0 / 2, "stride divides the domain, the block does not: {6,8,10} is 1 + 2"},
		{27, 3, 3, 8, 2, 0, 2.0 / 3, 2.0 / 3, 1.0 / 2, "nothing divides: {0,3,6}, {1,4,7}, {2,5,8}: the third is 2 + 1"},
		{8, 1, 1, 8, 1, 1, 0, 0, 0, "a group of one sends nothing"},
		{8, 4, 1, 1, 4, 1, 1, 1, 1, "no NVLink: every rank is a domain"},
	} {
		name := fmt.Sprintf("world %d size %d stride %d domain %d", tt.world, tt.size, tt.stride, tt.domain)
		s := SpanOf(tt.world, tt.size, tt.stride, tt.domain)
		if s.Size != tt.size || s.DomainsMax != tt.domains {
			t.Errorf("%s: %+v, want %d domains (%s)", name, s, tt.domains, tt.reason)
		}
		if tt.ranks > 0 && (s.RanksMin != tt.ranks || s.RanksMax != tt.ranks || s.RanksPerDomain() != float64(tt.ranks)) {
			t.Errorf("%s: %+v, want %d ranks in every domain (%s)", name, s, tt.ranks, tt.reason)
		}
		for c, want := range map[Collective]float64{AllToAll: tt.allToAll, Ring: tt.ring, TwoLevel: tt.twoLevel, Chain: tt.twoLevel} {
			if got := s.Leaving(c); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: collective %d leaves %v, want %v (%s)", name, c, got, want, tt.reason)
			}
		}
		if s.Local() != (tt.domains == 1) {
			t.Errorf("%s: Local is %v", name, s.Local())
		}
	}
	// A domain that shares no divisor with the mesh takes as many steps as there are ranks at most. With their square this
	// case would run for hours.
	if s := SpanOf(1<<20, 2, 3, 1000003); s.DomainsMax != 2 {
		t.Errorf("pairs 3 apart in domains of a prime: %+v", s)
	}
	if (SpanOf(8, 0, 1, 8) != Span{} || SpanOf(8, 1, 1, 0) != Span{}) {
		t.Error("sizes below 1 have a span")
	}
}

// meshes draws degrees whose products divide the world, any order of the command line, and any domain.
func meshes(t *rapid.T) (*folding.Folding, int) {
	small := rapid.IntRange(1, 6)
	tp, cp, dp, pp := small.Draw(t, "tp"), small.Draw(t, "cp"), rapid.IntRange(1, 12).Draw(t, "dp"), small.Draw(t, "pp")
	stage := tp * cp * dp
	divisor := func(n int, label string) int {
		var list []int
		for i := 1; i <= n; i++ {
			if n%i == 0 {
				list = append(list, i)
			}
		}
		return rapid.SampledFrom(list).Draw(t, label)
	}
	etp := divisor(stage, "etp")
	ep := divisor(stage/etp, "ep")
	order := folding.DefaultOrder
	if etp*ep == tp*cp && rapid.Bool().Draw(t, "tp-pp-dp") {
		order = folding.TPPPDPOrder
	}
	f, err := folding.New(folding.Degrees{World: stage * pp, TP: tp, CP: cp, PP: pp, EP: ep, ETP: etp}, order, 1)
	if err != nil {
		t.Skip(err)
	}
	domain := rapid.OneOf(rapid.IntRange(1, 80), rapid.SampledFrom([]int{1, 4, 8, 36, 64, 72})).Draw(t, "domain")
	return f, domain
}

// TestClosedFormEqualsLists: SpansOf equals counting over explicit rank lists, whatever divides what.
func TestClosedFormEqualsLists(t *testing.T) { rapid.Check(t, closedFormEqualsLists) }

func FuzzClosedForm(f *testing.F) { f.Fuzz(rapid.MakeFuzz(closedFormEqualsLists)) }

func closedFormEqualsLists(t *rapid.T) {
	f, domain := meshes(t)
	p, err := Place(f, domain)
	if err != nil {
		t.Fatal(err)
	}
	spans, ok := SpansOf(f.Degrees(), f.Order(), domain)
	if !ok {
		t.Fatalf("order %q has no closed form", f.Order())
	}
	for _, kind := range Kinds() {
		closed, ok := spans.Of(kind)
		if g := p.Of(kind); !ok || g == nil || closed != g.Span {
			t.Fatalf("%s of %v, order %s, domain %d: closed form %+v, lists %+v", kind, f.Degrees(), f.Order(), domain, closed, g)
		}
	}
}

// TestPlacementLaws: what must hold for any mesh and domain.
func TestPlacementLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, domain := meshes(t)
		p, err := Place(f, domain)
		if err != nil {
			t.Fatal(err)
		}
		world := f.Degrees().World
		if want := (world + domain - 1) / domain; p.Domains != want {
			t.Fatalf("%d domains hold ranks, want %d", p.Domains, want)
		}
		wide, err := Place(f, domain*2)
		if err != nil {
			t.Fatal(err)
		}
		// Any names for the domains give the same placement.
		names := rapid.Permutation(indices(world)).Draw(t, "names")
		domainOf := make([]int, world)
		for r := range domainOf {
			domainOf[r] = names[r/domain]
		}
		renamed, err := PlaceOn(f, domainOf)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range p.Groups {
			s := g.Span
			if g.Count*s.Size != world {
				t.Fatalf("%s: %d groups of %d ranks in a world of %d", g.Kind, g.Count, s.Size, world)
			}
			if len(g.Worst) != s.Size || s.RanksMin < 1 || s.RanksMax > min(domain, s.Size) || s.DomainsMin < 1 || s.DomainsMax > s.Size {
				t.Fatalf("%s: impossible %+v", g.Kind, g)
			}
			for _, c := range []Collective{AllToAll, Ring, TwoLevel, Chain} {
				x := s.Leaving(c)
				if x < 0 || x > 1 || s.Local() != (x == 0) && s.Size > 1 {
					t.Fatalf("%s: %v of collective %d leaves, local %v", g.Kind, x, c, s.Local())
				}
				// Merging domains in pairs can only bring ranks together.
				if y := wide.Groups[i].Span.Leaving(c); y > x+1e-12 {
					t.Fatalf("%s: doubling the domain raises collective %d from %v to %v", g.Kind, c, x, y)
				}
			}
			if renamed.Groups[i].Span != s {
				t.Fatalf("%s: %+v, with renamed domains %+v", g.Kind, s, renamed.Groups[i].Span)
			}
		}
	})
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func TestPlaceRefuses(t *testing.T) {
	f, err := folding.New(folding.Degrees{World: 8, TP: 2, CP: 1, PP: 2, EP: 2, ETP: 1}, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Place(f, 0); err == nil {
		t.Error("a domain of 0 ranks is accepted")
	}
	if _, err := PlaceOn(f, []int{0, 0}); err == nil {
		t.Error("a map of 2 ranks is accepted for 8")
	}
	if _, err := PlaceOn(f, []int{0, 0, 0, 0, 0, 0, 0, 8}); err == nil {
		t.Error("domain 8 of 8 ranks is accepted")
	}
	if _, ok := SpansOf(folding.Degrees{World: 8}, "", 8); ok {
		t.Error("degrees of 0 have spans")
	}
	if _, ok := SpansOf(f.Degrees(), "pp-tp-cp-ep-dp", 8); ok {
		t.Error("an order that the command line cannot produce has a closed form")
	}
}

func TestSpansOfAllocatesNothing(t *testing.T) {
	d := folding.Degrees{World: 16384, TP: 2, CP: 2, PP: 8, EP: 64, ETP: 1}
	var sink Spans
	for _, domain := range []int{8, 64, 72} {
		if n := testing.AllocsPerRun(100, func() { sink, _ = SpansOf(d, "", domain) }); n != 0 {
			t.Errorf("domain %d: %v allocations", domain, n)
		}
	}
	_ = sink
}

func BenchmarkSpansOf(b *testing.B) {
	d := folding.Degrees{World: 16384, TP: 2, CP: 2, PP: 8, EP: 64, ETP: 1}
	for _, domain := range []int{8, 64, 72} {
		b.Run(fmt.Sprintf("domain=%d", domain), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				SpansOf(d, "", domain)
			}
		})
	}
}
