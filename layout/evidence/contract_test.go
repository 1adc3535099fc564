package evidence

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"pgregory.net/rapid"
)

// testLayout is the README's first plan.
func testLayout(t testing.TB) (*arch.Model, *layout.Layout) {
	t.Helper()
	m, err := arch.Lookup("qwen3-235b")
	if err != nil {
		t.Fatal(err)
	}
	l, err := layout.Parse("tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm split=Ett|(tt|)*46L", layout.Defaults{World: 256, Model: m})
	if err != nil {
		t.Fatal(err)
	}
	return m, &l
}

func testContract(t testing.TB) *Contract {
	c := NewContract(testLayout(t))
	c.Workload.Data, c.Workload.Checkpoint = "/data/corpus", "/ckpt"
	c.Judge()
	return c
}

func written(t testing.TB, c *Contract) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteContract(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestContractRoundTrip: what is written reads back the same, whatever stands in the fields.
func TestContractRoundTrip(t *testing.T) {
	base := testContract(t)
	rapid.Check(t, func(t *rapid.T) {
		c := *base
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab Z09:#'\"\\-_/.,{}[]&*!|>%@`~?=\tü漢")), 0, 30, -1)
		for i := range contractFields {
			e := &contractFields[i]
			switch v := e.into(&c).(type) {
			case *string:
				if len(e.choices) > 0 {
					*v = rapid.SampledFrom(e.choices).Draw(t, e.key)
				} else {
					*v = text.Draw(t, e.key)
				}
			case *int:
				if e.section != "measure" {
					*v = rapid.IntRange(0, 1<<20).Draw(t, e.key)
				}
			case *bool:
				*v = rapid.Bool().Draw(t, e.key)
			case *[]string:
				*v = rapid.SliceOfN(text, 0, 3).Draw(t, e.key)
				if len(*v) == 0 {
					*v = nil
				}
			}
		}
		c.Judge()
		var b bytes.Buffer
		if err := WriteContract(&b, &c); err != nil {
			t.Fatal(err)
		}
		got, err := ReadContract("c.yaml", &b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if d := cmp.Diff(&c, got); d != "" {
			t.Fatal(d)
		}
	})
}

func TestContractErrors(t *testing.T) {
	good := written(t, testContract(t))
	for _, tt := range []struct{ name, old, new, want, reason string }{
		{"unknown key", "  gpus: 256", "  gpu: 256", `c.yaml:20:3: unknown key "gpu" in hardware, did you mean gpus?`, "strict, with line, column and the nearest key"},
		{"unknown section", "hardware:", "hardwear:", `unknown key "hardwear", did you mean hardware?`, "a section that nobody reads would be silently lost"},
		{"twice", "  sku: \"\"", "  sku: \"\"\n  sku: \"\"", "", "YAML with a key twice has no meaning"},
		{"brackets", "  sku: \"\"", "  sku: " + strings.Repeat("[", 30_000), "nested too deeply", "the parser takes gigabytes over 200,000 of them"},
		{"large", "  sku: \"\"", "  sku: \"" + strings.Repeat("x", maxContract) + "\"", "at most 64 KiB", "the parser takes seconds over a MiB"},
		{"missing", "  sku: \"\"\n", "", "lacks the key sku", "a field that is left out is not frozen"},
		{"kind", "  gpus: 256", "  gpus: many", `gpus: "many"`, "a count"},
		{"text for a number", "  gpus: 256", "  gpus: \"256\"", `want a plain value`, "kinds are not guessed"},
		{"choice", "  routing: \"learned\"", "  routing: \"lerned\"", `"lerned" is none of learned forced none`, "only semantics that are known"},
		{"variable", "variable: \"\"", "variable: layout.dispatcher", "did you mean layout.moe_token_dispatcher?", "the variable is a field"},
		{"measure as variable", "variable: \"\"", "variable: measure.window_last", "no variable of the run", "a window changes no run"},
		{"base without variable", "base: \"\"", "base: \"alltoall\"", "variable is blank", "a value of nothing"},
		{"no change", "variable: \"\"\nbase: \"\"", "variable: layout.moe_token_dispatcher\nbase: alltoall", "in both runs", "a variable varies"},
		{"label", "  routing: \"learned\"", "  routing: \"forced\"", "candidate: training-equivalent, but workload.routing forced", "forced balancing is a benchmark"},
		{"label of mock data", "\"/data/corpus\"", "\"mock\"", "no data is read", "mock data is a benchmark"},
		{"window", "  window_first: 6", "  window_first: 3", "after the 5 warm-up iterations", "warm-up never counts"},
		{"anchor", "  gpus: 256", "  gpus: &a 256", "want one value, found anchor", "anchors are not resolved"},
		{"no mapping", good, "[1, 2]", "is no contract", "a list"},
		{"empty", good, "", "is no contract", "nothing"},
		{"deep", "  sku: \"\"", "  sku: " + strings.Repeat("[", 5000), "", "a bomb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(good, tt.old, tt.new, 1)
			if text == good {
				t.Fatal("the case changes nothing")
			}
			_, err := ReadContract("c.yaml", strings.NewReader(text))
			var at *ContractError
			if !errors.As(err, &at) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q: %s", err, tt.want, tt.reason)
			}
		})
	}
}

// TestContractFields: every leaf of the type is in the table, so that nothing is left unwritten.
func TestContractFields(t *testing.T) {
	c := &Contract{}
	at := map[any]bool{}
	for i := range contractFields {
		p := contractFields[i].into(c)
		if at[p] {
			t.Errorf("%s is another field's place", contractFields[i].path())
		}
		at[p] = true
	}
	leaves := 0
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Struct {
			leaves += v.Field(i).NumField()
		}
	}
	if leaves != len(contractFields) {
		t.Errorf("%d leaves, %d fields in the table", leaves, len(contractFields))
	}
}

func TestJudge(t *testing.T) {
	c := testContract(t)
	if c.Candidate != TrainingEquivalent {
		t.Fatalf("%s: %v", c.Candidate, c.Reasons)
	}
	for path, value := range map[string]string{"workload.routing": "forced", "workload.data_path": "mock", "workload.optimizer": "none", "workload.save": "none"} {
		d := *c
		if err := d.Set(path, value); err != nil {
			t.Fatal(err)
		}
		if d.Judge(); d.Candidate != BenchmarkOnly || len(d.Reasons) != 1 || !strings.Contains(d.Reasons[0], path) {
			t.Errorf("%s %s: %s %v", path, value, d.Candidate, d.Reasons)
		}
	}
}

func FuzzReadContract(f *testing.F) {
	f.Add(written(f, testContract(f)))
	f.Add("variable: [\n")
	f.Add("software: {a: *b}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ReadContract("fuzz", strings.NewReader(text))
		if err != nil {
			return
		}
		again, err := ReadContract("again", strings.NewReader(written(t, c)))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.Layout, again.Layout); d != "" {
			t.Fatal(d)
		}
	})
}
