package megatron

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// load reads a file of testdata. Its header says where it comes from.
func load(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// same compares a value with what Python holds, as JSON.
func same(v Value, python any) bool {
	switch p := python.(type) {
	case nil:
		return v.IsNone()
	case bool:
		return v.Bool() == p && v.isSwitch
	case float64:
		return len(v.ints) == 1 && !v.list && float64(v.Int()) == p
	case string:
		if len(v.floats) == 1 && !v.list {
			f, err := strconv.ParseFloat(p, 64)
			return err == nil && (f == v.Float() || math.IsNaN(f) && math.IsNaN(v.Float()))
		}
		return v.Text() == p && !v.list
	case []any:
		switch {
		case !v.list:
			return false
		case len(v.ints) > 0 || len(p) == 0:
			return slices.EqualFunc(v.ints, p, func(n int, x any) bool { return float64(n) == x })
		case len(v.floats) > 0:
			return slices.EqualFunc(v.floats, p, func(f float64, x any) bool {
				g, err := strconv.ParseFloat(x.(string), 64)
				return err == nil && (f == g || math.IsNaN(f) && math.IsNaN(g))
			})
		}
		return slices.EqualFunc(v.texts, p, func(s string, x any) bool { return s == x })
	}
	return false
}

// The reader agrees with Python's own argparse on random command lines, accepted or not, and on every value.
func TestParseAgreesWithArgparse(t *testing.T) {
	var file struct {
		Cases []struct {
			Release string
			Argv    []string
			Values  map[string]any
		}
	}
	load(t, "argparse.json", &file)
	accepted := 0
	for i, c := range file.Cases {
		s, err := Parse(c.Argv, mustRelease(c.Release))
		if (err == nil) != (c.Values != nil) {
			t.Errorf("case %d: %s %q: argparse accepts: %v, here: %v", i, c.Release, c.Argv, c.Values != nil, err)
			continue
		}
		if err != nil {
			continue
		}
		accepted++
		for dest, want := range c.Values {
			if got := s.Value(dest); !same(got, want) {
				t.Errorf("case %d: %s %q: %s is %v, argparse holds %v", i, c.Release, c.Argv, dest, got, want)
			}
		}
	}
	t.Logf("%d command lines, %d accepted", len(file.Cases), accepted)
}

func TestParseProblems(t *testing.T) {
	for _, c := range []struct {
		release, argv string
		kind          ProblemKind
		repair        string
		reason        string
	}{
		{"main", "--fake-init-process-group", UnknownFlag, "--fake-process-group", "documents spread this spelling, no parser has it"},
		{"main", "--tensor-model-parallel-siz 2", UnknownFlag, "--tensor-model-parallel-size", "allow_abbrev is False"},
		{"main", "--tensor_model_parallel_size 2", UnknownFlag, "--tensor-model-parallel-size", "underscores are ms-swift's"},
		{"0.12.3", "--fake-process-group", NotYet, "", "it came with 0.16.1"},
		{"0.14.0", "--use-custom-fsdp", Gone, "--use-megatron-fsdp", "renamed at 0.14.0"},
		{"0.18.2", "--use-legacy-models", Gone, "", "removed at 0.18.2 without successor"},
		{"main", "--micro-batch-size x", BadType, "", "int"},
		{"main", "--micro-batch-size 1.0", BadType, "", "Python's int refuses a point"},
		{"main", "--lr 1e", BadType, "", "float"},
		{"main", "--moe-layer-freq [0]*3+", BadType, "", "a broken list expression"},
		{"main", "--window-size 128", "", "", "one number is a tuple of one"},
		{"main", "--fp8-format e5m2", BadChoice, "e4m3", "choices of main"},
		{"0.13.1", "--moe-token-dispatcher-type alltoall_seq", BadChoice, "alltoall", "gone at 0.13.1"},
		{"0.11.0", "--moe-token-dispatcher-type flex", BadChoice, "", "came with 0.12.3"},
		{"main", "--num-layers", MissingValue, "", "nothing follows"},
		{"main", "--num-layers --bf16", MissingValue, "", "a flag is no value"},
		{"main", "--recompute-modules", MissingValue, "", "nargs + since 0.16.1"},
		{"0.15.3", "--recompute-modules", "", "", "nargs * before"},
		{"main", "--rampup-batch-size 1 2", MissingValue, "", "exactly three since 0.16.1"},
		{"main", "--bf16=true", UnexpectedValue, "--bf16", "a switch"},
		{"main", "--bf16 true", Stray, "", "a switch takes nothing, so the word is left over"},
		{"main", "--lr -1e-4", MissingValue, "", "argparse knows no exponent in a negative number"},
		{"main", "--inference-batch-times-seqlen-threshold -1", "", "", "a negative number is a value"},
		{"main", "--lr=-1e-4", "", "", "attached, it is"},
		{"main", "-h", HelpAsked, "", "prints and exits"},
		{"0.17.0", "--verify-integrity", NotYet, "", "0.17.0 lacks four flags of 0.17.1"},
	} {
		_, err := Parse(strings.Fields(c.argv), mustRelease(c.release))
		if c.kind == "" {
			if err != nil {
				t.Errorf("%s %s: %v (%s)", c.release, c.argv, err, c.reason)
			}
			continue
		}
		var ps Problems
		if !errors.As(err, &ps) || !errors.Is(err, ErrArguments) {
			t.Errorf("%s %s: error %v is no Problems (%s)", c.release, c.argv, err, c.reason)
			continue
		}
		if ps[0].Kind != c.kind || c.repair != "" && ps[0].Repair != c.repair {
			t.Errorf("%s %s: %+v, want %s and repair %q (%s)", c.release, c.argv, ps[0], c.kind, c.repair, c.reason)
		}
	}
}

func TestParseReportsAllProblems(t *testing.T) {
	_, err := Parse(strings.Fields("stray --num-layers x --no-such 1 2 --fp8-format e5m2 --bf16 --hidden-size"), Main)
	var ps Problems
	if !errors.As(err, &ps) {
		t.Fatal(err)
	}
	var kinds []string
	for _, p := range ps {
		kinds = append(kinds, fmt.Sprintf("%s@%d", p.Kind, p.Word))
	}
	if got, want := strings.Join(kinds, " "), "stray@0 bad-type@1 unknown-flag@3 bad-choice@6 missing-value@9"; got != want {
		t.Errorf("problems %s, want %s", got, want)
	}
}

func TestSettings(t *testing.T) {
	s, err := Parse(strings.Fields("--tensor-model-parallel-size 2 --tensor-model-parallel-size=4 --recompute-modules moe layernorm --no-tp-comm-bulk-wgrad --moe-layer-freq ([0]*1+[1]*3) --lr 1e-4"), Main)
	if err != nil {
		t.Fatal(err)
	}
	if s.Int("tensor_model_parallel_size") != 4 {
		t.Error("the last of repeated flags wins")
	}
	if got := s.Strings("recompute_modules"); !slices.Equal(got, []string{"moe", "layernorm"}) {
		t.Error("modules", got)
	}
	if s.Bool("tp_comm_bulk_wgrad") || !s.Bool("tp_comm_bulk_dgrad") {
		t.Error("--no-x turns off what is on by default")
	}
	if v := s.Value("moe_layer_freq"); !v.IsList() || !slices.Equal(v.Ints(), []int{0, 1, 1, 1}) {
		t.Error("frequency", v)
	}
	if s.Float("lr") != 1e-4 || s.Float("hidden_dropout") != 0.1 {
		t.Error("numbers, given and default")
	}
	if !s.IsNone("expert_tensor_parallel_size") || s.IsGiven("hidden_dropout") || !s.IsGiven("lr") {
		t.Error("None and given")
	}
	var given []string
	for g := range s.Given() {
		given = append(given, g.Option.Name)
	}
	if got := strings.Join(given, " "); got != "--tensor-model-parallel-size --moe-layer-freq --recompute-modules --no-tp-comm-bulk-wgrad --lr" &&
		len(given) != 5 {
		t.Error("given, in table order:", got)
	}
	if !slices.IsSortedFunc(given, func(a, b string) int { return table().byName[a] - table().byName[b] }) {
		t.Error("not in table order:", given)
	}
	defer func() {
		if recover() == nil {
			t.Error("a dest that no release has must be a bug")
		}
	}()
	s.Int("tensor_model_paralel_size")
}

// words draws command lines of everything that could confuse a reader.
func words(t *rapid.T) []string {
	var pool []string
	for _, o := range Options(Main) {
		pool = append(pool, o.Spellings...)
	}
	flag := rapid.SampledFrom(pool)
	word := rapid.OneOf(flag, flag, rapid.Custom(func(t *rapid.T) string {
		return flag.Draw(t, "flag") + "=" + rapid.String().Draw(t, "attached")
	}), rapid.SampledFrom([]string{"--", "-1", "1", "2", "-", "", "([0]*3+[1]*58)", "[0]*99999999", "Et*2|L", "p2p", "-1e5", "9999999999999999999999", "--=", "-h"}),
		rapid.String())
	return rapid.SliceOfN(word, 0, 40).Draw(t, "argv")
}

func checkParse(t *rapid.T) {
	r := Release{uint8(rapid.IntRange(0, len(releases)).Draw(t, "release"))}
	argv := words(t)
	s, err := Parse(argv, r)
	if (s == nil) == (err == nil) {
		t.Fatalf("%q: settings %v and error %v", argv, s, err)
	}
	if err != nil {
		if text := err.Error(); text == "" || len(text) > 1000*(len(argv)+1) {
			t.Fatalf("%q: error of %d bytes", argv, len(text))
		}
		return
	}
	for set := range s.All() {
		_ = set.Value.String()
	}
}

func TestParseNeverPanics(t *testing.T) { rapid.Check(t, checkParse) }

func FuzzParse(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkParse)) }

