package megatron

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// recordedCase is a command line of versions.json.
type recordedCase struct {
	Name, Cmd string
	Argv      []string
	Env       map[string]string
	Rule      string
	Results   []struct {
		From string
		R    string
		Show map[string]string
	}
}

// recordedCases returns the cases with their words, the shared beginning filled in.
func recordedCases(t *testing.T) []recordedCase {
	var file struct {
		Header struct{ Base string }
		Cases  []recordedCase
	}
	load(t, "versions.json", &file)
	for i := range file.Cases {
		c := &file.Cases[i]
		if c.Argv == nil {
			c.Argv = strings.Fields(c.Cmd)
		}
		if c.Argv[0] == "BASE" {
			c.Argv = append(strings.Fields(file.Header.Base), c.Argv[1:]...)
		}
	}
	return file.Cases
}

// at returns the recorded result of a release and the index of its entry.
func (c *recordedCase) at(r Release) (result string, entry int) {
	for i, e := range c.Results {
		if r.From(e.From) {
			result, entry = e.R, i
		}
	}
	return result, entry
}

// Every command line of the version study passes or fails the parser of each of the ten releases as recorded. Refusals
// that come later than the parser are rules: here they must pass, and the log says which constraints they wait for.
func TestRecordedReleases(t *testing.T) {
	verdicts, rules := map[string]int{}, map[string]int{}
	for _, c := range recordedCases(t) {
		for _, name := range table().Releases {
			r := mustRelease(name)
			want, _ := c.at(r)
			_, err := Parse(c.Argv, r)
			exits := strings.HasPrefix(want, "EXIT")
			if exits != (err != nil) {
				t.Errorf("%s, %s: recorded %s, here %v", c.Name, name, want, err)
				continue
			}
			switch {
			case exits:
				verdicts["refused by the parser"]++
				if kind := firstKind(err); (kind == BadChoice) != (want == "EXIT invalid choice") {
					t.Errorf("%s, %s: recorded %s, here %v", c.Name, name, want, err)
				}
			case want == "OK":
				verdicts["accepted"]++
			default:
				verdicts["left to rules"]++
				if r == Main {
					rules[c.Rule]++
				}
			}
		}
	}
	t.Logf("210 command lines x 10 releases: %v", verdicts)
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		t.Logf("main, left to constraint %q: %d", rule, rules[rule])
	}
}

// firstKind is the kind that argparse would complain about: it stops at a bad value and looks at unknown words last.
func firstKind(err error) ProblemKind {
	var ps Problems
	if !errors.As(err, &ps) {
		return ""
	}
	for _, p := range ps {
		if p.Kind == BadChoice || p.Kind == BadType || p.Kind == MissingValue || p.Kind == UnexpectedValue {
			return p.Kind
		}
	}
	return ps[0].Kind
}

func TestRecordedRefusals(t *testing.T) {
	var file struct {
		Cases []struct {
			Record int
			Argv   []string
		}
	}
	load(t, "refused.json", &file)
	for _, c := range file.Cases {
		if _, err := Parse(c.Argv, Main); err == nil {
			t.Errorf("record %d passes: %q", c.Record, c.Argv)
		}
	}
	if len(file.Cases) != 10 {
		t.Errorf("%d refusals, 10 recorded", len(file.Cases))
	}
}

// Each flag of the recorded command lines that pass the real parser passes here.
func TestRecordedFlagsPass(t *testing.T) {
	var file struct{ Flags [][]string }
	load(t, "accepted.json", &file)
	for _, argv := range file.Flags {
		if _, err := Parse(argv, Main); err != nil {
			t.Errorf("%q: %v", argv, err)
		}
	}
	t.Logf("%d flags with values", len(file.Flags))
}

func TestReleases(t *testing.T) {
	for _, c := range []struct{ text, want, reason string }{
		{"", "main", "the default"},
		{"main", "main", ""},
		{"0.20", "main", "main calls itself 0.20.0"},
		{"0.20.0-main", "main", "the version study's name"},
		{"0.12.3", "0.12.3", ""},
		{"0.12.0", "0.12.0", "an entry of its own: rules differ"},
		{"0.12", "0.12.3", "the last patch release"},
		{"core_v0.12.0", "0.12.0", "the tag"},
		{"core_r0.17.0", "0.17.0", "the branch"},
		{"v0.16.1", "0.16.1", ""},
	} {
		r, err := ParseRelease(c.text)
		if err != nil || r.String() != c.want {
			t.Errorf("%q is %v, %v; want %s (%s)", c.text, r, err, c.want, c.reason)
		}
	}
	for _, c := range []struct{ text, nearest string }{
		{"0.10.0", "0.11.0"}, {"0.14.7", "0.14.0"}, {"0.18.1", "0.18.2"}, {"0.21.0", "main"}, {"1.0.0", "main"}, {"0.12.9", "0.12.3"},
		{"nonsense", "main"}, {"0", "main"}, {"0.12.3.4", "main"}, {"-1.2.3", "main"}, {"0.0.1", "0.11.0"},
	} {
		_, err := ParseRelease(c.text)
		var unknown *UnknownReleaseError
		if !errors.As(err, &unknown) || unknown.Nearest.String() != c.nearest {
			t.Errorf("%q: %v, want %s as the nearest", c.text, err, c.nearest)
		}
	}
	if !mustRelease("0.16.0").From("0.16.1") || mustRelease("0.16.0").AtLeast("0.16.1") {
		t.Error("0.16.0 has the flags of 0.16.1 and is older than it")
	}
	if !Main.AtLeast("0.19.1") || mustRelease("0.12.0").AtLeast("0.12.1") {
		t.Error("order of releases")
	}
}

// The table is sound: every option of every release can be found by each of its spellings, its default is one of its
// choices, and the numbers of options are those of the ten parsers.
func TestTable(t *testing.T) {
	options := map[string]int{"0.11.0": 407, "0.12.3": 456, "0.13.1": 502, "0.14.0": 514, "0.15.3": 566, "0.16.1": 652,
		"0.17.1": 705, "0.18.2": 751, "0.19.0": 808, "main": 839} // all count -h
	for i := range len(releases) + 1 {
		r := Release{uint8(i)}
		all := Options(r)
		if want, ok := options[r.String()]; ok && len(all)+1 != want {
			t.Errorf("%s has %d options with -h, its parser %d", r, len(all)+1, want)
		}
		for _, o := range all {
			for _, s := range o.Spellings {
				if found, err := LookupFlag(s, r); err != nil || found != o {
					t.Errorf("%s: %s is %v, %v", r, s, found, err)
				}
			}
			for _, text := range o.Default.Texts() {
				if o.Choices != nil && !o.Default.IsList() && !slices.Contains(o.Choices, text) {
					t.Errorf("%s: default %q of %s is not one of its choices", r, text, o.Name)
				}
			}
			if OptionOf(o.Dest, r) == nil {
				t.Errorf("%s: no option for %s", r, o.Dest)
			}
		}
	}
}
