package plan

import (
	"strings"
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

func caseDispatcherInside(t *testing.T) {
	m := *caseModel(t, "qwen3-30b-a3b") // the report's model is a small one of its kind
	moe := *m.MoE
	moe.NumExperts, moe.FFNHiddenSize = 32, 2048
	m.NumLayers, m.HiddenSize, m.MoE = 8, 2048, &moe
	l := caseLayout(t, &m, 8, "pp2 ep4 mbs1")
	est, err := steptime.New(&m, casePlatform(t, "h100"), steptime.DefaultRun())
	if err != nil {
		t.Fatal(err)
	}
	if d := est.Tuned(&l).Dispatcher; d != layout.AllToAll {
		t.Errorf("the tuned side dispatches by %v", d)
	}
	if p := est.Price(&l, est.Tuned(&l)); !p.Notes.Has(steptime.NoteDispatcher) {
		t.Errorf("notes %v do not say that dispatchers are not told apart", p.Notes.Texts())
	}
}

func caseEPAcrossBoxes(t *testing.T) {
	m := caseModel(t, "qwen3-235b-a22b")
	wide := caseLayout(t, m, 256, "tp2 pp8 vpp4 ep32 mbs1 recompute=moe_act,layernorm")
	tp4 := caseLayout(t, m, 256, "tp4 pp8 vpp4 ep8 mbs1")
	deep := caseLayout(t, m, 256, "tp2 pp32 vpp3 ep8 mbs1 recompute=moe_act,layernorm")
	for _, l := range []*layout.Layout{&wide, &tp4, &deep} {
		caseLegal(t, m, l)
	}
	if layout.EvenSplit(m, 8, 4) != nil {
		t.Error("VPP 4 divides 94 layers over 8 stages: it does only with embedding and loss counted")
	}
	over := casePrice(t, m, "h100", &wide, flexOverlap(layout.DeepEP)).TFLOPS
	plain := casePrice(t, m, "h100", &wide, flex(layout.DeepEP)).TFLOPS
	local := casePrice(t, m, "h100", &tp4, flex(layout.DeepEP)).TFLOPS
	stages := casePrice(t, m, "h100", &deep, nil).TFLOPS
	if !(over > plain && plain > local) {
		t.Errorf("EP 32 with overlap %.0f, without %.0f, TP 4 %.0f TFLOPS; measured 276, 245, 167", over, plain, local)
	}
	// Measured 245 against 200. Both rows of 2025 without graphs, this and TP 4, are about 20 % too fast in the
	// prediction, by 2 ms a layer: the host's time then, not the depth of the pipeline.
	if stages > plain*1.05 || over < stages {
		t.Errorf("PP 32 %.0f TFLOPS, EP 32 %.0f and %.0f with overlap; measured 200, 245, 276", stages, plain, over)
	}
}

func caseHybridDomain(t *testing.T) {
	for ep, want := range map[int]int{8: 8, 32: 32, 64: 64, 128: 64} {
		s := caseSpans(t, casePlatform(t, "gb200"), folding.Degrees{World: 256, TP: 1, CP: 1, PP: 2, EP: ep, ETP: 1})
		if got := int(s.EP.RanksPerDomain()); got != want {
			t.Errorf("EP %d has %d ranks in a domain, want min(EP, 64) = %d", ep, got, want)
		}
	}
}

func caseDispatchOverBoxes(t *testing.T) {
	m := caseModel(t, "deepseek-v3") // hidden 7168, top 8: the microbenchmark's sizes
	seconds := make(map[int]float64)
	for _, ep := range []int{8, 16, 32} {
		l := caseLayout(t, m, 32, "mbs1 gbs=64 ep"+map[int]string{8: "8", 16: "16", 32: "32"}[ep])
		seconds[ep] = casePrice(t, m, "b200", &l, flex(layout.DeepEP)).Communication[steptime.EP].Seconds
	}
	a, b := seconds[16]/seconds[8], seconds[32]/seconds[8]
	if a < 1.1 || a > 4 || b < 2 || b > 7 || b < a {
		t.Errorf("EP 16 and 32 take %.1f and %.1f times EP 8's dispatch; measured 2.0 and 3.6", a, b)
	}
}

func caseBoxOfFour(t *testing.T) {
	p, err := casePlatform(t, "a100-80").With(
		topology.Override{Figure: topology.FigureDomain, Value: 4}, topology.Override{Figure: topology.FigureNode, Value: 4})
	if err != nil {
		t.Fatal(err)
	}
	for ep, local := range map[int]bool{2: true, 4: true, 8: false, 16: false} {
		s := caseSpans(t, p, folding.Degrees{World: 16, TP: 1, CP: 1, PP: 1, EP: ep, ETP: 1})
		if s.EP.Local() != local {
			t.Errorf("EP %d on boxes of four: local %v, want %v", ep, s.EP.Local(), local)
		}
	}
}

func caseTooFewGPUs(t *testing.T) {
	m := caseModel(t, "llama3.1-70b")
	on := func(world int) layout.Violations {
		l := caseLayout(t, m, world, "tp8 pp2 mbs1 gbs=64")
		return layout.Check(m, &l).Errors()
	}
	if vs := on(8); len(vs) == 0 || vs[0].Rule != "world-divisible" || len(vs[0].Repairs) == 0 {
		t.Errorf("8 GPUs: %+v, want world-divisible with repairs", vs)
	}
	if vs := on(16); len(vs) != 0 {
		t.Errorf("16 GPUs: %v", vs)
	}
}

func caseMixtral(t *testing.T) {
	m := caseModel(t, "mixtral-8x7b")
	ep := caseLayout(t, m, 16, "pp2 ep8 mbs1 gbs=128")
	etp := caseLayout(t, m, 16, "tp2 pp2 ep4 etp2 mbs1 gbs=128")
	caseLegal(t, m, &ep)
	if s := caseSpans(t, casePlatform(t, "h100"), ep.Degrees); !s.ETPEP.Local() {
		t.Error("EP 8 leaves the box")
	}
	a, b := casePrice(t, m, "h100", &ep, nil), casePrice(t, m, "h100", &etp, nil)
	if a.Step >= b.Step {
		t.Errorf("EP 8 takes %.3g s, TP 2 ETP 2 EP 4 %.3g: EP before ETP", a.Step, b.Step)
	}
}

func caseOverlapPays(t *testing.T) {
	m := caseModel(t, "qwen3-30b-a3b")
	l := caseLayout(t, m, 16, "ep16 mbs1 gbs=1024")
	with := casePrice(t, m, "h100", &l, flexOverlap(layout.HybridEP)).Step
	without := casePrice(t, m, "h100", &l, flex(layout.HybridEP)).Step
	if gain := 1 - with/without; gain < 0.08 || gain > 0.25 {
		t.Errorf("overlap saves %.0f %% of the step; measured 15 %%", 100*gain)
	}
}

func caseFlexAcross(t *testing.T) {
	m := caseModel(t, "qwen3-30b-a3b")
	l := caseLayout(t, m, 16, "ep16 mbs1 gbs=1024")
	for _, imbalance := range []float64{1, 3} {
		run := steptime.DefaultRun()
		run.Imbalance = imbalance
		est, err := steptime.New(m, casePlatform(t, "h100"), run)
		if err != nil {
			t.Fatal(err)
		}
		seconds := func(d layout.Dispatcher) float64 {
			sw := steptime.BringUp()
			sw.Dispatcher = d
			p := est.Price(&l, sw)
			return p.Communication[steptime.EP].Seconds
		}
		if ratio := seconds(layout.AllToAll) / seconds(layout.DeepEP); ratio < 2 {
			t.Errorf("imbalance %g: alltoall takes %.1f times DeepEP's time; measured 2.1 to 2.5", imbalance, ratio)
		}
	}
}

func caseFlexLimit(t *testing.T) {
	m := caseModel(t, "kimi-k2")
	l := caseLayout(t, m, 256, "tp8 pp8 ep32 mbs1 dispatcher=deepep")
	caseLegal(t, m, &l)
	if l.Split.IsEven(m) {
		t.Error("61 layers over 8 stages are split evenly")
	}
	wide := caseLayout(t, m, 256, "pp2 ep128 mbs1 dispatcher=deepep")
	vs := layout.Check(m, &wide)
	warned := false
	for i := range vs {
		warned = warned || strings.Contains(vs[i].Message, "128") && vs[i].Severity != layout.Error
	}
	if !warned || !vs.Legal() {
		t.Errorf("EP 128 with DeepEP: %v, want a warning and no error", vs)
	}
}

func caseWhatHelps(t *testing.T) {
	m := caseModel(t, "kimi-k2") // 1T, as the report's smaller proxy
	acts := func(text string) int64 {
		l := caseLayout(t, m, 768, text)
		_, stages := casePeak(t, m, memmodel.DefaultRun(90), &l)
		var most int64
		for i := range stages {
			most = max(most, stages[i].Activations)
		}
		return most
	}
	base := acts("pp24 ep8 mbs1 gbs=1536")
	cp, ep, pp := acts("cp2 pp24 ep8 mbs1 gbs=1536"), acts("pp24 ep16 mbs1 gbs=1536"), acts("pp48 ep8 mbs1 gbs=1536")
	if r := float64(cp) / float64(base); r < 0.4 || r > 0.6 {
		t.Errorf("CP 2 leaves %.2f of the activations, want about half", r)
	}
	if ep != base {
		t.Errorf("EP 16 changes activations from %d to %d", base, ep)
	}
	if float64(pp) < 0.85*float64(base) {
		t.Errorf("PP 48 brings activations from %d to %d: more micro-batches in flight should eat the gain", base, pp)
	}
}

func caseLongContext(t *testing.T) {
	base := caseModel(t, "qwen3-235b-a22b")
	m := *base
	m.MaxPositionEmbeddings = 131072
	limit := newBudget(casePlatform(t, "h100"), 79.65, 0, 0).capacity
	last := 0.0
	for _, c := range []struct{ text string }{
		{"tp4 cp1 pp8 vpp4 ep8 mbs1 recompute=layernorm,moe seq=16384 gbs=2048"},
		{"tp4 cp2 pp8 vpp4 ep8 mbs1 recompute=layernorm,moe seq=32768 gbs=1024"},
		{"tp4 cp4 pp8 vpp4 ep8 mbs1 recompute=layernorm,moe seq=65536 gbs=512"},
		{"tp4 cp8 pp8 vpp4 ep8 mbs1 recompute=layernorm,moe seq=131072 gbs=256"},
	} {
		l := caseLayout(t, &m, 256, c.text)
		caseLegal(t, &m, &l)
		run := memmodel.DefaultRun(90)
		run.CrossEntropy = memmodel.TEFusedBF16CE
		if peak, _ := casePeak(t, &m, run, &l); peak > limit {
			t.Errorf("%s: %.0f GiB", c.text, float64(peak)/float64(gib))
		}
		p := casePrice(t, &m, "h100", &l, flex(layout.DeepEP))
		if p.TFLOPS <= last {
			t.Errorf("%s: %.0f TFLOPS after %.0f; measured 295, 335, 368, 389", c.text, p.TFLOPS, last)
		}
		last = p.TFLOPS
	}
}

func caseNVL72(t *testing.T) {
	s := caseSpans(t, casePlatform(t, "gb200"), folding.Degrees{World: 256, TP: 1, CP: 1, PP: 4, EP: 64, ETP: 1})
	if !s.EP.Local() {
		t.Errorf("EP 64 on NVL72: %+v, want one domain", s.EP)
	}
	tokens := func(m *arch.Model, gpu, text string) float64 {
		l := caseLayout(t, m, 256, text+" precision=mxfp8")
		return casePrice(t, m, gpu, &l, func(sw *steptime.Software) {
			*sw = steptime.Software{Dispatcher: layout.HybridEP, EPOverlap: true, DelayWgrad: true, Graph: steptime.FullIteration,
				Since2606: true, FusedPermute: true, OverlapDP: true}
		}).Tokens
	}
	dsv3, qwen := caseModel(t, "deepseek-v3"), caseModel(t, "qwen3-235b-a22b")
	a, b := tokens(dsv3, "gb200", "pp4 vpp4 ep64 mbs1 gbs=4096 recompute=mla_up_proj"), tokens(dsv3, "gb300", "pp2 vpp8 ep32 mbs1 gbs=4096")
	c, d := tokens(qwen, "gb200", "pp8 vpp3 ep32 mbs1 gbs=8192"), tokens(qwen, "gb300", "pp4 vpp12 ep32 mbs2 gbs=8192")
	if !(a < b && b < c && c < d) {
		t.Errorf("%.0f, %.0f, %.0f, %.0f tokens/s; measured 4912, 6288, 7280, 8816", a, b, c, d)
	}
}

func caseSegment(t *testing.T) {
	p := casePlatform(t, "gb300")
	n, err := p.UsableDomain(folding.Degrees{World: 256, TP: 1, CP: 1, PP: 4, EP: 64, ETP: 1})
	if err != nil || n != 64 {
		t.Errorf("%d ranks of a domain are used, want 64 of 72: %v", n, err)
	}
}
