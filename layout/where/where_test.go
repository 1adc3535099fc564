package where

import (
	"strings"
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
)

func example() *layout.Layout {
	return &layout.Layout{
		Degrees: folding.Degrees{World: 256, TP: 2, CP: 1, PP: 8, EP: 32, ETP: 1},
		VPP:     4, MicroBatchSize: 1, GlobalBatchSize: 2048, SeqLength: 4096,
		Recompute: layout.SelectiveRecompute(layout.MoEAct),
	}
}

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		text   string
		want   bool
		reason string
	}{
		{"tp <= 4 && ep*etp <= 8", false, "EP is 32"},
		{"tp <= 4 && ep*etp <= 32", true, "the example of the issue, wider"},
		{"dp == 16 and edp == 1 and m == 128", true, "derived sizes"},
		{`recompute == "moe_act"`, true, "recompute is text"},
		{`recompute contains "layernorm"`, false, "operators on text work"},
		{"pp in [4, 8]", true, "lists"},
		{"gpus % (tp*cp*pp) == 0", true, "arithmetic"},
		{"seq in 1..1000000", true, "a range between constants is a comparison and lists nothing"},
	} {
		p, err := Compile(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := p.Holds(example()); got != c.want || p.Err() != nil {
			t.Errorf("%s: %v, want %v (%s), error %v", c.text, got, c.want, c.reason, p.Err())
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, want, reason string }{
		{"tq <= 4", "tq", "an unknown name is named, and the known ones listed"},
		{"tp", "bool", "a number is no condition"},
		{"", "", "nothing is no condition"},
		{"tp <=", "", "half an expression"},
		{`len("aaaa") > 1`, "len", "no built-in functions"},
		{"all(1..1000000000, # > 0)", "", "no loops"},
		{strings.Repeat("tp+", 1000) + "1 > 0", "", "too long"},
	} {
		_, err := Compile(c.text)
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: error %v, want one line with %q (%s)", c.text, err, c.want, c.reason)
		}
	}
}

// FuzzCompile: no text panics or runs on.
func FuzzCompile(f *testing.F) {
	f.Add("tp <= 4 && ep*etp <= 8")
	f.Add("1 .. 9")
	f.Add("((((")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := Compile(text); err == nil {
			p.Holds(example())
		}
	})
}

// A condition that cannot be evaluated on a layout does not hold there, and is not forgotten.
func TestCannotBeEvaluated(t *testing.T) {
	for _, c := range []struct{ text, want, reason string }{
		{"ep % (tp-2) == 0", "divide by zero", "a remainder by 0"},
		{"(1..900000) != [tp]", "memory budget", "a search would make this list for every layout, minutes in all"},
		{"tp in tp..900000", "memory budget", "ends that are not constants are listed too"},
	} {
		p, err := Compile(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if p.Holds(example()) {
			t.Errorf("%s holds (%s)", c.text, c.reason)
		}
		if p.Err() == nil || !strings.Contains(p.Err().Error(), "tp2 cp1 pp8") || !strings.Contains(p.Err().Error(), c.want) {
			t.Errorf("%s: error %v, want the layout and %q (%s)", c.text, p.Err(), c.want, c.reason)
		}
	}
}
