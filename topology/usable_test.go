package topology

import (
	"math"
	"testing"

	"github.com/moeplan/moeplan/folding"
)

func TestUsableDomain(t *testing.T) {
	for _, tt := range []struct {
		domain, node int
		blocks       []int
		want         int
		reason       string
	}{
		{72, 4, []int{1, 64}, 64, "ranking-findings C5: NVL72 holds 64 ranks of a power-of-two group; case loc-024"},
		{72, 4, []int{1, 32}, 64, "two EP32 groups a rack"},
		{72, 4, []int{1, 128}, 64, "C5: two racks, both full"},
		{72, 4, []int{1, 8}, 72, "9 groups of 8 fill the rack"},
		{72, 4, []int{2, 8, 2, 64}, 64, "a stage of 64 fits 64 only"},
		{72, 4, []int{1, 24}, 72, "72 = 3 * 24"},
		{72, 4, []int{1, 72}, 72, "the whole rack"},
		{72, 4, []int{1, 16, 1, 72}, 64, "EP16 comes before the stage of 72"},
		{72, 4, []int{1, 7}, 56, "8 * 7, the only multiple of 7 in 40, 44, ... 72"},
		{72, 4, []int{1, 11}, 44, "4 * 11"},
		{72, 4, []int{1, 41}, 72, "41 fits none of the candidates: straddling cannot be avoided"},
		{36, 4, []int{1, 32}, 32, "NVL36 holds 32"},
		{36, 4, []int{1, 12}, 36, "3 groups of 12"},
		{8, 8, []int{3, 6}, 8, "a box is launched whole, whatever the groups"},
		{8, 8, []int{2, 32}, 8, "groups of whole boxes"},
		{1, 8, []int{4}, 1, "no NVLink"},
		{8, 0, nil, 8, "unknown node: the domain"},
	} {
		if got := UsableDomain(tt.domain, tt.node, tt.blocks...); got != tt.want {
			t.Errorf("domain %d, node %d, blocks %v: %d, want %d (%s)", tt.domain, tt.node, tt.blocks, got, tt.want, tt.reason)
		}
	}
}

func TestPlatformUsableDomain(t *testing.T) {
	for _, tt := range []struct {
		platform string
		degrees  folding.Degrees
		want     int
		domains  int // that an EP group spans then
		reason   string
	}{
		{"gb200", folding.Degrees{World: 256, TP: 1, CP: 1, PP: 4, EP: 64, ETP: 1}, 64, 1, "case loc-023: EP64 inside one NVL72 although 16 hosts"},
		{"h100", folding.Degrees{World: 256, TP: 2, CP: 1, PP: 8, EP: 32, ETP: 1}, 8, 4, "case loc-003: EP32 over four boxes"},
		{"gb200-nvl36", folding.Degrees{World: 64, TP: 1, CP: 1, PP: 1, EP: 64, ETP: 1}, 32, 2, "EP64 over two NVL36 racks"},
	} {
		p, err := LookupPlatform(tt.platform)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.UsableDomain(tt.degrees)
		if err != nil || got != tt.want {
			t.Errorf("%s %v: %d, %v; want %d (%s)", tt.platform, tt.degrees, got, err, tt.want, tt.reason)
			continue
		}
		if s, ok := SpansOf(tt.degrees, "", got); !ok || s.EP.DomainsMax != tt.domains {
			t.Errorf("%s %v: EP spans %d domains, want %d (%s)", tt.platform, tt.degrees, s.EP.DomainsMax, tt.domains, tt.reason)
		}
	}
	var none Platform
	if _, err := none.UsableDomain(folding.Degrees{World: 8, TP: 1, CP: 1, PP: 1, EP: 1, ETP: 1}); err == nil {
		t.Error("a platform without a domain has a usable one")
	}
}

func TestHotFraction(t *testing.T) {
	ep := SpanOf(256, 32, 1, 8) // 24 of 31 peers outside (comm-model 2.2)
	tp := SpanOf(256, 2, 1, 8)  // inside
	for _, tt := range []struct {
		hot    []Traffic
		want   float64
		reason string
	}{
		{nil, 1, "no hot communication: nothing leaves"},
		{[]Traffic{{0, 1}}, 1, "no bytes: nothing leaves"},
		{[]Traffic{{100, tp.Leaving(Ring)}}, 1, "TP inside the domain"},
		{[]Traffic{{31, ep.Leaving(AllToAll)}}, 7.0 / 31, "7 of 31 peers inside"},
		{[]Traffic{{31, tp.Leaving(Ring)}, {31, ep.Leaving(AllToAll)}}, 38.0 / 62, "equal bytes: (31 + 7) / 62"},
		{[]Traffic{{math.MaxInt64, 0}, {math.MaxInt64, 1}}, 0.5, "no overflow"},
	} {
		if got := HotFraction(tt.hot...); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%v: %v, want %v (%s)", tt.hot, got, tt.want, tt.reason)
		}
	}
}
