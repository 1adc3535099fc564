package megatron

import (
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"pgregory.net/rapid"
)

// drawLaunch makes a command line of flags that rules know, with sizes and texts that break them.
func drawLaunch(t *rapid.T) (argv []string, world int, env map[string]string, o CheckSettings, r Release) {
	base := rapid.SampledFrom([]byte("DEMH-")).Draw(t, "base")
	argv = strings.Fields(bases[base])
	sizes := rapid.SampledFrom([]string{"0", "1", "2", "3", "4", "6", "8", "64", "-1", "1048576", "4611686018427387904", "9223372036854775807", "-9223372036854775808"})
	texts := rapid.SampledFrom([]string{"Et*4|t*4L", "E(t|)*9999999L", "|", "", "EL", "m|L", "M*|ME/*E", "////", "M|", "([0]*2+[1]*2)", "[2]*8", "[0]*3", "-1", "127,0", "p2p",
		"a2a+p2p", "a2a", "core_attn", "moe", "moe_act", "attn", "full_iteration", "aux_loss", "sinkhorn", "torch_dcp", "0.5", "-1.0", "nan", "inf", "1e300"})
	for range rapid.IntRange(0, 14).Draw(t, "flags") {
		if rapid.Bool().Draw(t, "of a case") {
			c := rapid.SampledFrom(ruleCases).Draw(t, "case")
			for _, w := range strings.Fields(c.breaks[1:] + " " + c.holds) {
				if short := shortWord.FindStringSubmatch(w); short != nil && shortWords[short[1]] != "" {
					argv = append(argv, shortWords[short[1]], short[2])
				} else if !strings.ContainsAny(w, "~@=") {
					argv = append(argv, w)
				}
			}
			continue
		}
		o := rapid.SampledFrom(Options(Main)).Draw(t, "option")
		argv = append(argv, o.Name)
		for range o.MinValues {
			switch {
			case o.Choices != nil:
				argv = append(argv, rapid.SampledFrom(o.Choices).Draw(t, "choice"))
			case o.Type == Integer || o.Type == Number:
				argv = append(argv, sizes.Draw(t, "size"))
			default:
				argv = append(argv, texts.Draw(t, "text"))
			}
		}
	}
	world = rapid.OneOf(rapid.SampledFrom([]int{1, 2, 8, 24, 64, 256}), rapid.IntRange(1, layout.MaxSize)).Draw(t, "world")
	switch rapid.IntRange(0, 2).Draw(t, "environment") {
	case 0:
		env = map[string]string{connections: "1"}
	case 1:
		env = map[string]string{"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
	}
	o = CheckSettings{Checks: rapid.SampledFrom([]Checks{Normal, Recorder, RecorderExtra}).Draw(t, "checks"), ComputeCapability: rapid.IntRange(0, 10).Draw(t, "capability"),
		TransformerEngine: rapid.SampledFrom([]string{"", "2.9.0", "1.0", "2.14.0.dev0+abc", "x", "..", "99999999999.1"}).Draw(t, "te")}
	r = Release{uint8(rapid.IntRange(0, len(releases)).Draw(t, "release"))}
	return argv, world, env, o, r
}

// checkLegality: whatever a command line says, judging it never panics, its violations are complete, come in firing order, and
// each repair does what it says.
func checkLegality(t *rapid.T) {
	argv, world, env, o, r := drawLaunch(t)
	o.NoRepairs = rapid.IntRange(0, 3).Draw(t, "repairs") > 0
	resolved, vs, err := CheckArgv(argv, r, world, env, o)
	if err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, v := range vs {
		if v.Message == "" || v.Repairs == nil || v.Source == "" || strings.Contains(v.Message, "%!") {
			t.Fatalf("%q: %+v", argv, v)
		}
		i := slices.Index(firingOrder, v.Rule)
		if i < 0 {
			continue // the parser's
		}
		if i < last && !slices.ContainsFunc(layerwiseRules(), func(r *rule) bool { return r.ID == v.Rule }) {
			t.Fatalf("%q: %s comes too late", argv, v.Rule)
		}
		last = max(last, i)
	}
	again := Check(resolved, o)
	if len(again) > 0 && again[0].Message != vs[len(vs)-len(again)].Message {
		t.Fatalf("%q: not the same twice: %v and %v", argv, again, vs)
	}
}

func TestLegalityIsTotal(t *testing.T) { rapid.Check(t, checkLegality) }

func FuzzLegality(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkLegality)) }

