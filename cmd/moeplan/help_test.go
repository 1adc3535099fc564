package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Each command's help says what it does, shows an example that begins with its own name, and lists exit codes; flags that
// the example uses exist.
func TestEveryCommandHasHelp(t *testing.T) {
	var g grammar
	parser, err := kong.New(&g)
	if err != nil {
		t.Fatal(err)
	}
	flag := regexp.MustCompile(`\s(--[a-z][a-z-]+)`)
	for _, node := range parser.Model.Children {
		if node.Hidden {
			continue
		}
		var out, problems bytes.Buffer
		if code := run(context.Background(), []string{node.Name, "--help"}, &out, &problems); code != 0 {
			t.Errorf("%s --help: exit %d: %s", node.Name, code, &problems)
			continue
		}
		example := ""
		for line := range strings.Lines(node.Detail) {
			if l := strings.TrimSpace(line); strings.Contains(l, "moeplan "+node.Name) || node.Name == "plan" && strings.HasPrefix(l, "moeplan --") {
				example = l
				break
			}
		}
		if node.Help == "" || example == "" || !strings.Contains(node.Detail, "Exit codes: 0") {
			t.Errorf("%s: help %q, example %q, detail %q", node.Name, node.Help, example, node.Detail)
			continue
		}
		example, _, _ = strings.Cut(example, " -- ")
		for _, f := range flag.FindAllStringSubmatch(example, -1) {
			if flagNamed(node, f[1]) == nil {
				t.Errorf("%s: the example uses %s, which it does not have", node.Name, f[1])
			}
		}
	}
}
