package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The answers are what a person would want next.
func TestCompletions(t *testing.T) {
	for _, c := range []struct {
		words  string // the last one is completed; _ is an empty one
		want   []string
		not    string
		reason string
	}{
		{"_", []string{"plan", "check", "trace"}, "complete", "commands, hidden ones not"},
		{"tr", []string{"trace"}, "plan", "commands by prefix"},
		{"--mod", []string{"--model"}, "--gpu", "flags of the default command"},
		{"--model qwen3-", []string{"qwen3-235b-a22b", "qwen3-8b"}, "deepseek-v3", "models"},
		{"trace --gpu g", []string{"gb200", "gb300"}, "h100", "GPUs"},
		{"--gpu = gb2", []string{"gb200"}, "h100", "bash splits at ="},
		{"--gpu =", []string{"h100"}, "", "the same with nothing typed yet"},
		{"--gpu=gb2", []string{"--gpu=gb200"}, "", "zsh and fish do not"},
		{"plan -o m", []string{"markdown"}, "csv", "the values of an enum, by its short flag"},
		{"plan --moments b", []string{"bf16"}, "fp32", "likewise"},
		{"plan --precision mx", []string{"mxfp8"}, "", "precisions"},
		{"plan --wide --pre", []string{"--precision"}, "", "a switch takes no value"},
		{"models dee", []string{"deepseek-v3"}, "", "the argument of models"},
		{"models im", []string{"import"}, "list", "commands of a command"},
		{"models import --na", []string{"--name"}, "", "and their flags"},
		{"platforms b", []string{"b200"}, "", "the argument of platforms"},
		{"explain vpp-", []string{"vpp-needs-pp"}, "", "rules"},
		{"completion z", []string{"zsh"}, "bash", "an argument that is an enum"},
		{"check run", nil, "plan", "files are the shell's"},
	} {
		var out, problems bytes.Buffer
		words := strings.Fields(c.words)
		if words[len(words)-1] == "_" {
			words[len(words)-1] = ""
		}
		if code := run(context.Background(), append([]string{"complete", "--"}, words...), &out, &problems); code != 0 {
			t.Fatalf("%q: exit %d: %s", c.words, code, &problems)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			value, _, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
			got = append(got, value)
		}
		for _, w := range c.want {
			if !slices.Contains(got, w) {
				t.Errorf("%q: %v lacks %s (%s)", c.words, got, w, c.reason)
			}
		}
		if c.not != "" && slices.Contains(got, c.not) || c.want == nil && len(got) > 0 {
			t.Errorf("%q: %v (%s)", c.words, got, c.reason)
		}
	}
}

// The scripts work in the shells themselves, where those are installed.
func TestCompletionScripts(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// As with testscript, a test binary under the program's name is the program.
	if err := os.Symlink(self, filepath.Join(dir, "moeplan")); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct{ shell, script string }{
		{"bash", `source <(moeplan completion bash)
COMP_WORDS=(moeplan trace --gpu g) COMP_CWORD=3; _moeplan; printf '%s\n' "${COMPREPLY[@]}"`},
		{"zsh", `compdef() { :; }; _describe() { print -l -- $answers; }; _files() { print files; }
source <(moeplan completion zsh)
words=(moeplan trace --gpu g) CURRENT=4; _moeplan`},
		{"fish", `moeplan completion fish | source
complete -C 'moeplan trace --gpu g'`},
	} {
		path, err := exec.LookPath(c.shell)
		if err != nil {
			t.Logf("%s is not installed", c.shell)
			continue
		}
		cmd := exec.Command(path, "-c", c.script)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "gb200") || strings.Contains(string(out), "h100") {
			t.Errorf("%s: %v: %s", c.shell, err, out)
		}
	}
}
