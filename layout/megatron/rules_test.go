package megatron

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
)

// ruleCase is a command line that breaks a rule, and what makes it just not break it.
type ruleCase struct {
	rule layout.RuleID
	// breaks are words after a base: D dense, E experts, M latent attention, H hybrid. Short words stand for flags (shortWords);
	// "~--flag" takes one out; NAME=value sets a variable, NAME= unsets it; @16 is the world; te, torch, sm and rel the software.
	breaks string
	holds  string // words that follow: a repeated flag takes its last value
	reason string // why the one breaks and the other does not
}

var bases = func() map[byte]string {
	dense := "--num-layers 8 --hidden-size 256 --ffn-hidden-size 512 --num-attention-heads 8 --swiglu --normalization RMSNorm --disable-bias-linear " +
		"--untie-embeddings-and-output-weights --position-embedding-type rope --no-rope-fusion --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 " +
		"--global-batch-size 64 --vocab-size 1000 --bf16 --attention-dropout 0.0 --hidden-dropout 0.0 --use-distributed-optimizer"
	return map[byte]string{
		'D': dense,
		'E': dense + " --num-experts 8 --moe-ffn-hidden-size 128 --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall",
		'M': dense + " --multi-latent-attention --kv-lora-rank 32 --q-lora-rank 32 --qk-head-dim 16 --qk-pos-emb-head-dim 16 --v-head-dim 16",
		'H': strings.Replace(dense, "--num-layers 8 ", "", 1) + " --hybrid-layer-pattern M*M* --mamba-num-heads 8 --mamba-num-groups 2",
	}
}()

// shortWords are flags whose value follows at once: tp2.
var shortWords = map[string]string{"tp": "--tensor-model-parallel-size", "cp": "--context-parallel-size", "pp": "--pipeline-model-parallel-size",
	"ep": "--expert-model-parallel-size", "etp": "--expert-tensor-parallel-size", "L": "--num-layers", "gbs": "--global-batch-size", "mbs": "--micro-batch-size",
	"seq": "--seq-length", "pos": "--max-position-embeddings", "vs": virtualStagesFlag, "lpvs": perStageFlag, "first": "--decoder-first-pipeline-num-layers",
	"last": "--decoder-last-pipeline-num-layers", "inst": "--num-distributed-optimizer-instances", "shards": "--tensor-parallel-num-weight-shards",
	"heads": "--num-attention-heads", "mtp": "--mtp-num-layers"}

var shortWord = regexp.MustCompile(`^([a-zL]+)(-?\d+)$`)

// launchOf writes a case out.
func launchOf(t interface {
	Helper()
	Fatal(...any)
}, words string) (argv []string, world int, env map[string]string, release Release, o CheckSettings) {
	t.Helper()
	world, env = 8, map[string]string{connections: "1"}
	args, err := SplitArgs(strings.Fields(bases[words[0]]))
	if err != nil {
		t.Fatal(err)
	}
	current := ""
	for _, w := range strings.Fields(words[1:]) {
		short := shortWord.FindStringSubmatch(w)
		name, value, assigned := strings.Cut(w, "=")
		switch {
		case strings.HasPrefix(w, "~"):
			args.Remove(w[1:])
		case strings.HasPrefix(w, "--"):
			args.Set(w)
			current = w
		case w[0] == '@':
			world, _ = strconv.Atoi(w[1:])
		case short != nil && shortWords[short[1]] != "":
			args.Set(shortWords[short[1]], short[2])
		case name == "te" && assigned:
			o.TransformerEngine = value
		case name == "torch" && assigned:
			o.PyTorch = value
		case name == "sm" && assigned:
			o.ComputeCapability, _ = strconv.Atoi(value)
		case name == "rel" && assigned:
			release = mustRelease(value)
		case assigned && strings.ToUpper(name) == name && len(name) > 2:
			if delete(env, name); value != "" {
				env[name] = value
			}
		default:
			values, _ := args.Get(current)
			args.Set(current, append(slices.Clone(values), w)...)
		}
	}
	o.NoRepairs = true
	return args.Argv(), world, env, release, o
}

func (c *ruleCase) check(t *testing.T, words string) layout.Violations {
	argv, world, env, release, o := launchOf(t, words)
	_, vs, err := CheckArgv(argv, release, world, env, o)
	if err != nil {
		t.Fatal(err)
	}
	return vs
}

func has(vs layout.Violations, id layout.RuleID) bool {
	return slices.ContainsFunc(vs, func(v layout.Violation) bool { return v.Rule == id })
}

