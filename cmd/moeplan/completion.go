package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/evidence"
	"github.com/moeplan/moeplan/topology"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the part of the usage below the summary.
func (completionCmd) Help() string {
	return `Prints a script that completes commands, flags, models and GPUs. It asks the program that is installed, so that it never
goes out of date.

  source <(moeplan completion bash)        # in ~/.bashrc
  source <(moeplan completion zsh)         # in ~/.zshrc, after compinit
  moeplan completion fish | source         # in ~/.config/fish/config.fish

Exit codes: 0 done; 80 usage.`
}

// completionScripts hand the words up to the cursor to the hidden command complete, which answers "value<tab>meaning".
// Where it has no answer, shells complete file names.
var completionScripts = map[string]string{
	"bash": `_moeplan() {
  local IFS=$'\n' line
  COMPREPLY=()
  while read -r line; do COMPREPLY+=("${line%%$'\t'*}"); done \
    < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _moeplan moeplan
`,
	"zsh": `_moeplan() {
  local -a answers
  local line
  while IFS= read -r line; do answers+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}"); done \
    < <("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ${#answers} )); then _describe moeplan answers; else _files; fi
}
compdef _moeplan moeplan
`,
	"fish": `function __moeplan_complete
  set -l words (commandline -opc) (commandline -ct)
  $words[1] complete -- $words[2..-1] 2>/dev/null
end
complete -c moeplan -a '(__moeplan_complete)'
`,
}

func (c *completionCmd) Run(s streams) error {
	_, err := io.WriteString(s.out, completionScripts[c.Shell])
	return err
}

type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"The words up to the cursor; the last is the one to complete."`
}

func (c *completeCmd) Run(s streams, k *kong.Context) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, x := range completionsOf(k.Model.Node, words) {
		if _, err := fmt.Fprintf(s.out, "%s\t%s\n", x.value, x.meaning); err != nil {
			return err
		}
	}
	return nil
}

// completion is one answer: what to insert, and what it means.
type completion struct{ value, meaning string }

// completionsOf completes the last of the words.
func completionsOf(root *kong.Node, words []string) []completion {
	if len(words) == 0 {
		words = []string{""}
	}
	var plain []string // bash hands --gpu=h over as three words
	for _, w := range words {
		if w != "=" {
			plain = append(plain, w)
		}
	}
	last := ""
	if words[len(words)-1] != "=" {
		last, plain = plain[len(plain)-1], plain[:len(plain)-1]
	}
	at := walkWords(root, plain)
	if name, value, ok := strings.Cut(last, "="); ok && strings.HasPrefix(last, "--") {
		if f := flagNamed(at.node, name); f != nil {
			return matching(prefixed(name+"=", valuesOf(f.Value, f.Enum, name)), name+"="+value)
		}
		return nil
	}
	switch {
	case at.flag != nil:
		return matching(valuesOf(at.flag.Value, at.flag.Enum, "--"+at.flag.Name), last)
	case strings.HasPrefix(last, "-"):
		return matching(flagsOf(at.node), last)
	}
	all := positionals(at)
	if at.words == 0 {
		for _, c := range at.node.Children {
			if !c.Hidden {
				all = append(all, completion{c.Name, c.Help})
			}
		}
	}
	return matching(all, last)
}

// place is where the words before the cursor lead.
type place struct {
	node  *kong.Node
	flag  *kong.Flag // that waits for its value
	words int        // positional ones so far
}

func walkWords(root *kong.Node, words []string) place {
	at := place{node: root}
	for _, w := range words {
		at = at.after(w)
	}
	return at
}

// after is the place behind one more word.
func (at place) after(word string) place {
	switch {
	case at.flag != nil:
		at.flag = nil
	case strings.HasPrefix(word, "-"):
		if f := flagNamed(at.node, word); f != nil && !f.IsBool() && !strings.Contains(word, "=") {
			at.flag = f
		}
	case at.words == 0 && child(at.node, word) != nil:
		at.node = child(at.node, word)
	default:
		at.words++
	}
	return at
}

func child(n *kong.Node, name string) *kong.Node {
	for _, c := range n.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// everyFlag lists the flags of a command; without one those of the default command hold.
func everyFlag(n *kong.Node) []*kong.Flag {
	flags := n.Flags
	if n.DefaultCmd != nil {
		flags = append(flags[:len(flags):len(flags)], n.DefaultCmd.Flags...)
	}
	if n.Parent != nil {
		flags = append(flags[:len(flags):len(flags)], n.Parent.Flags...)
	}
	return flags
}

func flagNamed(n *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(word, "=")
	for _, f := range everyFlag(n) {
		if "--"+f.Name == name || slices.Contains(f.Aliases, strings.TrimPrefix(name, "--")) || f.Short != 0 && "-"+string(f.Short) == name {
			return f
		}
	}
	return nil
}

func flagsOf(n *kong.Node) []completion {
	var out []completion
	for _, f := range everyFlag(n) {
		if !f.Hidden {
			out = append(out, completion{"--" + f.Name, f.Help})
		}
	}
	return out
}

// positionals completes the names that some commands take as their argument.
func positionals(at place) []completion {
	if at.words > 0 {
		return nil
	}
	switch at.node.Name {
	case "models":
		return models()
	case "platforms":
		return platforms()
	case "explain":
		return explained()
	}
	if p := at.node.Positional; len(p) > 0 && p[0].Enum != "" {
		return enumerated(p[0].Enum)
	}
	return nil
}

// valuesOf completes the value of a flag.
func valuesOf(v *kong.Value, enum, flag string) []completion {
	switch {
	case flag == "--model":
		return models()
	case flag == "--gpu":
		return platforms()
	case enum != "":
		return enumerated(enum)
	case flag == "--variable" || flag == "--set" && v.Tag.PlaceHolder == "FIELD=VALUE":
		var out []completion
		for _, f := range evidence.ContractFields() {
			end := ""
			if flag == "--set" {
				end = "="
			}
			out = append(out, completion{f.Section + "." + f.Key + end, f.What})
		}
		return out
	case flag == "--precision":
		var out []completion
		for p := layout.BF16; p <= layout.NVFP4; p++ {
			out = append(out, completion{value: p.String()})
		}
		return out
	}
	return nil
}

func enumerated(enum string) (out []completion) {
	for v := range strings.SplitSeq(enum, ",") {
		out = append(out, completion{value: strings.TrimSpace(v)})
	}
	return out
}

func models() (out []completion) {
	for _, m := range arch.All() {
		total, active := m.Parameters()
		out = append(out, completion{m.ID, fmt.Sprintf("%s B, %s B active", billions(total), billions(active))})
	}
	return out
}

func platforms() (out []completion) {
	for _, p := range topology.Platforms() {
		out = append(out, completion{p.ID, p.Name})
	}
	return out
}

func explained() (out []completion) {
	for _, r := range layout.Rules() {
		out = append(out, completion{string(r.ID), r.Title})
	}
	for _, t := range terms {
		out = append(out, completion{t.Name, t.Meaning})
	}
	return out
}

func prefixed(prefix string, list []completion) []completion {
	for i := range list {
		list[i].value = prefix + list[i].value
	}
	return list
}

// matching keeps what begins with what was typed.
func matching(list []completion, typed string) (out []completion) {
	for _, x := range list {
		if strings.HasPrefix(x.value, typed) {
			out = append(out, x)
		}
	}
	return out
}
