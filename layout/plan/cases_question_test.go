package plan

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/memmodel"
)

func caseFewestGPUs(t *testing.T) {
	m := caseModel(t, "qwen3-32b")
	budget := newBudget(casePlatform(t, "h100"), 79.65, -1, 0)
	run := memmodel.DefaultRun(90)
	// With fp32 gradients and moments the state alone takes 69 GiB, which is why the answer moves Adam to the CPU; bf16
	// ones stand for that.
	run.GradientBytes, run.MomentBytes, run.MasterBytes, run.PrecisionAware = 2, 2, 2, true
	fits := func(world int, text string) (Grade, int64) {
		l := caseLayout(t, m, world, text+" mbs1 gbs=64 seq=16384")
		caseLegal(t, m, &l)
		peak, stages := casePeak(t, m, run, &l)
		return budget.grade(needOf(stages)), peak
	}
	if g, peak := fits(16, "tp4 cp4"); g != Fits {
		t.Errorf("16 GPUs, TP 4 CP 4: %s at %.0f GiB", g, float64(peak)/float64(gib))
	}
	full, a := fits(8, "tp4 cp2 recompute=full")
	tp8, b := fits(8, "tp8 recompute=full")
	if full == No && tp8 == No {
		t.Errorf("8 GPUs: %.0f and %.0f GiB", float64(a)/float64(gib), float64(b)/float64(gib))
	}
}

