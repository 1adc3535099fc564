package megatron

import (
	"fmt"
	"strings"
)

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
		if r.ExpectPeakAllocated != nil {
			expected = fmt.Sprintf("%.0f", float64(*r.ExpectPeakAllocated)/(1<<20))
		}
		fmt.Fprintf(b, "last %s '%s'\n", r.Log(), expected)
	}
	if c.Verify != "" {
		fmt.Fprintf(b, "cat <<'END'\nTo judge them:\n  %s\nEND\n", c.Verify)
	}
}
