package megatron

import (
	"fmt"
	"strings"
)

// width is the longest line that Script writes where words allow it.
const width = 100

// MiddleWrapper is the file that a check script writes for stages without data.
const MiddleWrapper = "moeplan_middle_stage.py"

// wrapper runs a launcher with a data loader that says "train" where there is no data. Upstream sets do_train from whether
// this rank built a dataset, and a later call keeps it once it is true
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/training.py:5538-5552).
const wrapper = `import runpy
import sys

import megatron.training.training as training

build = training.build_train_valid_test_data_iterators


def build_and_train(*args, **kwargs):
    iterators = build(*args, **kwargs)
    training.get_args().do_train = True
    return iterators


training.build_train_valid_test_data_iterators = build_and_train
sys.argv[0] = %q
runpy.run_path(sys.argv[0], run_name="__main__")
`

// Script renders the commands as a bash script. Each run is written out in full, so that it can be copied alone; its
// output goes to the screen and to moeplan-check.rankR.log, which a second run overwrites. A run that fails does not keep
// the next from running, and the script then exits 1. At the end stands the last memory line of each run, what was
// predicted where it is known, and the command that judges the logs.
func (c *Command) Script() string {
	var b strings.Builder
	b.WriteString("#!/usr/bin/env bash\n")
	comment(&b, c.Title)
	b.WriteString("#\n")
	for _, text := range c.Comments {
		comment(&b, text)
	}
	b.WriteString("set -uo pipefail\nstatus=0\n")
	wrapped := false
	for _, r := range c.Runs {
		if r.Wrapped && !wrapped {
			wrapped = true
			fmt.Fprintf(&b, "\ncat > %s <<'END'\n"+wrapper+"END\n", MiddleWrapper, c.Launcher)
		}
		b.WriteByte('\n')
		comment(&b, fmt.Sprintf("RANK %d, pipeline stage %d: %s", r.Rank, r.Stage, r.Holds))
		var env []string
		for _, v := range r.Env {
			env = append(env, v.Name+"="+Quote(v.Value))
		}
		b.WriteString(strings.Join(env, " "))
		b.WriteString(" \\\n")
		command(&b, r.Argv)
		fmt.Fprintf(&b, " \\\n  2>&1 | tee %s || status=1\n", r.Log())
	}
	c.summary(&b)
	b.WriteString("exit \"$status\"\n")
	return b.String()
}

// Log is the file that a run's output goes to.
func (r *Run) Log() string { return fmt.Sprintf("moeplan-check.rank%d.log", r.Rank) }

// summary prints the last memory line of each run beside what it should say. Megatron's MB are 2^20 bytes
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/utils/common_utils.py, report_memory).
func (c *Command) summary(b *strings.Builder) {
	b.WriteString(`
# last LOG EXPECTED: what the last memory line says, or that there is none
last() {
  line=$(grep -a 'memory (MB)' "$1" | tail -n 1)
  echo "$1: ${line:-none, the run failed or ran out of memory}"
  [ -z "$2" ] || echo "  expected: max allocated: $2"
}
echo 'The last memory line of each run:'
`)
	for i := range c.Runs {
		r := &c.Runs[i]
		expected := ""
		if r.ExpectPeakAllocated > 0 {
			expected = fmt.Sprintf("%.0f", float64(r.ExpectPeakAllocated)/(1<<20))
		}
		fmt.Fprintf(b, "last %s '%s'\n", r.Log(), expected)
	}
	if c.Verify != "" {
		fmt.Fprintf(b, "cat <<'END'\n%s\nEND\n", c.Verify)
	}
}

// comment writes a text as comment lines, broken at blanks.
func comment(b *strings.Builder, text string) {
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width && line != "#" {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// command writes words on continued lines. A flag stays on the line of its values.
func command(b *strings.Builder, argv []string) {
	var units []string
	for i, word := range argv {
		q := Quote(word)
		if i > 0 && !strings.HasPrefix(word, "--") {
			units[len(units)-1] += " " + q
		} else {
			units = append(units, q)
		}
	}
	for i, unit := range units {
		switch {
		case i == 0:
			b.WriteString(unit)
			continue
		case i == 1, lineLength(b)+len(" ")+len(unit)+len(" \\") > width:
			b.WriteString(" \\\n  ")
		default:
			b.WriteByte(' ')
		}
		b.WriteString(unit)
	}
}

func lineLength(b *strings.Builder) int {
	s := b.String()
	return len(s) - 1 - strings.LastIndexByte(s, '\n')
}

// Quote writes a word so that a POSIX shell reads exactly that word: as it is if it has only characters without meaning
// to a shell, else in single quotes. A NUL cannot be an argument and is kept as it is.
func Quote(word string) string {
	if word == "" {
		return "''"
	}
	for i := range len(word) {
		if c := word[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_@%+=:,./-", c) >= 0) {
			return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return word
}
