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
			for _, text := range v.Repairs {
				repairs++
				argv, env, world := repaired(t, c.Argv, c.Env, c.World, text)
				_, after, err := CheckArgv(argv, Main, world, env, o)
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range after.Errors() {
					if w.Rule == v.Rule || !slices.ContainsFunc(before, func(b layout.Violation) bool { return b.Rule == w.Rule }) {
						t.Errorf("%s: %s: repair %q leaves %s: %s", c.Record, v.Rule, text, w.Rule, w.Message)
					}
				}
			}
		}
	}
	t.Logf("%d errors, %d repairs; none found for %v", errors, repairs, without)
}
