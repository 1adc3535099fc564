package layout

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/moeplan/moeplan/folding"
)

func TestLayoutString(t *testing.T) {
	m := model(t, "qwen3-235b-a22b")
	l := Layout{Degrees: folding.Degrees{World: 256, TP: 2, CP: 1, PP: 8, EP: 32, ETP: 1}, VPP: 4, Split: BalancedSplit(m, 8, 4),
		MicroBatchSize: 1, GlobalBatchSize: 2048, SeqLength: 4096, SequenceParallel: true, Recompute: SelectiveRecompute(MoEAct | LayerNorm)}
	const base = "tp2 cp1 pp8 vpp4 ep32 etp1 mbs1 recompute=moe_act,layernorm offload=none split=Et*3|(t*3|)*30tL"
	if got := l.String(); got != base {
		t.Errorf("defaults: %q", got)
	}
	if got, want := l.Key(), base+" gbs=2048 seq=4096 sp=on precision=bf16 dispatcher=alltoall overlap=off order=tp-cp-ep-dp-pp"; got != want {
		t.Errorf("key: %q, want %q", got, want)
	}
	l.SeqLength, l.SequenceParallel, l.Precision, l.Dispatcher, l.EPOverlap, l.Order = 8192, false, MXFP8, HybridEP, true, folding.TPPPDPOrder
	l.Recompute = Recompute{Granularity: Full, Block: true, NumLayers: 3}
	l.Split = nil
	want := "tp2 cp1 pp8 vpp4 ep32 etp1 mbs1 recompute=full:block:3 offload=none gbs=2048 seq=8192 sp=off precision=mxfp8 dispatcher=hybridep overlap=on order=tp-cp-ep-pp-dp"
	if got := l.String(); got != want {
		t.Errorf("everything else: %q, want %q", got, want)
	}
}

func TestParse(t *testing.T) {
	m := model(t, "qwen3-235b-a22b")
	d := Defaults{World: 256, Model: m}
	for _, c := range []struct{ text, want, reason string }{
		{"", "tp1 cp1 pp1 vpp1 ep1 etp1 mbs1 recompute=none offload=none split=Et*94L", "every unnamed degree is 1"},
		{"ep=32 pp8\ttp2\n", "tp2 cp1 pp8 vpp1 ep32 etp1 mbs1 recompute=none offload=none split=Et*12|(t*12|)*6t*10L", "any order, tp2 or tp=2"},
		{"pp8 split=Et*5|(t*6|)*14t*5L", "tp1 cp1 pp8 vpp2 ep1 etp1 mbs1 recompute=none offload=none split=Et*5|(t*6|)*14t*5L", "VPP follows from the split"},
		{"pp2 split=even", "tp1 cp1 pp2 vpp1 ep1 etp1 mbs1 recompute=none offload=none split=Et*47|t*47L", "Megatron's own split"},
		{"recompute=layernorm,moe_act,moe_act", "tp1 cp1 pp1 vpp1 ep1 etp1 mbs1 recompute=moe_act,layernorm offload=none split=Et*94L", "modules have one order"},
		{"recompute=selective", "tp1 cp1 pp1 vpp1 ep1 etp1 mbs1 recompute=core_attn offload=none split=Et*94L", "upstream's default module"},
		{"recompute=full:uniform:1", "tp1 cp1 pp1 vpp1 ep1 etp1 mbs1 recompute=full offload=none split=Et*94L", "full means one layer a checkpoint"},
		{"seq=8192", "tp1 cp1 pp1 vpp1 ep1 etp1 mbs1 recompute=none offload=none split=Et*94L seq=8192", "the batch follows the sequence: 1024"},
		{"gbs=512 seq=4096 sp=off", "tp1 cp1 pp1 vpp1 ep1 etp1 mbs1 recompute=none offload=none split=Et*94L gbs=512", "defaults are not repeated"},
	} {
		l, err := Parse(c.text, d)
		if err != nil || l.String() != c.want || l.World != 256 {
			t.Errorf("Parse(%q) = %q, %v; want %q (%s)", c.text, l, err, c.want, c.reason)
		}
	}
}