// Any words at all are judged, too.
func FuzzLegalityOfWords(f *testing.F) {
	f.Add("--num-layers\x008\x00--pipeline-model-parallel-size\x000", 8)
	f.Add(strings.ReplaceAll(bases['E'], " ", "\x00")+"\x00--moe-layer-freq\x00[1]*8", 64)
	f.Fuzz(func(t *testing.T, words string, world int) {
		argv := strings.Split(words, "\x00")
		_, vs, err := CheckArgv(argv, Main, world, nil, CheckSettings{NoRepairs: true})
		if (err != nil) != (world < 1 || world > layout.MaxSize) {
			t.Fatal(err)
		}
		for _, v := range vs {
			if v.Message == "" {
				t.Fatalf("%q: %+v", argv, v)
			}
		}
	})
}

// Every offered repair of a command line that breaks several rules clears its violation and brings no other error; where it
// was the only one the command line is legal then.
func checkRepairs(t *rapid.T) {
	first := rapid.SampledFrom(ruleCases).Draw(t, "case")
	words := first.breaks
	for range rapid.IntRange(0, 2).Draw(t, "more") {
		if c := rapid.SampledFrom(ruleCases).Draw(t, "case"); c.breaks[0] == words[0] {
			words += c.breaks[1:]
		}
	}
	argv, world, env, r, o := launchOf(t, words)
	settings, err := Parse(argv, r)
	if err != nil {
		return
	}
	resolved, err := Resolve(settings, world, env)
	if err != nil {
		t.Fatal(err)
	}
	c := newLaunch(resolved, &o)
	found := c.broken()
	before := map[layout.RuleID]bool{}
	for _, f := range found {
		if c.severity(f.rule) == layout.Error {
			before[f.rule.ID] = true
		}
	}
	p := newRepairer(c, found)
	for _, f := range found {
		for _, edits := range p.editsOf(f) {
			changed, ok := resolved.apply(edits)
			if !ok {
				t.Fatalf("%s cannot be made", repairText(edits))
			}
			d := newLaunch(changed, &o)
			for _, g := range d.broken() {
				if d.severity(g.rule) == layout.Error && (g.rule.ID == f.rule.ID || !before[g.rule.ID]) {
					t.Fatalf("%q: %s, repaired by %s, leaves %s", words, f.rule.ID, repairText(edits), g.rule.ID)
				}
			}
		}
	}
}

func TestRandomRepairs(t *testing.T) { rapid.Check(t, checkRepairs) }

func FuzzRepairs(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkRepairs)) }

// Every error of the table of cases has a repair, and where it is the only error the repair leaves a legal command line.
func TestCasesAreRepaired(t *testing.T) {
	alone, without := 0, []layout.RuleID{}
	for i := range ruleCases {
		argv, world, env, r, o := launchOf(t, ruleCases[i].breaks)
		o.NoRepairs = false
		resolved, vs, err := CheckArgv(argv, r, world, env, o)
		if err != nil {
			t.Fatal(err)
		}
		errs := vs.Errors()
		for _, v := range errs {
			if len(v.Repairs) == 0 && v.Rule != "required-flags" { // nobody can say what is missing
				without = append(without, v.Rule)
			}
		}
		if len(errs) != 1 {
			continue
		}
		alone++
		c := newLaunch(resolved, &o)
		found := c.broken()
		p := newRepairer(c, found)
		for _, f := range found {
			if f.rule.ID != errs[0].Rule {
				continue
			}
			for _, edits := range p.editsOf(f) {
				changed, _ := resolved.apply(edits)
				if after := Check(changed, o).Errors(); len(after) > 0 {
					t.Errorf("%q: %s leaves %v", ruleCases[i].breaks, repairText(edits), after)
				}
			}
		}
	}
	t.Logf("%d cases, %d with a single error; no repair for %v", len(ruleCases), alone, without)
	if len(without) > 0 {
		t.Errorf("no repair for %v", without)
	}
}
