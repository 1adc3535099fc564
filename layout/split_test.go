package layout

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/moeplan/moeplan/layout/arch"
)

func model(t testing.TB, name string) *arch.Model {
	t.Helper()
	m, err := arch.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestParseSplit(t *testing.T) {
	for _, c := range []struct {
		text    string
		pp, mtp int
		want    string // String of the result; "" for an error
		vpp     int
		rule    RuleID // of the first violation
		reason  string
	}{
		{"Et*94L", 1, 0, "Et*94L", 1, "", "one stage"},
		{"Et*5|t*6|t*6|t*5L", 4, 0, "Et*5|t*6|t*6|t*5L", 1, "", "two equal cells are shorter unfolded"},
		{"Et*5|(t*6|)*14t*5L", 8, 0, "Et*5|(t*6|)*14t*5L", 2, "", "x*N inside a group"},
		{"Et*4|(tttt|)*14tmL", 8, 1, "Et*4|(t*4|)*14tmL", 2, "", "DeepSeek-V3 as NVIDIA publishes it"},
		{"Et*3|(tt|)*29,m|L", 16, 1, "Et*3|(tt|)*29m|L", 2, "", "commas vanish; MTP on a rank of its own"},
		{"Et|t||tttt|L,", 5, 0, "Et|t||t*4|L", 1, "", "an empty stage is allowed"},
		{"E|*3t*4L", 4, 0, "E|||t*4L", 1, "", "| may be repeated like any character"},
		{"Et*0t*02|L", 2, 0, "Ett|L", 1, "", "zero and leading zeros are numbers"},
		{"|Et*8|t*8|L", 4, 0, "E|t*8|t*8|L", 1, "", "embedding is built on the first stage, wherever E stands"},
		{"Et*8x|L", 2, 0, "", 0, "split-symbols", "x is no layer"},
		{"Et*8 |L", 2, 0, "", 0, "split-symbols", "no white space"},
		{"(Ett)|L", 2, 0, "", 0, "split-symbols", "a group needs *N"},
		{"E((t|)*2)*2L", 5, 0, "", 0, "split-symbols", "groups do not nest"},
		{"Et*2*3L", 1, 0, "", 0, "split-symbols", "t*2 is replaced, *3 stays"},
		{"Et*99999999999999999999L", 1, 0, "", 0, "split-symbols", "bounded"},
		{"E(t*9999)*9999L", 1, 0, "", 0, "split-symbols", "bounded also when both repeat"},
		{"Et|t|L", 2, 0, "", 0, "split-stages", "3 stages on PP 2"},
		{"tE|L", 2, 0, "", 0, "split-ends", "E comes first"},
		{"Et|t", 2, 0, "", 0, "split-ends", "no loss"},
		{"EtE|tL", 2, 0, "", 0, "split-ends", "two E"},
		{"", 1, 0, "", 0, "split-ends", "empty text is one empty stage"},
		{"Et|tmL", 2, 0, "", 0, "split-layer-count", "an m without MTP in the model"},
		{"Et|tL", 2, 1, "", 0, "split-layer-count", "the model's m is missing"},
		{"Et|tmtL", 2, 1, "", 0, "split-mtp-after-decoders", "t after m"},
		{"Et|tm|t|tL", 2, 1, "", 0, "split-mtp-after-decoders", "t after m in a later cell"},
		{"Et|t|m|mL", 2, 2, "", 0, "split-mtp-chunk", "m in two cells"},
		{"Et|tm||L", 2, 1, "", 0, "split-mtp-chunk", "m in the first of two chunks"},
	} {
		s, err := ParseSplit(c.text, c.pp, c.mtp)
		if c.want == "" {
			var vs Violations
			if !errors.As(err, &vs) || vs[0].Rule != c.rule {
				t.Errorf("ParseSplit(%q, %d, %d) = %v, want a violation of %s (%s)", c.text, c.pp, c.mtp, err, c.rule, c.reason)
			}
			continue
		}
		if err != nil {
			t.Errorf("ParseSplit(%q, %d, %d): %v (%s)", c.text, c.pp, c.mtp, err, c.reason)
			continue
		}
		if s.String() != c.want || s.VPP != c.vpp || s.PP != c.pp {
			t.Errorf("ParseSplit(%q, %d, %d) = %q PP %d VPP %d, want %q VPP %d (%s)", c.text, c.pp, c.mtp, s, s.PP, s.VPP, c.want, c.vpp, c.reason)
		}
	}
	if _, err := ParseSplit("EL", 0, 0); !errors.Is(err, ErrSize) {
		t.Errorf("pp 0: %v, want ErrSize", err)
	}
}

// TestEvenSplit compares with the formula of the framework's documentation: chunk c of rank r starts at
// c*(L/v) + r*(L/(pp*v)).
func TestEvenSplit(t *testing.T) {
	for _, c := range []struct {
		name    string
		pp, vpp int
	}{{"llama3.1-70b", 8, 2}, {"qwen3-30b-a3b", 4, 3}, {"glm-4.5", 4, 1}, {"llama3.1-405b", 1, 1}} {
		m := model(t, c.name)
		s := EvenSplit(m, c.pp, c.vpp)
		if s == nil || !s.IsEven(m) {
			t.Fatalf("%s pp%d vpp%d: %v is not even", c.name, c.pp, c.vpp, s)
		}
		for r := range c.pp {
			for v := range c.vpp {
				first := v*(m.NumLayers/c.vpp) + r*(m.NumLayers/(c.pp*c.vpp))
				last := r == c.pp-1 && v == c.vpp-1
				want := Cell{Embedding: r == 0 && v == 0, First: first, Decoders: m.NumLayers / (c.pp * c.vpp), Loss: last}
				if last {
					want.MTP = m.MTPNumLayers
				}
				if got := s.Cell(r, v); got != want {
					t.Errorf("%s rank %d chunk %d: %+v, want %+v", c.name, r, v, got, want)
				}
			}
		}
	}
	if s := EvenSplit(model(t, "qwen3-235b-a22b"), 8, 1); s != nil {
		t.Errorf("94 layers on PP 8: %v, want nil", s)
	}
}

func TestBalancedSplit(t *testing.T) {
	for _, c := range []struct {
		name    string
		pp, vpp int
		want    string
		reason  string
	}{
		{"deepseek-v3", 4, 4, "Et*4|(t*4|)*14tmL", "published: Et*4|(t*4|)*14tmL"},
		{"deepseek-v3", 8, 2, "Et*4|(t*4|)*14tmL", "published: Et*4|(tttt|)*14tmL"},
		{"deepseek-v3", 8, 4, "Ett|(tt|)*22t|(tt|)*7mL", "published: Et*2|(tt|)*22t|(tt|)*7mL"},
		{"deepseek-v3", 16, 1, "Et*4|(t*4|)*14tmL", "the last rank carries MTP and two output layers, 3.5 layers' worth"},
		{"deepseek-v3", 16, 2, "Ett|(tt|)*14t|(tt|)*15mL", "the same rank counts as without VPP"},
		{"kimi-k2", 16, 2, "Et|(tt|)*30L", "published: Et|(tt|)*30L"},
		{"llama3.1-405b", 16, 1, "Et*7|(t*8|)*14t*7L", "126 = 16*8 - 2, the split of the Llama 3 report"},
		{"llama3.1-405b", 8, 1, "Et*15|(t*16|)*6t*15L", "126 = 8*16 - 2"},
		{"qwen3-235b-a22b", 8, 1, "Et*12|(t*12|)*6t*10L", "the output layer costs 2.1 layers: 10 + 2.1 against 12"},
		{"qwen3-235b-a22b", 8, 2, "Et*6|(t*6|)*14t*4L", "fewer layers on the chunk with the loss"},
		{"qwen3-235b-a22b", 8, 4, "Et*3|(t*3|)*30tL", "same"},
		{"qwen3-235b-a22b", 8, 12, "E|(t|)*94L", "96 cells, none empty"},
		{"llama3.1-70b", 8, 1, "Et*10|(t*10|)*6t*10L", "even is within the tolerance: 11.2 against 11"},
		{"llama3.1-70b", 16, 1, "Et*5|(t*5|)*14t*5L", "even is within the tolerance: 6.2 against 6"},
		{"qwen3-30b-a3b", 4, 1, "Et*13|(t*13|)*2t*9L", "even would cost 16.1 against 13.1"},
		{"mixtral-8x7b", 1, 1, "Et*32L", "one rank"},
	} {
		m := model(t, c.name)
		if got := BalancedSplit(m, c.pp, c.vpp); got == nil || got.String() != c.want {
			t.Errorf("BalancedSplit(%s, %d, %d) = %v, want %s (%s)", c.name, c.pp, c.vpp, got, c.want, c.reason)
		}
	}
}

// TestBalancedSplitLaws: every proposal for every catalogue model is legal text, holds C or C-1 layers on all ranks but
// the last (and the first where its dense layers differ), and leaves no chunk empty where the layers suffice.
func TestBalancedSplitLaws(t *testing.T) {
	for _, m := range arch.All() {
		if m.Kind == arch.Hybrid {
			continue
		}
		w := weigh(m)
		for pp := 1; pp <= 64; pp++ {
			for _, vpp := range []int{1, 2, 3, 4, 6, 8, 12} {
				s := BalancedSplit(m, pp, vpp)
				if (s == nil) != (pp*vpp > m.NumLayers+2+m.MTPNumLayers) {
					t.Fatalf("%s pp%d vpp%d: %v", m.ID, pp, vpp, s)
				}
				if s == nil {
					continue
				}
				if vs := CheckSplit(s.String(), pp, m.NumLayers, m.MTPNumLayers); len(vs) > 0 {
					t.Fatalf("%s pp%d vpp%d %s: %v", m.ID, pp, vpp, s, vs)
				}
				empty := 0
				for i := range s.Cells {
					if c := s.Cells[i]; c.Decoders == 0 && c.MTP == 0 && !c.Loss && !c.Embedding {
						empty++
					}
				}
				if empty > 0 && m.NumLayers+2 >= pp*vpp {
					t.Errorf("%s pp%d vpp%d: %d empty cells in %s", m.ID, pp, vpp, empty, s)
				}
				if pp < 3 || s.IsEven(m) || m.NumLayers+2 < pp*(vpp+1) {
					continue
				}
				var counts []int
				for r := range pp - 1 {
					counts = append(counts, s.Decoders(r))
				}
				if len(w.dense) > 0 {
					counts = counts[1:]
				}
				if slices.Max(counts)-slices.Min(counts) > 1 {
					t.Errorf("%s pp%d vpp%d: ranks %v in %s", m.ID, pp, vpp, counts, s)
				}
			}
		}
	}
}

func TestSplitRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSplit(t, rapid.IntRange(1, 5).Draw(t, "pp"), rapid.IntRange(1, 4).Draw(t, "vpp"))
		text := s.String()
		back, err := ParseSplit(text, s.PP, s.NumMTP())
		if err != nil || !s.Equal(back) {
			t.Fatalf("%q -> %v, %v", text, back, err)
		}
		plain := 0
		for i := range s.Cells {
			plain += len(s.Cells[i].appendText(nil)) + 1
		}
		if len(text) > plain-1 {
			t.Fatalf("%q is longer than its unfolded form", text)
		}
	})
}

