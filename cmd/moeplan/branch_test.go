package main

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// A part of the grammar reads command lines as the whole does: the same command with the same values, or the same words
// about what is wrong, and the same help.
func TestBranches(t *testing.T) {
	lines := []string{
		"", "--help", "-h", "plan --help", "--gpus 8 --help", "-oh", "help", "chec", "version version",
		"--gpus 8 --model qwen3-235b", "--gpu h100 -o json --tp 1,2", "--objective workflow --gpus 8", "--gpus", "--gpus --model x", "check --gpu --set A=1", "--seq -5", "-5",
		"--gpus 8 check", "--gpus 8 check train.sh", "check train.sh --gpus 8", "--gpu check", "-- check", "-- check -- --help",
		"--no-such", "--modle x", "-x", "--gpus 8 surplus", "config", "config sho", "config show --all", "models import",
		"models import a.json --name x", "models import --help", "models dsv3", "models dsv3 -o yaml", "check a.sh --set A=1 --set B=2",
		"check -- --num-layers 94 --help", "completion", "completion tcsh", "complete -- --mod", "recipes hybridep pp8",
	}
	whole := reflect.TypeFor[grammar]()
	for i := range whole.NumField() {
		name := strings.ToLower(whole.Field(i).Name)
		lines = append(lines, name, name+" --help", name+" a b c d", name+" --no-such", name+" -o nonsense", name+" --gpus x")
	}
	for _, line := range lines {
		args := strings.Fields(line)
		part, all := readWith(grammarFor(args), args), readWith(new(grammar), args)
		if part != all {
			t.Errorf("moeplan %s: a part of the grammar gives\n%s\nthe whole\n%s", line, part, all)
		}
	}
}

// readWith says all that a grammar makes of a command line.
func readWith(g any, args []string) string {
	var out, problems bytes.Buffer
	exited := -1
	parser, err := newParser(g, streams{&out, &problems}, func(code int) { exited = code })
	if err != nil {
		return err.Error()
	}
	if err := missingValue(parser.Model.Node, args); err != nil {
		return err.Error()
	}
	k, err := parser.Parse(args)
	text := fmt.Sprintf("exit %d error %v\n%s%s", exited, err, &out, &problems)
	if err != nil || exited >= 0 {
		return text
	}
	text += k.Command()
	for _, p := range k.Path {
		if p.Flag != nil {
			text += fmt.Sprintf(" --%s %+v", p.Flag.Name, reflect.Indirect(p.Flag.Target))
		}
		if p.Positional != nil {
			text += fmt.Sprintf(" %s %+v", p.Positional.Name, p.Positional.Target)
		}
	}
	for _, f := range k.Selected().Flags {
		text += fmt.Sprintf(" %s=%v", f.Name, reflect.Indirect(f.Target))
	}
	return text
}

// Work that a command does not need is not done for it: its grammar is its own.
func TestBranchIsSmall(t *testing.T) {
	for _, c := range []struct {
		line     string
		commands int // 0: all
		reason   string
	}{
		{"version", 1, "named first"},
		{"check a.sh", 1, "likewise"},
		{"--gpus 8 --model qwen3-235b", 1, "the default command"},
		{"no-such", 1, "which is the default command's to refuse"},
		{"", 1, "likewise"},
		{"--help", 0, "lists all"},
		{"complete -- --mod", 0, "walks all"},
		{"--gpus 8 version", 0, "two commands"},
	} {
		args := strings.Fields(c.line)
		parser, err := kong.New(grammarFor(args))
		if err != nil {
			t.Fatal(err)
		}
		want := c.commands
		if want == 0 {
			want = reflect.TypeFor[grammar]().NumField()
		}
		if n := len(parser.Model.Children); n != want {
			t.Errorf("moeplan %s: a grammar of %d commands, want %d (%s)", c.line, n, want, c.reason)
		}
	}
}