func TestParseErrors(t *testing.T) {
	d := Defaults{World: 256, Model: model(t, "qwen3-235b-a22b")}
	for _, c := range []struct {
		text   string
		want   []string // one fragment a line
		reason string
	}{
		{"tp0", []string{"tp 0 is below 1"}, "zero"},
		{"tp-1", []string{"tp -1 is not a whole number"}, "negative"},
		{"tp", []string{"tp  is not a whole number"}, "no number"},
		{"ep1000000000000", []string{"ep 1000000000000 is larger than 1048576"}, "absurd"},
		{"pp99999999999999999999999", []string{"is larger than"}, "beyond 64 bits"},
		{"vp4", []string{`"vp4", did you mean vpp?`}, "nearest word"},
		{"xyzzy", []string{`unknown layout word "xyzzy"`}, "nothing near"},
		{"recompute", []string{"did you mean recompute=...?"}, "value missing"},
		{"dp16", []string{"follows from the other degrees"}, "derived"},
		{"tp2 tp4", []string{"tp is given twice"}, "repeated"},
		{"offload=adam", []string{"only offload=none"}, "not yet"},
		{"recompute=moe_akt", []string{`unknown recompute module "moe_akt", did you mean moe_act?`}, "nearest module"},
		{"recompute=moe_act,full", []string{"full stands alone"}, "full is no module"},
		{"recompute=full:odd:2", []string{"recompute method"}, "unknown method"},
		{"precision=fp8", []string{`unknown precision "fp8"`}, "the recipe must be named"},
		{"dispatcher=deep", []string{"did you mean deepep?"}, "nearest dispatcher"},
		{"overlap=yes", []string{"want on or off"}, "flags are on or off"},
		{"order=tp-xx", []string{`"xx" is none of`}, "unknown axis"},
		{"order=tp-tp", []string{"named twice"}, "repeated axis"},
		{"pp8 split=even", []string{"does not divide 94 layers"}, "no even split"},
		{"pp3 split=Et|tL", []string{"split-stages: "}, "rules of the string"},
		{"pp2 vpp2 split=Et|tL", []string{"vpp2: the split has 2 stages"}, "VPP contradicts the split"},
		{"ep=\x1b[2J order=tp\x1b[31m sp=\a offload=\x1b]0;x\a", []string{`ep \x1b[2J is not`, `order=tp\x1b[31m: "tp\x1b[31m" is none`, `sp=\a: want`, `offload=\x1b]0;x\a: only`}, "a plan file of somebody else must not command the terminal"},
		{"ep=1" + strings.Repeat("é", 40), []string{"ep 1" + strings.Repeat("é", 29) + "... is not"}, "no letter is cut in two"},
		{"recompute=full:" + strings.Repeat("x", 100) + ":2", []string{`method "` + strings.Repeat("x", 60) + `..."`}, "a long method is shortened"},
		{"tp0 vp4 offload=x sp=1", []string{"vp4", "tp 0", "sp=1", "offload=x"}, "everything at once"},
		{strings.Repeat("x", maxLayoutText+1), []string{"are read"}, "bounded"},
	} {
		_, err := Parse(c.text, d)
		if err == nil {
			t.Errorf("Parse(%q): no error (%s)", c.text, c.reason)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("Parse(%q) = %q, want %q in it (%s)", c.text, err, w, c.reason)
			}
		}
	}
	if _, err := Parse("tp0", d); !errors.Is(err, ErrSize) {
		t.Errorf("tp0 is a size error: %v", err)
	}
}

func drawLayout(t *rapid.T) Layout {
	size := rapid.IntRange(1, 8)
	l := Layout{
		Degrees: folding.Degrees{World: 64, TP: size.Draw(t, "tp"), CP: size.Draw(t, "cp"), PP: rapid.IntRange(1, 4).Draw(t, "pp"),
			EP: size.Draw(t, "ep"), ETP: size.Draw(t, "etp")},
		VPP: rapid.IntRange(1, 3).Draw(t, "vpp"), MicroBatchSize: size.Draw(t, "mbs"),
		GlobalBatchSize: rapid.SampledFrom([]int{64, 128, 2048, 1000}).Draw(t, "gbs"), SeqLength: rapid.SampledFrom([]int{1024, 4096, 5000}).Draw(t, "seq"),
		SequenceParallel: rapid.Bool().Draw(t, "sp"), Precision: Precision(rapid.IntRange(0, len(precisionNames)-1).Draw(t, "precision")),
		Dispatcher: Dispatcher(rapid.IntRange(0, len(dispatcherNames)-1).Draw(t, "dispatcher")), EPOverlap: rapid.Bool().Draw(t, "overlap"),
		Order: rapid.SampledFrom([]folding.Order{"", folding.TPPPDPOrder, "pp-tp-cp-ep-dp"}).Draw(t, "order"),
	}
	l.Split = drawSplit(t, l.PP, l.VPP)
	switch rapid.IntRange(0, 2).Draw(t, "granularity") {
	case 1:
		l.Recompute = SelectiveRecompute(Modules(rapid.IntRange(1, 1<<len(moduleNames)-1).Draw(t, "modules")))
	case 2:
		l.Recompute = Recompute{Granularity: Full, Block: rapid.Bool().Draw(t, "block"), NumLayers: size.Draw(t, "num_layers")}
	}
	return l
}

func TestLayoutRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		for _, text := range []string{l.String(), l.Key()} {
			back, err := Parse(text, Defaults{World: 64})
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if !sameLayout(l, back) {
				t.Fatalf("%q -> %+v, want %+v", text, back, l)
			}
		}
	})
}

func sameLayout(a, b Layout) bool {
	same := a.Split.Equal(b.Split)
	a.Split, b.Split = nil, nil
	return same && a == b
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"tp2 cp1 pp8 vpp4 ep32 etp1 mbs1 recompute=moe_act offload=none split=Et*5|(t*6|)*14t*5L", "recompute=full:block:3 order=tp-cp-ep-pp-dp sp=off"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text, Defaults{World: 64})
		if err != nil {
			return
		}
		back, err := Parse(l.String(), Defaults{World: 64})
		if err != nil || !sameLayout(l, back) {
			t.Fatalf("%q -> %q -> %v, %v", text, l, back, err)
		}
	})
}