// drawSplit draws a split that ParseSplit can express.
func drawSplit(t *rapid.T, pp, vpp int) *Split {
	s := &Split{PP: pp, VPP: vpp, Cells: make([]Cell, pp*vpp)}
	first := 0
	for i := range s.Cells {
		n := rapid.IntRange(0, 4).Draw(t, "layers")
		if i > 0 && rapid.Bool().Draw(t, "same") {
			n = s.Cells[i-1].Decoders
		}
		s.Cells[i] = Cell{First: first, Decoders: n}
		first += n
	}
	s.Cells[0].Embedding = true
	s.Cells[len(s.Cells)-1].Loss = true
	s.Cells[len(s.Cells)-1].MTP = rapid.IntRange(0, 2).Draw(t, "mtp")
	return s
}

func FuzzParseSplit(f *testing.F) {
	for _, text := range []string{"Et*5|(t*6|)*14t*5L", "Et|(tt|)*30mL", "E((t|)*2)*2L", "|Et*8|t*8|L", "Et*3|(tt|)*29,m|L", "(*9)*9", "|*65536"} {
		f.Add(text, 2)
	}
	f.Fuzz(func(t *testing.T, text string, pp int) {
		s, err := ParseSplit(text, pp, -1)
		if err != nil {
			return
		}
		again, err := ParseSplit(s.String(), pp, s.NumMTP())
		if err != nil || !s.Equal(again) {
			t.Fatalf("%q -> %q -> %v, %v", text, s, again, err)
		}
	})
}

// TestParseSplitIsBounded: the worst texts of the permitted length stay cheap.
func TestParseSplitIsBounded(t *testing.T) {
	for _, text := range []string{strings.Repeat("(", maxSplitText), strings.Repeat("(t)*9", maxSplitText/5), "E" + strings.Repeat("|", maxSplitText-2) + "L"} {
		CheckSplit(text, 1, -1, -1)
	}
}
