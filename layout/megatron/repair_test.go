package megatron

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
)

// repaired applies a repair as a user would: to the words, the environment and the world.
func repaired(t testing.TB, argv []string, env map[string]string, world int, repair string) ([]string, map[string]string, int) {
	t.Helper()
	args, err := SplitArgs(argv)
	if err != nil {
		t.Fatal(err)
	}
	env = maps.Clone(env)
	for _, part := range strings.Split(repair, " and ") {
		words := strings.Fields(part)
		switch {
		case words[0] == "drop":
			o, err := LookupFlag(words[1], Main)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range o.Spellings {
				args.Remove(s)
			}
		case words[0] == "unset":
			delete(env, words[1])
		case strings.HasPrefix(part, "--"):
			args.Set(words[0], words[1:]...)
		case len(words) == 2 && words[1] == "GPUs":
			if world, err = strconv.Atoi(words[0]); err != nil {
				t.Fatal(err)
			}
		default:
			name, value, ok := strings.Cut(part, "=")
			if !ok {
				t.Fatalf("repair %q", repair)
			}
			if env == nil {
				env = map[string]string{}
			}
			env[name] = value
		}
	}
	return args.Argv(), env, world
}

// parametersOf counts the parameters of a command line's layers; 0 where there is no model.
func parametersOf(t testing.TB, argv []string, world int, env map[string]string) int64 {
	t.Helper()
	settings, err := Parse(argv, Main)
	if err != nil {
		return 0
	}
	resolved, err := Resolve(settings, world, env)
	if err != nil {
		return 0
	}
	m, _ := unchecked(resolved)
	m.VocabSize, m.MaxPositionEmbeddings, m.MakeVocabSizeDivisibleBy, m.LearnedPositions = 1, 1, 1, false
	if m.Validate() != nil {
		return 0
	}
	total, _ := m.Parameters()
	return total
}

// Where another layout repairs, none that makes it another model is offered.
func TestRepairsKeepTheModel(t *testing.T) {
	argv := strings.Fields("--num-layers 4 --hidden-size 4096 --ffn-hidden-size 16384 --num-attention-heads 32 --seq-length 4096 " +
		"--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 96 --vocab-size 32000 --bf16 --tensor-model-parallel-size 3")
	_, found, err := CheckArgv(argv, Main, 96, nil, CheckSettings{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--tensor-model-parallel-size 2", "--tensor-model-parallel-size 4"}
	for _, id := range []layout.RuleID{"tp-divides-heads", "tp-fits-kv-groups", "tp-divides-ffn"} {
		i := slices.IndexFunc(found, func(v layout.Violation) bool { return v.Rule == id })
		if i < 0 || !slices.Equal(found[i].Repairs, want) {
			t.Errorf("%s: %v, want repairs %q", id, found, want)
		}
	}
	// nothing but the model can give here
	argv = strings.Fields("--num-layers 4 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 5 --seq-length 4096 " +
		"--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 8 --vocab-size 32000 --bf16")
	if _, found, err = CheckArgv(argv, Main, 8, nil, CheckSettings{}); err != nil || len(found.Errors()) == 0 || len(found.Errors()[0].Repairs) == 0 {
		t.Errorf("%v, %v: want an error with a repair", found, err)
	}
}

// Every repair that is offered for a recorded refusal clears its violation and brings no other error; where it was the only
// error the command line is legal.
func TestRepairsClear(t *testing.T) {
	file := loadValidity(t)
	every := 5 // all records were tried when this was written: 4,491 errors, 8,755 repairs; FuzzRepairs goes on
	errors, without, repairs := 0, map[layout.RuleID]int{}, 0
	for i := range file.Cases {
		c := &file.Cases[i]
		if c.Stage == "" || c.Stage == layout.AtArguments && strings.HasSuffix(c.Where, ":132") || i%every != 0 {
			continue
		}
		o := c.settings(Normal)
		o.TransformerEngine, o.NoRepairs = "2.9.0", false
		before := c.check(t, o)
		o.NoRepairs = true
		for _, v := range before.Errors() {
			errors++
			if len(v.Repairs) == 0 {
				without[v.Rule]++
			}
			other := 0 // repairs that make it another model
			for _, text := range v.Repairs {
				repairs++
				argv, env, world := repaired(t, c.Argv, c.Env, c.World, text)
				resolved, after, err := CheckArgv(argv, Main, world, env, o)
				if err != nil {
					t.Fatal(err)
				}
				if n := parametersOf(t, c.Argv, c.World, c.Env); resolved != nil && n > 0 && n != parametersOf(t, argv, world, env) {
					other++
				}
				for _, w := range after.Errors() {
					if w.Rule == v.Rule || !slices.ContainsFunc(before, func(b layout.Violation) bool { return b.Rule == w.Rule }) {
						t.Errorf("%s: %s: repair %q leaves %s: %s", c.Record, v.Rule, text, w.Rule, w.Message)
					}
				}
			}
			if other > 0 && other < len(v.Repairs) {
				t.Errorf("%s: %s: of %q %d make it another model", c.Record, v.Rule, v.Repairs, other)
			}
		}
	}
	t.Logf("%d errors, %d repairs; none found for %v", errors, repairs, without)
}