// Each rule is broken by one command line and not by another that is nearly the same.
func TestRules(t *testing.T) {
	for i := range ruleCases {
		c := &ruleCases[i]
		vs := c.check(t, c.breaks)
		if !has(vs, c.rule) {
			t.Errorf("%s is not broken by %q (%s): %v", c.rule, c.breaks, c.reason, vs)
		}
		for _, v := range vs {
			if v.Message == "" || strings.Contains(v.Message, "%!") || v.Repairs == nil || v.Source == "" {
				t.Errorf("%q: %+v", c.breaks, v)
			}
		}
		words := c.breaks + " " + c.holds
		if vs = c.check(t, words); has(vs, c.rule) {
			t.Errorf("%s is broken by %q (%s)", c.rule, words, c.reason)
		}
		if errs := vs.Errors(); len(errs) > 0 {
			t.Errorf("%s: %q breaks other rules: %v", c.rule, words, errs)
		}
	}
}

// Every rule has a unique kebab-case ID, a place in the firing order, complete texts, a source with a line, and a case on
// either side of the line.
func TestEveryRule(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	source := regexp.MustCompile(`^(TransformerEngine@\w+ )?[\w/.-]+\.py:\d+( \(core_v[\d.]+\))?$`)
	seen := map[layout.RuleID]bool{}
	for _, r := range Rules() {
		if seen[r.ID] || !kebab.MatchString(string(r.ID)) {
			t.Errorf("rule %q: repeated or not kebab-case", r.ID)
		}
		seen[r.ID] = true
		if r.Title == "" || r.Why == "" || r.Severity == "" || r.NoticedAt == "" || !source.MatchString(r.Source) {
			t.Errorf("rule %s is incomplete: %+v", r.ID, r)
		}
		if strings.HasPrefix(string(r.ID), "argparse-") {
			continue
		}
		if n := len(slices.DeleteFunc(slices.Clone(firingOrder), func(id layout.RuleID) bool { return id != r.ID })); n != 1 {
			t.Errorf("rule %s stands %d times in the firing order", r.ID, n)
		}
		if !slices.ContainsFunc(ruleCases, func(c ruleCase) bool { return c.rule == r.ID }) {
			t.Errorf("rule %s has no case", r.ID)
		}
		if found, err := LookupRule(string(r.ID)); err != nil || found.ID != r.ID {
			t.Errorf("rule %s is not found: %v", r.ID, err)
		}
	}
	for _, id := range firingOrder {
		if !seen[id] {
			t.Errorf("the firing order names %s, which is no rule", id)
		}
	}
	for _, c := range ruleCases {
		if !seen[c.rule] || c.reason == "" {
			t.Errorf("case of %q: unknown rule or no reason", c.rule)
		}
	}
	t.Logf("%d rules, %d cases", len(seen), len(ruleCases))
	if _, err := LookupRule("no-such-rule"); err == nil {
		t.Error("an unknown rule is found")
	}
}

// Every numbered constraint of the reference list has a rule, or stands among those out of scope, with a reason.
func TestEveryConstraint(t *testing.T) {
	judged := map[string]bool{}
	for _, r := range Rules() {
		judged[r.Constraint] = true
	}
	numbers := []string{"14b", "2.9", "N1", "N2", "N3", "N4", "N5", "N6", "N7"}
	for n := 1; n <= 166; n++ {
		numbers = append(numbers, strconv.Itoa(n))
	}
	left := map[string]bool{}
	for _, s := range OutOfScope() {
		if s.What == "" || s.Reason == "" || s.Constraint != "" && judged[s.Constraint] {
			t.Errorf("out of scope: %+v", s)
		}
		left[s.Constraint] = true
	}
	for _, n := range numbers {
		if judged[n] == left[n] {
			t.Errorf("constraint %s: judged %v, out of scope %v", n, judged[n], left[n])
		}
	}
}

// A variable that has to be set is an error where it is known not to be, and a hazard where nobody said what is set.
func TestUnknownEnvironment(t *testing.T) {
	argv, world, _, release, o := launchOf(t, "D tp2")
	for _, c := range []struct {
		env  map[string]string
		want layout.Severity
	}{{nil, layout.Hazard}, {map[string]string{}, layout.Error}, {map[string]string{connections: "1"}, ""}} {
		_, vs, err := CheckArgv(argv, release, world, c.env, o)
		if err != nil {
			t.Fatal(err)
		}
		var got layout.Severity
		for _, v := range vs {
			if v.Rule == "connections-one" {
				got = v.Severity
			}
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.env, got, c.want)
		}
	}
	if since, until, ok := ReleasesOf("moe-no-bias"); since != "" || until != "0.14.0" || !ok {
		t.Errorf("moe-no-bias holds from %q to %q, %v", since, until, ok)
	}
	if _, _, ok := ReleasesOf("no-such-rule"); ok {
		t.Error("an unknown rule has releases")
	}
}