func caseGLM5(t *testing.T) {
	m := *caseModel(t, "deepseek-v3")
	moe, mla := *m.MoE, *m.MLA
	m.ID, m.NumLayers, m.HiddenSize, m.FFNHiddenSize, m.NumAttentionHeads, m.VocabSize, m.MTPNumLayers = "glm-5", 78, 6144, 12288, 64, 154880, 0
	moe.LayerFreq, moe.RouterNumGroups, moe.RouterGroupTopK = "([0]*3+[1]*75)", 0, 0
	mla.QLoraRank, mla.QKHeadDim, mla.VHeadDim = 2048, 192, 256
	m.MoE, m.MLA, m.RecordedTotal, m.RecordedActive = &moe, &mla, nil, nil
	total, _ := m.Parameters()
	if total < 700e9 || total > 790e9 {
		t.Fatalf("%.0f B parameters, the report has 744 B", float64(total)/1e9)
	}
	r, err := Search(context.Background(), Request{Model: &m, Platform: casePlatform(t, "h200"), GPUs: 512, SeqLength: 8192, Top: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Plans) < 3 || r.Plans[0].Grade != Fits {
		t.Errorf("%d plans, want three that fit", len(r.Plans))
	}
}

func caseETPDefault(t *testing.T) {
	m := caseModel(t, "qwen3-30b-a3b")
	one := caseLayout(t, m, 16, "tp2 ep8 etp1 mbs1 gbs=256")
	two := caseLayout(t, m, 16, "tp2 ep8 etp2 mbs1 gbs=256")
	caseLegal(t, m, &one)
	caseLegal(t, m, &two)
	if one.EDP() != 2 || two.EDP() != 1 {
		t.Errorf("EDP %d and %d, want 2 and 1", one.EDP(), two.EDP())
	}
	_, a := casePeak(t, m, memmodel.DefaultRun(80), &one)
	_, b := casePeak(t, m, memmodel.DefaultRun(80), &two)
	if a[0].Parameters.Expert != 2*b[0].Parameters.Expert || a[0].ExpertState <= b[0].ExpertState {
		t.Errorf("experts %d and %d, state %d and %d: ETP 2 halves them", a[0].Parameters.Expert, b[0].Parameters.Expert, a[0].ExpertState, b[0].ExpertState)
	}
	if x, y := casePrice(t, m, "h100", &one, nil).Step, casePrice(t, m, "h100", &two, nil).Step; x >= y {
		t.Errorf("ETP 1 takes %.3g s, ETP 2 %.3g", x, y)
	}
}

func caseLlama7B(t *testing.T) {
	m := *caseModel(t, "llama3.1-8b")
	m.ID, m.HiddenSize, m.NumAttentionHeads, m.NumQueryGroups, m.KVChannels = "llama-7b", 4096, 32, 32, 128
	m.FFNHiddenSize, m.VocabSize, m.NumLayers, m.RecordedTotal, m.RecordedActive = 11008, 32000, 32, nil, nil
	l := caseLayout(t, &m, 8, "mbs2 gbs=128")
	run := memmodel.DefaultRun(80)
	peak, stages := casePeak(t, &m, run, &l)
	state := float64(stages[0].Weights+stages[0].Gradients+stages[0].Optimizer) / 1e9
	if math.Abs(state/50.5-1) > 0.02 {
		t.Errorf("%.1f GB of state, the answer says 50.5", state)
	}
	if g := newBudget(casePlatform(t, "a100-80"), 80, -1, 0).grade(needOf(stages)); g == Fits {
		t.Errorf("%.1f GiB are said to fit comfortably", float64(peak)/float64(gib))
	}
}

func caseSmallestWorlds(t *testing.T) {
	for _, c := range []struct {
		d    folding.Degrees
		want int
	}{
		{folding.Degrees{TP: 2, CP: 1, PP: 1, EP: 8, ETP: 1}, 8},
		{folding.Degrees{TP: 4, CP: 1, PP: 1, EP: 8, ETP: 1}, 8},
		{folding.Degrees{TP: 2, CP: 2, PP: 1, EP: 8, ETP: 1}, 8},
		{folding.Degrees{TP: 2, CP: 4, PP: 1, EP: 8, ETP: 1}, 8},
		{folding.Degrees{TP: 2, CP: 1, PP: 2, EP: 8, ETP: 1}, 16},
		{folding.Degrees{TP: 2, CP: 1, PP: 1, EP: 4, ETP: 2}, 8},
	} {
		smallest := 0
		for world := 1; world <= 64 && smallest == 0; world++ {
			c.d.World = world
			if len(folding.Check(c.d, folding.DefaultOrder, 1)) == 0 {
				smallest = world
			}
		}
		if smallest != c.want {
			t.Errorf("%v: %d GPUs, want %d", c.d, smallest, c.want)
		}
	}
}

func caseGroups(t *testing.T) {
	f, err := folding.New(folding.Degrees{World: 32, TP: 1, CP: 16, PP: 1, EP: 8, ETP: 1}, folding.DefaultOrder, 1)
	if err != nil {
		t.Fatal(err)
	}
	groups := func(k folding.GroupKind) [][]int {
		g, err := f.Groups(k)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	cp, dp, both := groups(folding.GroupCP), groups(folding.GroupDP), groups(folding.GroupDPCP)
	if len(cp) != 2 || cp[0][0] != 0 || cp[0][15] != 15 || cp[1][0] != 16 {
		t.Errorf("CP groups %v", cp)
	}
	if len(dp) != 16 || !slices.Equal(dp[0], []int{0, 16}) {
		t.Errorf("DP groups %v", dp)
	}
	if len(both) != 1 || len(both[0]) != 32 {
		t.Errorf("DP x CP groups %v", both)
	}
}

func caseEDP1(t *testing.T) {
	d := folding.Degrees{World: 256, TP: 1, CP: 1, PP: 4, EP: 64, ETP: 1}
	if refusals := folding.Check(d, folding.DefaultOrder, 1); len(refusals) > 0 || d.EDP() != 1 {
		t.Errorf("EDP %d, %v", d.EDP(), refusals)
	}
}

func caseTenBytes(t *testing.T) {
	m := caseModel(t, "deepseek-v3")
	l := caseLayout(t, m, 64, "ep64 mbs1")
	run := memmodel.DefaultRun(100)
	run.GradientBytes, run.MomentBytes, run.MasterBytes, run.PrecisionAware = 2, 2, 2, true
	_, stages := casePeak(t, m, run, &l)
	if s := stages[0]; s.ExpertState != 10*s.Parameters.Expert {
		t.Errorf("%d bytes for %d expert parameters, want 10 each", s.ExpertState, s.Parameters.Expert)
	}
	if gb := 748e9 * 10 / 64 / 1e9; math.Abs(gb-116.9) > 0.05 {
		t.Errorf("748e9 parameters take %.1f GB", gb)
	}
}

func caseHundredThousand(t *testing.T) {
	m := *caseModel(t, "qwen3-30b-a3b")
	m.MaxPositionEmbeddings = 131072
	run := memmodel.DefaultRun(80)
	run.GradientBytes, run.MomentBytes, run.PrecisionAware = 2, 2, true
	peak := func(m *arch.Model, text string) (memmodel.Need, int64) {
		l := caseLayout(t, m, 8, text+" ep4 mbs1 gbs=8 seq=102400 recompute=full")
		caseLegal(t, m, &l)
		_, stages := casePeak(t, m, run, &l)
		return stages[0].Need(), stages[0].Activations + stages[0].Transient
	}
	n2, a2 := peak(&m, "cp2")
	n4, a4 := peak(&m, "cp4")
	p2, p4 := n2.Allocated, n4.Allocated
	if p4 >= p2 || a4 >= a2 {
		t.Errorf("CP 4 needs %d and %d, CP 2 %d and %d", p4, a4, p2, a2)
	}
	if newBudget(casePlatform(t, "a100-80"), 80, -1, 0).grade(n2) == Fits {
		t.Errorf("CP 2 is said to fit, though under 5 GB would stay")
	}
	small := m // what a hundredth of the vocabulary saves is the logits
	small.VocabSize /= 100
	_, without := peak(&small, "cp2")
	if share := 1 - float64(without)/float64(a2); share < 0.3 {
		t.Errorf("logits are %.0f %% of the activations at their peak, want a large part", 100*share)
	}
}
