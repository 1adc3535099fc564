package page

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
)

// command is something to run, with the reason to.
type command struct{ Title, Text, Note string }

// commandsOf are the commands that a plan leads to, in the order in which they are run.
func commandsOf(a *Answer, p *plan.Plan, best string) []command {
	q := &a.Result.Request
	question := fmt.Sprintf("--model %s --gpus %d --gpu %s%s", megatron.Quote(cmp.Or(a.ModelFile, a.Model.ID)), q.GPUs,
		megatron.Quote(cmp.Or(a.GPUFile, q.Platform)), a.Flags)
	key := words(p.Key)
	list := []command{
		{"Check it on one GPU", fmt.Sprintf("moeplan emit --for check %s \\\n  %s \\\n  > check.sh", question, key),
			"under --fake-process-group; " + p.CheckExpectation()},
		{"Hold the logs of that check against the prediction", fmt.Sprintf("moeplan verify moeplan-check.rank*.log %s \\\n  %s", question, key), ""},
		{"Launch it", fmt.Sprintf("moeplan emit --for launch %s \\\n  %s \\\n  > launch.sh", question, key),
			"add --slurm for an sbatch script"},
		{"What to try next", fmt.Sprintf("moeplan next %s \\\n  %s", question, key), "one variable at a time"},
	}
	if p.Key != best {
		list = append(list, command{"Compare it with plan 1",
			fmt.Sprintf("moeplan diff %s \\\n  %s \\\n  %s", question, quoted(best), quoted(p.Key)), ""})
	}
	return list
}

// words are a layout as arguments, on lines that can be read.
func words(key string) string {
	short, split := splitKey(key)
	if split == "" {
		return quoted(short)
	}
	return quoted(short) + " \\\n  " + quoted(split)
}

// quoted makes one word of a layout for a shell.
func quoted(key string) string { return "'" + strings.ReplaceAll(key, "'", `'\''`) + "'" }
