package megatron

import (
	"strconv"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
)

// Accepted, refused by the parser or refused by a rule: as each of the ten releases said, for all command lines of the
// version study. It ran parser, argument checks and config under stubs of TE 2.12.0, PyTorch 2.9.0 and a Hopper GPU.
func TestRecordedReleaseVerdicts(t *testing.T) {
	agree, all := map[string]int{}, 0
	for _, c := range recordedCases(t) {
		world, _ := strconv.Atoi(c.Env["WORLD_SIZE"])
		for _, name := range table().Releases {
			r := mustRelease(name)
			want, _ := c.at(r)
			o := CheckSettings{Checks: Recorder, TransformerEngine: "2.12.0", PyTorch: "2.9.0", NoRepairs: true}
			_, vs, err := CheckArgv(c.Argv, r, world, c.Env, o)
			if err != nil {
				t.Fatal(err)
			}
			got := "OK"
			for _, v := range vs {
				if v.NoticedAt != layout.AtArguments && v.NoticedAt != layout.AtConfig {
					continue
				}
				got = "refused"
				if strings.HasPrefix(string(v.Rule), "argparse-") {
					got = "EXIT"
				}
				break
			}
			verdict := "OK"
			switch {
			case strings.HasPrefix(want, "EXIT"):
				verdict = "EXIT"
			case want != "OK":
				verdict = "refused"
			}
			all++
			if got == verdict {
				agree[got]++
				if r == Main && got == "refused" && !near(want, vs[0].Source) {
					t.Errorf("%s: recorded %s, here %s", c.Name, want, vs[0].Source)
				}
				continue
			}
			t.Errorf("%s, %s: recorded %s, here %s %v", c.Name, name, want, got, vs)
		}
	}
	t.Logf("%d verdicts, agree: %v", all, agree)
}

// near compares "AssertionError@training/arguments.py:1698" with a source: the same file, and a line of the same statement,
// of which Python versions name different ones.
func near(recorded, source string) bool {
	file, line, _ := strings.Cut(recorded[strings.IndexByte(recorded, '@')+1:], ":")
	ours, at, _ := strings.Cut(strings.TrimPrefix(source, "megatron/"), ":")
	a, _ := strconv.Atoi(line)
	b, _ := strconv.Atoi(at)
	return file == ours && a-b <= 4 && b-a <= 4
}
