package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// A command that needs little does little: in a fresh process it allocates no more than its own grammar, and the tables that
// it reads, take. The bounds stand a half above what was counted when they were written, and far below what a thing done
// in vain would add, beginning with the grammar of the other commands.
func TestStart(t *testing.T) {
	for _, c := range []struct {
		line   string
		most   int // bytes
		reason string
	}{
		{"completion bash", 130_000, "a text that is there"},
		{"explain EDP", 130_000, "a word of a list in the program"},
		{"--no-such-flag", 480_000, "an error of the default command"},
		{"plan", 480_000, "the question is missing"},
		{"ranks --world 64 --tp 2 --ep 8 --etp 1", 1_800_000, "the platforms, but no model, flag or recipe"},
		{"platforms", 1_750_000, "the platforms, in a table"},
		{"version", 1_600_000, "models and platforms, which it counts"},
		{"--help", 4_000_000, "the grammar of all commands, which is 2.3 MB, but no data"},
	} {
		cmd := self(t, "startcost", strings.Fields(c.line)...)
		cmd.Env = append(cmd.Environ(), envConfig+"=none")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		spent, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			t.Fatal(err)
		}
		if spent > c.most {
			t.Errorf("moeplan %s: %d bytes allocated, want at most %d (%s)", c.line, spent, c.most, c.reason)
		}
	}
}

// startCost runs a command line and prints the bytes that it allocated, freed ones included.
func startCost(args []string, out io.Writer) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run(context.Background(), args, io.Discard, io.Discard)
	runtime.ReadMemStats(&after)
	_, err := fmt.Fprintln(out, after.TotalAlloc-before.TotalAlloc)
	return err
}

// Before main no package computes what only some command needs: tables and expressions are made when they are first asked for.
func TestBeforeMain(t *testing.T) {
	const most = 40_000 // bytes a package may allocate
	exceptions := map[string]int{
		"github.com/moeplan/moeplan/layout/megatron": 160_000, // its rules, which hold functions
		// What tables are written with; a library's own start is not ours to delay.
		"github.com/olekukonko/tablewriter/pkg/twwidth": 700_000, // a cache of widths
		"github.com/olekukonko/errors":                  80_000,
	}
	ofTests := regexp.MustCompile(`jsonschema|go-internal|rapid|chromedp|cdproto`) // in this binary alone
	cmd := self(t, "moeplan", "completion", "bash")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes,`).FindAllStringSubmatch(trace.String(), -1)
	if len(lines) < 50 {
		t.Fatalf("a trace of %d packages:\n%s", len(lines), &trace)
	}
	for _, l := range lines {
		bytes, err := strconv.Atoi(l[2])
		if err != nil {
			t.Fatal(err)
		}
		if bytes > max(most, exceptions[l[1]]) && !ofTests.MatchString(l[1]) {
			t.Errorf("%s allocates %d bytes before main, want at most %d", l[1], bytes, max(most, exceptions[l[1]]))
		}
	}
}

// self is this program under the name of one of TestMain's commands.
func self(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(program, link); err != nil {
		t.Skip(err)
	}
	return exec.Command(link, args...)
}
