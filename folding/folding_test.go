package folding

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestCheck covers what the recordings do not: every refusal at once, degrees no launch has, and orders of our own.
func TestCheck(t *testing.T) {
	ok := Degrees{World: 16, TP: 2, CP: 2, PP: 2, EP: 4, ETP: 1}
	for _, tt := range []struct {
		name      string
		d         Degrees
		order     Order
		instances int
		want      []string
		text      string // part of the first message
		reason    string
	}{
		{"accepted", ok, DefaultOrder, 1, nil, "", "layout-rules.md 1.4, first example"},
		{"empty order", ok, "", 1, nil, "", "a layout's zero order means the default"},
		{"gtp_remat", ok, "tp-gtp_remat-cp-ep-dp-pp", 1, nil, "", "parallel_state.py:593: the framework leaves an order that names it as it is"},
		{"zero degree", Degrees{World: 16, TP: 2, CP: 2, PP: 2, EP: 4}, DefaultOrder, 1, []string{RuleDegreePositive}, "ETP = 0",
			"a division by zero in the framework (rules-findings.md section 2, 26)"},
		{"negative world", Degrees{World: -16, TP: 1, CP: 1, PP: 1, EP: 1, ETP: 1}, DefaultOrder, 1, []string{RuleDegreePositive}, "world = -16",
			"Python's modulo would accept it"},
		{"zero instances", ok, DefaultOrder, 0, []string{RuleDegreePositive}, "optimizer instances = 0", "a modulo by zero in the framework"},
		{"both worlds", Degrees{World: 12, TP: 8, CP: 1, PP: 1, EP: 8, ETP: 1}, DefaultOrder, 1,
			[]string{RuleWorldDivisible, RuleExpertWorldDivisible}, "12 GPUs", "rules 1 and 2; what depends on DP is left out"},
		{"all of one layout", Degrees{World: 16, TP: 4, CP: 1, PP: 2, EP: 8, ETP: 1}, TPPPDPOrder, 3,
			[]string{RuleEDPEqualsDP, RulePPGroupsEqual, RuleOptimizerInstances, RuleOptimizerInstancesOfEDP}, "DP = 16/(TP 4 * CP 1 * PP 2) = 2, EDP = 16/(ETP 1 * EP 8 * PP 2) = 1",
			"rules 4, 3 and 5 in the order of parallel_state.py"},
		{"upper case", Degrees{World: 16, TP: 2, CP: 1, PP: 2, EP: 4, ETP: 1}, "TP-CP-EP-DP-PP", 1, []string{RuleEDPEqualsDP}, "does not end in pp",
			"rules-findings.md: the test for the ending looks at the string as given"},
		{"no tp", Degrees{World: 4, TP: 1, CP: 1, PP: 1, EP: 1, ETP: 1}, "cp-ep-dp-pp", 1, []string{RuleOrderMissingAxis}, "leaves out tp",
			"rank_groups 219: tp is missing even at size 1"},
		{"no dp for the experts", Degrees{World: 4, TP: 4, CP: 1, PP: 1, EP: 1, ETP: 1}, "tp-cp-ep-pp", 1, []string{RuleOrderMissingAxis}, "leaves out dp, whose size is 4",
			"DP is 1, but the MoE mesh needs its EDP of 4"},
		{"blank", ok, "tp-cp- ep-dp-pp", 1, []string{RuleOrderUnknownAxis}, `" ep"`, "names are not trimmed"},
		{"product overflows", Degrees{World: 16, TP: 1 << 40, CP: 1 << 40, PP: 1, EP: 1, ETP: 1}, DefaultOrder, 1, []string{RuleWorldDivisible}, "16 GPUs",
			"2^80 does not wrap to a divisor"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Check(tt.d, tt.order, tt.instances)
			var rules []string
			for _, r := range got {
				rules = append(rules, r.Rule)
			}
			if !slices.Equal(rules, tt.want) || (len(got) > 0 && !strings.Contains(got[0].Message, tt.text)) {
				t.Errorf("got %v, want %v with %q (%s)", got, tt.want, tt.text, tt.reason)
			}
		})
	}
}

// TestWorkedExample is the table of layout-rules.md 1.4, generated there with the real RankGenerator.
func TestWorkedExample(t *testing.T) {
	first := Degrees{World: 16, TP: 2, CP: 2, PP: 2, EP: 4, ETP: 1}
	second := Degrees{World: 16, TP: 2, CP: 1, PP: 2, EP: 4, ETP: 2}
	for _, tt := range []struct {
		d      Degrees
		order  Order
		kind   GroupKind
		want   [][]int // the first groups
		stride int
	}{
		{first, DefaultOrder, GroupCP, [][]int{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}}, 2},
		{first, DefaultOrder, GroupDP, [][]int{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}}, 4},
		{first, DefaultOrder, GroupDPCP, [][]int{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}, 2},
		{first, DefaultOrder, GroupPP, [][]int{{0, 8}, {1, 9}}, 8},
		{first, DefaultOrder, GroupETPEPPP, [][]int{{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}, 1},
		{first, TPPPDPOrder, GroupDP, [][]int{{0, 8}, {1, 9}}, 8},
		{first, TPPPDPOrder, GroupDPCP, [][]int{{0, 2, 8, 10}, {1, 3, 9, 11}, {4, 6, 12, 14}, {5, 7, 13, 15}}, 2},
		{first, TPPPDPOrder, GroupPP, [][]int{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}}, 4},
		{first, TPPPDPOrder, GroupEDP, [][]int{{0, 8}, {1, 9}}, 8},
		{second, DefaultOrder, GroupEP, [][]int{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}, 2},
		{second, DefaultOrder, GroupETP, [][]int{{0, 1}, {2, 3}}, 1},
	} {
		f, err := New(tt.d, tt.order, 1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Groups(tt.kind)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got[:len(tt.want)], tt.want, slices.Equal) || f.Stride(tt.kind) != tt.stride {
			t.Errorf("%v %q %s: got %v stride %d, want %v stride %d", tt.d, tt.order, tt.kind, got, f.Stride(tt.kind), tt.want, tt.stride)
		}
	}
}

