package layout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout/arch"
)

func TestParseRange(t *testing.T) {
	for _, c := range []struct {
		text, want string // want "" is an error
		has, not   int
		problem    string
	}{
		{"4", "4", 4, 5, ""},
		{"4,8", "4,8", 8, 6, ""},
		{"8..64", "8..64", 64, 65, ""},
		{" 1, 8..16 ,32", "1,8..16,32", 12, 17, ""},
		{"7..7", "7", 7, 8, ""},
		{"", "", 0, 0, `range "" is empty`},
		{"4,", "", 0, 0, "has an empty part"},
		{"0", "", 0, 0, "range 0 is below 1"},
		{"-4", "", 0, 0, "range -4 is not a whole number"},
		{"0..8", "", 0, 0, "range 0 is below 1"},
		{"8..4", "", 0, 0, "range 8..4 is empty: its ends are reversed"},
		{"8..", "", 0, 0, "range 8.. lacks an end"},
		{"a", "", 0, 0, "range a is not a whole number"},
		{"1..1000000000000", "", 0, 0, "range 1000000000000 is larger than 1048576"},
		{strings.Repeat("1,", 600), "", 0, 0, "is longer than"},
	} {
		r, err := ParseRange(c.text)
		if c.want == "" {
			if !errors.Is(err, ErrSize) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("ParseRange(%q): %v, want %s", c.text, err, c.problem)
			}
			continue
		}
		if err != nil || r.String() != c.want || !r.Contains(c.has) || r.Contains(c.not) {
			t.Errorf("ParseRange(%q) = %v, %v", c.text, r, err)
		}
	}
}