// FuzzParseBytes reads one word a line.
func FuzzParseBytes(f *testing.F) {
	f.Add("--num-layers\n4\n--bf16", uint8(0))
	f.Add("--moe-layer-freq\n([0]*3+[1]*58)\n--recompute-modules=moe", uint8(9))
	f.Fuzz(func(t *testing.T, text string, place uint8) {
		s, err := Parse(strings.Split(text, "\n"), Release{place % uint8(len(releases)+1)})
		if (s == nil) == (err == nil) {
			t.Fatal("settings or an error")
		}
	})
}

// Hostile command lines cost no more than their length.
func TestParseIsBounded(t *testing.T) {
	many := func(word string, n int) []string { return slices.Repeat([]string{word}, n) }
	for name, argv := range map[string][]string{
		"unknown flags": many("--no-such-flag-anywhere-at-all", maxWords),
		"stray words":   many("x", maxWords),
		"too many":      many("x", maxWords+1),
		"long word":     {"--save", strings.Repeat("x", maxArgvBytes+1)},
		"bad numbers":   slices.Concat(many("--num-layers=x", 5000), many("--moe-layer-freq=[0]*999999999", 5000)),
		"bad choices":   many("--fp8-format=e5m2", maxWords),
		"deep":          {"--moe-layer-freq", strings.Repeat("(", 4000) + "[1]"},
		"lists":         many("--moe-layer-freq=[0]*16384", 1000),
	} {
		start := time.Now()
		_, err := Parse(argv, Main)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%s: %v", name, took)
		}
		if err == nil && name != "lists" {
			t.Errorf("%s: accepted", name)
		}
		if err != nil && len(err.Error()) > 1<<17 {
			t.Errorf("%s: a message of %d bytes", name, len(err.Error()))
		}
	}
}
