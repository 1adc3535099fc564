package megatron

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

func bash(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("needs bash: %v", err)
	}
	return path
}

func TestScriptParses(t *testing.T) {
	shell := bash(t)
	eachCommand(t, func(t *testing.T, m *arch.Model, l *layout.Layout, c *Command) {
		script := c.Script()
		cmd := exec.Command(shell, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("bash -n: %v\n%s\n%s", err, out, script)
		}
		for line := range strings.Lines(script) {
			// A single word that is longer has nowhere to break.
			if len(line) > width+1 && len(strings.Fields(line)) > 3 {
				t.Errorf("%d characters: %s", len(line)-1, line)
			}
		}
	})
}

// TestScriptRuns runs scripts with a python that writes down its environment and arguments.
func TestScriptRuns(t *testing.T) {
	shell := bash(t)
	for _, id := range []string{"deepseek-v3", "nemotron-3-super", "gpt-oss-20b"} {
		for _, row := range layouts[1:3] {
			t.Run(id+"/"+row.name, func(t *testing.T) {
				m, err := arch.Lookup(id)
				if err != nil {
					t.Fatal(err)
				}
				c, err := CheckCommand(forModel(t, row.l, m), m, CheckOptions{})
				if err != nil {
					t.Fatal(err)
				}
				c.Runs[0].ExpectPeakAllocated = new(int64(50 << 30))
				c.Verify = "moeplan verify moeplan-check.rank*.log 'tp2'"
				dir := t.TempDir()
				// Rank 0 fails, and the others must run all the same.
				stub := "#!" + shell + "\n" +
					`printf '%s\0' "$WORLD_SIZE" "$RANK" "$LOCAL_RANK" "${CUDA_DEVICE_MAX_CONNECTIONS-}" "$@" > "argv.$RANK"; echo seen; [ "$RANK" != 0 ]` + "\n"
				if err := os.WriteFile(filepath.Join(dir, "python"), []byte(stub), 0o755); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(shell)
				cmd.Dir, cmd.Stdin = dir, strings.NewReader(c.Script())
				cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
				out, err := cmd.Output()
				if err == nil {
					t.Error("a failed run does not fail the script")
				}
				// 50 GiB are 51200 of Megatron's MB; of the other runs nothing was predicted.
				for _, want := range []string{"rank0.log: none, the run failed or ran out of memory\n  expected: max allocated: 51200\n", c.Verify + "\n"} {
					if strings.Count(string(out), want) != 1 {
						t.Errorf("the summary has not once %q:\n%s", want, out)
					}
				}
				if n := strings.Count(string(out), "expected:"); n != 1 {
					t.Errorf("%d runs have a figure, one was given one:\n%s", n, out)
				}
				for _, r := range c.Runs {
					got, err := os.ReadFile(filepath.Join(dir, "argv."+strconv.Itoa(r.Rank)))
					if err != nil {
						t.Fatal(err)
					}
					var want []string
					for _, v := range r.Env {
						want = append(want, v.Value)
					}
					want = append(want, r.Argv[1:]...)
					if words := strings.Split(strings.TrimSuffix(string(got), "\x00"), "\x00"); !slices.Equal(words, want) {
						t.Errorf("rank %d got %q, want %q", r.Rank, words, want)
					}
					if log, err := os.ReadFile(filepath.Join(dir, "moeplan-check.rank"+strconv.Itoa(r.Rank)+".log")); err != nil || string(log) != "seen\n" {
						t.Errorf("log of rank %d: %q, %v", r.Rank, log, err)
					}
				}
			})
		}
	}
}

func TestQuote(t *testing.T) {
	for _, tt := range []struct{ word, want string }{
		{"", "''"},
		{"--num-layers", "--num-layers"},
		{"1e-06", "1e-06"},
		{"127,0", "127,0"},
		{"Et*5|t*5L", "'Et*5|t*5L'"},
		{"([0]*3+[1]*58)", "'([0]*3+[1]*58)'"},
		{"it's", `'it'\''s'`},
		{"a b", "'a b'"},
		{"$HOME", "'$HOME'"},
		{"~", "'~'"},
		{"#", "'#'"},
	} {
		if got := Quote(tt.word); got != tt.want {
			t.Errorf("Quote(%q) = %s, want %s", tt.word, got, tt.want)
		}
	}
}

// TestQuoteRoundTrip: bash reads exactly the words that were quoted.
func TestQuoteRoundTrip(t *testing.T) {
	shell := bash(t)
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.StringMatching(`[-'"$*|\\ ~!{}\n\x60a]{0,6}`)), 1, 20).Draw(t, "words")
		script, want := `printf '%s\0'`, ""
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "\x00", "")
			script += " " + Quote(words[i])
			want += words[i] + "\x00"
		}
		cmd := exec.Command(shell)
		cmd.Stdin, cmd.Env = strings.NewReader(script), []string{"LC_ALL=C"}
		got, err := cmd.Output()
		if err != nil || !bytes.Equal(got, []byte(want)) {
			t.Fatalf("bash reads %q as %q (%v)", words, got, err)
		}
	})
}

func TestSplitArgs(t *testing.T) {
	args, err := SplitArgs([]string{"--a", "1", "--b=2", "--c", "--d", "x", "y", "--a", "3"})
	if err != nil {
		t.Fatal(err)
	}
	// A repeated flag takes its last value (rules-findings.md section 2, 27).
	if got := args.Argv(); !slices.Equal(got, []string{"--a", "3", "--b", "2", "--c", "--d", "x", "y"}) {
		t.Errorf("got %v", got)
	}
	args.Remove("--d")
	if _, ok := args.Get("--d"); ok {
		t.Error("--d is still there")
	}
}