// TestAbsurdWorld: a trillion GPUs cost nothing until somebody lists them.
func TestAbsurdWorld(t *testing.T) {
	d := Degrees{World: 1_000_000_000_000, TP: 8, CP: 1, PP: 16, EP: 64, ETP: 1}
	f, err := New(d, DefaultOrder, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Groups(GroupTP); !errors.As(err, new(*TooLargeError)) {
		t.Errorf("Groups(tp) of a trillion ranks: %v", err)
	}
	if _, err := f.GroupOf(GroupDP, 5); !errors.As(err, new(*TooLargeError)) {
		t.Errorf("GroupOf(dp) of 7.8e9 ranks: %v", err)
	}
	// Rank 999_999_999_999 is the last on every axis: by hand from the degrees.
	want := Position{TP: 7, DP: d.DP() - 1, EP: 63, EDP: d.EDP() - 1, PP: 15}
	if p, err := f.Coordinates(d.World - 1); err != nil || p != want {
		t.Errorf("the last rank is at %+v, %v; want %+v", p, err, want)
	}
	if g, err := f.GroupOf(GroupPP, 7); err != nil || len(g) != 16 || g[15] != 7+15*d.World/16 {
		t.Errorf("the pipeline of rank 7 is %v, %v", g, err)
	}
	huge := Degrees{World: math.MaxInt, TP: 1, CP: 1, PP: 1, EP: 1, ETP: 1}
	if f, err = New(huge, "tp-tp-dp-dp-cp-ep-pp", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Groups(GroupDP); !errors.As(err, new(*TooLargeError)) {
		t.Errorf("Groups(dp) of the largest world: %v", err)
	}
}

// TestRepeatedAxis: the framework accepts "tp-tp-..." and lists ranks outside the world (rank_groups 226).
func TestRepeatedAxis(t *testing.T) {
	f, err := New(Degrees{World: 16, TP: 2, CP: 2, PP: 2, EP: 1, ETP: 2}, "tp-tp-cp-ep-dp-pp", 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Repeated(); !slices.Equal(got, []string{"tp"}) {
		t.Errorf("Repeated() = %v", got)
	}
	if _, err := f.Coordinates(0); !errors.Is(err, ErrRepeatedAxis) {
		t.Errorf("Coordinates: %v", err)
	}
	if g, err := f.Groups(GroupPP); err != nil || !slices.Equal(g[7], []int{7, 23}) {
		t.Errorf("the last pipeline is %v, %v; the framework lists 7 and 23", g[7], err)
	}
}

func TestErrors(t *testing.T) {
	f, err := New(Degrees{World: 16, TP: 2, CP: 2, PP: 4, EP: 2, ETP: 1}, DefaultOrder, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Groups("mesh"); err == nil {
		t.Error("an unknown kind has groups")
	}
	if f.Size("mesh") != 0 || f.Count("mesh") != 0 || f.Stride("mesh") != 0 || f.Steps("mesh") != nil {
		t.Error("an unknown kind has a size")
	}
	for _, rank := range []int{-1, 16} {
		if _, err := f.Coordinates(rank); err == nil {
			t.Errorf("rank %d has coordinates", rank)
		}
	}
	if _, err := f.AttentionRank(2, 0, 0, 0); err == nil {
		t.Error("tp coordinate 2 of TP 2 has a rank")
	}
	if _, err := f.Rank(Position{TP: 1}); err == nil {
		t.Error("a position that is rank 1 of attention and rank 0 of the experts has a rank")
	}
	if g, err := f.GroupOf(GroupEmbedding, 4); err != nil || g != nil {
		t.Errorf("rank 4 is on a middle stage, but its embedding group is %v, %v", g, err)
	}
}

func TestValidateDoesNotAllocate(t *testing.T) {
	d := Degrees{World: 4096, TP: 8, CP: 2, PP: 16, EP: 64, ETP: 1}
	if n := testing.AllocsPerRun(100, func() {
		if d.Validate() != nil {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGroups(b *testing.B) {
	f, err := New(Degrees{World: 4096, TP: 8, CP: 2, PP: 16, EP: 64, ETP: 1}, DefaultOrder, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, kind := range kinds {
			if _, err := f.Groups(kind); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestDegreesString: degrees that nobody has accepted yet stand in messages.
func TestDegreesString(t *testing.T) {
	for _, tt := range []struct {
		d            Degrees
		want, reason string
	}{
		{Degrees{World: 256, TP: 2, CP: 1, PP: 8, EP: 32, ETP: 1}, "tp2 cp1 dp16 pp8 | etp1 ep32 edp1 | 256 ranks", "the example of the comment"},
		{Degrees{World: 16, TP: 3, CP: 1, PP: 1, EP: 1, ETP: 1}, "tp3 cp1 dp5 pp1 | etp1 ep1 edp16 | 16 ranks", "DP is rounded down"},
		{Degrees{World: 16, TP: 1 << 32, CP: 1 << 32, PP: 1, EP: 1, ETP: 1}, "tp4294967296 cp4294967296 dp0 pp1 | etp1 ep1 edp16 | 16 ranks",
			"a product that wraps to 0 is no divisor"},
	} {
		if got := tt.d.String(); got != tt.want {
			t.Errorf("%q, want %q (%s)", got, tt.want, tt.reason)
		}
	}
}
