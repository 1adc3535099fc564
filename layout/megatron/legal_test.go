package megatron

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
)

// validityCase is a record of validity.json.gz.
type validityCase struct {
	Record      string
	World       int
	Argv        []string
	Env         map[string]string
	TE          string
	SM          int
	Stage       layout.NoticedAt
	Where       string
	Divides     string
	Environment bool
}

type validityFile struct {
	Artefacts map[string][]int
	Cases     []validityCase
}

func loadValidity(t testing.TB) *validityFile {
	t.Helper()
	f, err := os.Open("testdata/validity.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var file validityFile
	if err := json.NewDecoder(z).Decode(&file); err != nil {
		t.Fatal(err)
	}
	return &file
}

// extra reports whether the record is one of layout_validity_extra.json.
func (c *validityCase) extra() bool { return strings.HasPrefix(c.Record, "extra") }

func (c *validityCase) settings(checks Checks) CheckSettings {
	return CheckSettings{Checks: checks, TransformerEngine: c.TE, ComputeCapability: c.SM, NoRepairs: true}
}

func (c *validityCase) check(t testing.TB, o CheckSettings) layout.Violations {
	_, vs, err := CheckArgv(c.Argv, Main, c.World, c.Env, o)
	if err != nil {
		t.Fatal(err)
	}
	return vs
}

// Accept or refuse, the first rule and the moment agree on every record.
func TestRecordedVerdicts(t *testing.T) {
	file := loadValidity(t)
	type tally struct{ records, refused, agree, environment int }
	sums := map[string]*tally{"main": {}, "extra": {}}
	misses := map[string]int{}
	for i := range file.Cases {
		c := &file.Cases[i]
		checks, sum := Recorder, sums["main"]
		if c.extra() {
			checks, sum = RecorderExtra, sums["extra"]
		}
		sum.records++
		vs := c.check(t, c.settings(checks))
		got := "accept"
		if len(vs) > 0 {
			got = fmt.Sprintf("%s %s", vs[0].NoticedAt, vs[0].Source)
		}
		want := "accept"
		switch {
		case c.Environment: // a missing package is no rule; what comes before it would be
			sum.environment++
			if len(vs) > 0 && !afterBuild(vs[0]) {
				t.Errorf("%s: %v", c.Record, vs[0])
			}
			continue
		case c.Stage != "":
			want = fmt.Sprintf("%s %s", c.Stage, c.Where)
			sum.refused++
		}
		if got == want && (c.Divides == "" || mentions(vs[0].Message, c.Divides)) {
			sum.agree++
			continue
		}
		key := "want " + want + ", got " + got
		if misses[key]++; misses[key] <= 3 {
			rules := make([]string, len(vs))
			for i, v := range vs {
				rules[i] = string(v.Rule)
			}
			t.Errorf("%s: %s %v", c.Record, key, rules)
		}
	}
	for name, s := range sums {
		t.Logf("%s: %d records (%d refused), %d agree, %d refused for want of a package", name, s.records, s.refused, s.agree, s.environment)
	}
	keys := make([]string, 0, len(misses))
	for k, n := range misses {
		keys = append(keys, fmt.Sprintf("%5d %s", n, k))
	}
	slices.Sort(keys)
	for _, k := range keys {
		t.Log(k)
	}
}

func afterBuild(v layout.Violation) bool {
	return v.NoticedAt == layout.AtModelBuild || v.NoticedAt == layout.AtFirstStep || v.NoticedAt == layout.AtSchedule
}

// mentions reports whether a message has both numbers of "130 is not divisible by 4".
func mentions(message, divides string) bool {
	a, b, _ := strings.Cut(divides, " is not divisible by ")
	words := strings.FieldsFunc(message, func(r rune) bool { return r < '0' || r > '9' })
	return slices.Contains(words, a) && slices.Contains(words, b)
}
