package megatron

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
)

// launchOf is readCase for tests, which look at repairs elsewhere.
func launchOf(t interface {
	Helper()
	Fatal(...any)
}, words string) ([]string, int, map[string]string, Release, CheckSettings) {
	t.Helper()
	argv, world, env, release, o, err := readCase(words)
	if err != nil {
		t.Fatal(err)
	}
	o.NoRepairs = true
	return argv, world, env, release, o
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

// Every rule of a command line has an example whose words are written out.
func TestExamples(t *testing.T) {
	for _, r := range Rules() {
		examples := Examples(r.ID)
		if len(examples) == 0 && !slices.ContainsFunc(parserRules, func(p layout.Rule) bool { return p.ID == r.ID }) {
			t.Errorf("%s has no example", r.ID)
		}
		for _, e := range examples {
			for _, w := range append(slices.Clone(e.Breaks), e.Holds...) {
				if first := strings.Fields(w)[0]; strings.HasPrefix(w, "~") || !strings.HasPrefix(w, "--") && shortWord.MatchString(first) {
					t.Errorf("%s: %q is not written out", r.ID, w)
				}
			}
			if len(e.Holds) == 0 || e.Reason == "" || e.Base == "" {
				t.Errorf("%s: %+v", r.ID, e)
			}
		}
	}
}