func FuzzParseRange(f *testing.F) {
	for _, text := range []string{"4", "4,8", "8..64", "1..1048576,3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRange(text)
		if err != nil {
			return
		}
		again, err := ParseRange(r.String())
		if err != nil || again.String() != r.String() {
			t.Fatalf("%q -> %q -> %q, %v", text, r, again, err)
		}
		r.pick(upTo(100))
	})
}

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		got, want []int
		what      string
	}{
		{NearestDivisors(64, 3), []int{2, 4}, "between"},
		{NearestDivisors(64, 16), []int{16}, "a divisor itself"},
		{NearestDivisors(64, 100), []int{64}, "above all"},
		{NearestDivisors(0, 3), nil, "nothing divides"},
		{NearestMultiples(6, 256), []int{252, 258}, "between"},
		{NearestMultiples(6, 4), []int{6}, "below the first"},
		{NearestMultiples(6, 12), []int{12}, "a multiple itself"},
		{NearestMultiples(0, 12), nil, "no unit"},
		{Divisors(96), []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96}, "all"},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestRecomputeLadder(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"qwen3-235b-a22b", "none | moe_act | moe_act,layernorm | layernorm,moe | full"},
		{"qwen3-next-80b-a3b", "none | moe_act | moe_act,layernorm | moe_act,layernorm,shared_experts | layernorm,moe | full"},
		{"deepseek-v3", "none | mla_up_proj | mla_up_proj,mlp | moe_act,mla_up_proj,mlp | moe_act,layernorm,mla_up_proj,mlp | moe_act,layernorm,mla_up_proj,mlp,shared_experts | layernorm,mla_up_proj,mlp,moe | full"},
		{"llama3.1-8b", "none | mlp | full"}, // its norms are fused into linears: layernorm would drop nothing
	} {
		var rungs []string
		for _, r := range RecomputeLadder(model(t, c.name)) {
			rungs = append(rungs, r.String())
		}
		if got := strings.Join(rungs, " | "); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestDefaultGlobalBatch(t *testing.T) {
	for _, c := range []struct {
		seq, world, want int
		reason           string
	}{
		{4096, 256, 2048, "8 Mi tokens"},
		{8192, 256, 1024, "8 Mi tokens"},
		{4096, 16384, 16384, "a sequence per GPU"},
		{4096, 72, 2088, "rounded up to a multiple of the world: 29 * 72"},
		{1 << 24, 8, 8, "at least one sequence per GPU"},
		{0, 8, 0, "no sequence"},
	} {
		if got := DefaultGlobalBatch(c.seq, c.world); got != c.want {
			t.Errorf("DefaultGlobalBatch(%d, %d) = %d, want %d (%s)", c.seq, c.world, got, c.want, c.reason)
		}
	}
}

func TestSpaceLists(t *testing.T) {
	m := model(t, "qwen3-235b-a22b")
	list := func(s *Space) string {
		return fmt.Sprint(s.TP, s.CP, s.PP, s.ETP, s.EP, s.VPP, s.MBS, s.MaxExpertGroup, s.MaxCells)
	}
	for _, c := range []struct {
		name        string
		world, node int
		wide        bool
		run         Run
		pins        Pins
		want        string
		reason      string
	}{
		{"qwen3-235b-a22b", 256, 8, false, Run{}, Pins{}, "[1 2 4 8] [1] [1 2 4 8 16 32 64] [1] [1 2 4 8 16 32 64 128] [1 2 3 4 6 8 12] [1 2 3 4 8] 64 96", "defaults"},
		{"qwen3-235b-a22b", 256, 4, true, Run{}, Pins{}, "[1 2 4] [1 2] [1 2 4 8 16 32 64] [1 2 4 8] [1 2 4 8 16 32 64 128] [1 2 3 4 6 8 12] [1 2 4 8] 0 96", "wide, nodes of 4"},
		{"qwen3-235b-a22b", 256, 8, false, Run{SeqLength: 32768}, Pins{}, "[1 2 4 8] [1 2 4 8] [1 2 4 8 16 32 64] [1] [1 2 4 8 16 32 64 128] [1 2 3 4 6 8 12] [1 2 3 4 8] 64 96", "CP while 4096 tokens stay"},
		{"qwen3-235b-a22b", 7, 8, false, Run{}, Pins{}, "[1] [1] [1 7] [1] [1] [1 2 3 4 6 8 12] [1 2 3 4 8] 64 96", "7 GPUs"},
		{"llama3.1-8b", 64, 8, true, Run{}, Pins{}, "[1 2 4 8] [1 2] [1 2 4 8 16 32] [1] [1] [1 2 3 4 6 8 12] [1 2 4 8] 0 34", "dense: no expert axes"},
		{"llama3.1-8b", 8, 8, false, Run{Order: "tp-cp-ep-pp-dp"}, Pins{}, "[1 2 4 8] [1] [1 2 4 8] [1 2 4 8] [1] [1 2 3 4 6 8 12] [1 2 3 4 8] 0 34", "dense in the other order: ETP follows TP"},
		{"llama3.1-405b", 256, 8, false, Run{Order: "tp-cp-ep-pp-dp"}, Pins{TP: Exactly(128), PP: Exactly(2)}, "[128] [1] [2] [128] [1] [1 2 3 4 6 8 12] [1 2 3 4 8] 0 128", "and a pinned TP beyond the default ones too, however large"},
		{"llama3.1-405b", 256, 8, false, Run{Order: "tp-cp-ep-pp-dp"}, Pins{TP: Exactly(16), ETP: Exactly(8), PP: Exactly(2)}, "[16] [1] [2] [8] [1] [1 2 3 4 6 8 12] [1 2 3 4 8] 0 128", "unless ETP is pinned"},
		{"qwen3-235b-a22b", 256, 8, false, Run{}, Pins{TP: Exactly(16), CP: Exactly(2), EP: Range{[]span{{8, 200}}}, PP: Exactly(3)},
			"[16] [2] [3] [1] [8 16 32 64 128] [1 2 3 4 6 8 12] [1 2 3 4 8] 0 96", "pins widen, and lift the bound on ETP * EP"},
		{"qwen3-235b-a22b", 256, 8, false, Run{}, Pins{VPP: Range{[]span{{4, 6}}}, MBS: Range{[]span{{1, 20}}}, ETP: Exactly(4, 2)},
			"[1 2 4 8] [1] [1 2 4 8 16 32 64] [2 4] [1 2 4 8 16 32 64 128] [4 5 6] [1 2 4 8 16] 0 96", "every VPP of a range; divisors of the batch"},
	} {
		build := DefaultSpace
		if c.wide {
			build = WideSpace
		}
		s, err := build(model(t, c.name), c.world, c.node, c.run, c.pins)
		if err != nil || list(s) != c.want {
			t.Errorf("%s on %d: %v, %v\nwant %s (%s)", c.name, c.world, list(s), err, c.want, c.reason)
		}
	}
	if _, err := DefaultSpace(m, 256, 8, Run{}, Pins{TP: Range{[]span{{5, 7}}}}); !errors.Is(err, ErrNoLayout) ||
		err.Error() != "no TP in 5..7 divides 256 GPUs; try 4 or 8" {
		t.Errorf("an empty range: %v", err)
	}
	for _, c := range []struct {
		world, node int
		run         Run
		want        string
	}{
		{0, 8, Run{}, "world size 0 is below 1"},
		{-8, 8, Run{}, "world size -8 is below 1"},
		{1_000_000_000_000, 8, Run{}, "world size 1000000000000 is larger than 1048576"},
		{256, 0, Run{}, "node size 0 is below 1"},
		{256, 8, Run{SeqLength: -1}, "sequence length -1 is below 1"},
		{256, 8, Run{GlobalBatchSize: -1}, "global batch size -1 is below 1"},
	} {
		if _, err := DefaultSpace(m, c.world, c.node, c.run, Pins{}); !errors.Is(err, ErrSize) || err.Error() != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := DefaultSpace(&arch.Model{}, 8, 8, Run{}, Pins{}); err == nil {
		t.Error("a model without shape: no error")
	}
}

// TestNoLayout: what was pinned has no legal layout; the error is one line with the value, the rule and what is near.
func TestNoLayout(t *testing.T) {
	for _, c := range []struct {
		name  string
		world int
		run   Run
		pins  Pins
		want  string
	}{
		{"qwen3-235b-a22b", 96, Run{}, Pins{TP: Exactly(3)},
			"tp-divides-heads: no legal layout on 96 GPUs: 64 attention heads are not divisible by TP 3 (64 % 3 = 1); try tp2, or tp4"},
		{"qwen3-235b-a22b", 8, Run{}, Pins{TP: Exactly(16)},
			"world-divisible: no legal layout on 8 GPUs: 8 GPUs are not divisible by TP 16 * CP 1 * PP 1 = 16; try tp8, or 16 GPUs"},
		{"glm-4.5", 256, Run{}, Pins{EP: Exactly(64)},
			"ep-divides-experts: no legal layout on 256 GPUs: 160 experts are not divisible by EP 64 (160 % 64 = 32)"},
		{"qwen3-235b-a22b", 256, Run{SeqLength: 65536}, Pins{},
			"sequence-within-positions: no legal layout on 256 GPUs: sequence length 65536 exceeds the model's 40960 positions; try seq=40960, or --max-position-embeddings 65536"},
		{"qwen3-235b-a22b", 256, Run{}, Pins{PP: Exactly(128)}, "no layout to try on 256 GPUs: 94 layers fill at most PP * VPP = 96 stages"},
		{"qwen3-235b-a22b", 256, Run{}, Pins{PP: Exactly(1), VPP: Exactly(2)}, "vpp-needs-pp: no legal layout on 256 GPUs: VPP 2 at PP 1"},
	} {
		m := model(t, c.name)
		s, err := DefaultSpace(m, c.world, 8, c.run, c.pins)
		if err != nil {
			t.Fatal(err)
		}
		var n Counts
		for l := range Enumerate(m, s, &n) {
			t.Fatalf("%s on %d: %v", c.name, c.world, l)
		}
		err = n.Err(m, s)
		if !errors.Is(err, ErrNoLayout) || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

// TestSevenGPUs: an odd world is not impossible; it leaves DP 7 or PP 7.
func TestSevenGPUs(t *testing.T) {
	m := model(t, "qwen3-30b-a3b")
	s, err := DefaultSpace(m, 7, 8, Run{}, Pins{})
	if err != nil {
		t.Fatal(err)
	}
	meshes := map[string]bool{}
	for l := range Enumerate(m, s, nil) {
		meshes[l.Degrees.String()] = true
	}
	if len(meshes) != 2 {
		t.Errorf("meshes %v", meshes)
	}
}

func ExampleEnumerate() {
	m, err := arch.Lookup("qwen3-235b")
	if err != nil {
		panic(err)
	}
	space, err := DefaultSpace(m, 256, 8, Run{}, Pins{TP: Exactly(2), PP: Exactly(8), EP: Exactly(32), VPP: Exactly(2), MBS: Exactly(1)})
	if err != nil {
		panic(err)
	}
	var counts Counts
	for l := range Enumerate(m, space, &counts) {
		fmt.Println(l)
	}
	fmt.Println(counts.Meshes, counts.Layouts, counts.Legal)
	// Output:
	// tp2 cp1 pp8 vpp2 ep32 etp1 mbs1 recompute=none offload=none split=Et*6|(t*6|)*14t*4L
	// tp2 cp1 pp8 vpp2 ep32 etp1 mbs1 recompute=moe_act offload=none split=Et*6|(t*6|)*14t*4L
	// tp2 cp1 pp8 vpp2 ep32 etp1 mbs1 recompute=moe_act,layernorm offload=none split=Et*6|(t*6|)*14t*4L
	// tp2 cp1 pp8 vpp2 ep32 etp1 mbs1 recompute=layernorm,moe offload=none split=Et*6|(t*6|)*14t*4L
	// tp2 cp1 pp8 vpp2 ep32 etp1 mbs1 recompute=full offload=none split=Et*6|(t*6|)*14t*4L
	// 1 5 5
}
