package script

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// nothing is a call that does nothing and succeeds.
var nothing = []string{"builtin", "true"}

// call sees every simple command after expansion and before it runs, builtins included, and changes those that would
// look at the machine or that the interpreter lacks.
func (p *pass) call(ctx context.Context, args []string) ([]string, error) {
	if err := p.checkCall(args); err != nil {
		return nil, err
	}
	// command and builtin lead to a builtin too.
	i := 0
	for i < len(args)-1 && (args[i] == "command" || args[i] == "builtin") {
		if args[i] == "command" && args[i+1] == "-p" {
			args = slices.Delete(slices.Clone(args), i+1, i+2)
			continue
		}
		if args[i] == "command" && (args[i+1] == "-v" || args[i+1] == "-V") {
			return append([]string{haveName}, args[i+2:]...), nil
		}
		i++
	}
	hc := interp.HandlerCtx(ctx)
	inner, err := p.builtin(hc, args[i:])
	if err != nil {
		return nil, err
	}
	if i == 0 || len(inner) == 0 || inner[0] != args[i] {
		return inner, nil
	}
	return append(slices.Clone(args[:i]), inner...), nil
}

func (p *pass) builtin(hc interp.HandlerContext, args []string) ([]string, error) {
	rest := args[1:]
	switch args[0] {
	case guardName:
		if len(args) != 3 {
			return nothing, nil
		}
		weight, _ := strconv.Atoi(args[1])
		repl, _ := strconv.Atoi(args[2])
		if err := p.checkGrowth(hc.Env, weight, repl); err != nil {
			return nil, err
		}
	case "ulimit", "umask", "kill", "jobs", "disown", "suspend", "enable", "hash", "complete", "compopt", "compgen",
		"bind", "history", "caller", "fc", "fg", "bg", "newgrp", "wait", "alias", "unalias", "help", "times":
		return nothing, nil
	case "logout":
		return []string{"exit"}, nil
	case "type", "which", "whereis":
		return append([]string{haveName}, slices.DeleteFunc(slices.Clone(rest), isOption)...), nil
	case "pwd":
		return []string{"pwd"}, nil // -P would resolve links of the machine
	case "cd", "pushd":
		dirs := slices.DeleteFunc(slices.Clone(rest), func(s string) bool { return len(s) > 1 && isOption(s) })
		if len(dirs) == 1 && dirs[0] != "-" && dirs[0] != "" {
			p.files.folders[absolute(dirs[0], hc.Dir)] = true // or "cd /workspace || exit 1" would end every script
		}
		return append([]string{args[0]}, dirs...), nil
	case "test", "[":
		out := slices.Clone(args)
		for j := 1; j < len(out); j++ {
			if out[j] == "-O" || out[j] == "-G" || out[j] == "-N" {
				out[j] = "-e"
			}
		}
		return out, nil
	case "set":
		return setOptions(args), nil
	case "shopt":
		return shellOptions(args), nil
	case "printf":
		return printFormat(rest), nil
	case "read":
		return readOptions(args), nil
	case "mapfile", "readarray":
		return mapfileOptions(args), nil
	case "trap":
		return p.trap(hc, args)
	case "eval":
		return p.eval(hc, args)
	case "source", ".":
		return p.source(hc, args)
	}
	return args, nil
}

func isOption(s string) bool { return strings.HasPrefix(s, "-") }

// setOptions keeps what the interpreter's set knows: an unknown letter would undo the whole call. It leaves out -e and
// -u: a value that is missing here must not end the reading, the warnings name it.
func setOptions(args []string) []string {
	out := []string{"set"}
	for i := 1; i < len(args); i++ {
		a := args[i]
		if a == "--" || len(a) < 2 || (a[0] != '-' && a[0] != '+') {
			out = append(out, args[i:]...)
			break
		}
		letters, takesName := "", false
		for _, l := range a[1:] {
			switch {
			case l == 'o':
				takesName = true
			case strings.ContainsRune("af", l): // n would stop the reading too, x only prints
				letters += string(l)
			}
		}
		for _, l := range letters {
			out = append(out, a[:1]+string(l))
		}
		if takesName && i+1 < len(args) {
			i++
			if slices.Contains([]string{"allexport", "noglob", "pipefail"}, args[i]) {
				out = append(out, a[:1]+"o", args[i])
			}
		}
	}
	if len(out) == 1 {
		return nothing
	}
	return out
}

func shellOptions(args []string) []string {
	out := []string{"shopt"}
	mode := false
	for _, a := range args[1:] {
		switch {
		case a == "-s" || a == "-u":
			mode = true
			out = append(out, a)
		case slices.Contains([]string{"dotglob", "extglob", "globstar", "nocaseglob", "nullglob"}, a):
			out = append(out, a)
		}
	}
	if !mode || len(out) < 3 {
		return nothing
	}
	return out
}

// readOptions drops what the interpreter's read does not know; reading up to a NUL is mapfile's job here.
func readOptions(args []string) []string {
	out, names := []string{"read"}, []string(nil)
	toEnd, array := false, false
	for i := 1; i < len(args); i++ {
		a := args[i]
		if !isOption(a) || len(names) > 0 {
			names = append(names, a)
			continue
		}
		for j := 1; j < len(a); j++ {
			switch a[j] {
			case 'r', 's':
				out = append(out, "-"+a[j:j+1])
			case 'a':
				array = true
				out = append(out, "-a")
			case 'd', 't', 'n', 'N', 'u', 'i', 'p':
				value := a[j+1:]
				if value == "" && i+1 < len(args) {
					i++
					value = args[i]
				}
				toEnd = toEnd || a[j] == 'd' && value == ""
				j = len(a)
			}
		}
	}
	if toEnd && !array && len(names) == 1 {
		return []string{"mapfile", "-t", "-d", "", names[0]}
	}
	return append(out, names...)
}

func mapfileOptions(args []string) []string {
	out := []string{"mapfile"}
	for i := 1; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-t":
			out = append(out, a)
		case a == "-d" && i+1 < len(args):
			out = append(out, a, args[i+1])
			i++
		case strings.HasPrefix(a, "-d"):
			out = append(out, "-d", a[2:])
		case isOption(a):
			if len(a) == 2 {
				i++ // -n, -O, -s, -u, -C, -c take a value
			}
		default:
			out = append(out, a)
		}
	}
	return out
}

// trap keeps the traps that a reading can reach: EXIT and ERR.
func (p *pass) trap(hc interp.HandlerContext, args []string) ([]string, error) {
	rest := slices.DeleteFunc(slices.Clone(args[1:]), func(s string) bool { return s == "--" })
	if len(rest) < 2 || isOption(rest[0]) && rest[0] != "-" {
		return nothing, nil
	}
	var signals []string
	for _, s := range rest[1:] {
		switch strings.ToUpper(s) {
		case "EXIT", "0":
			signals = append(signals, "EXIT")
		case "ERR":
			signals = append(signals, "ERR")
		}
	}
	if len(signals) == 0 {
		return nothing, nil
	}
	body := rest[0]
	if body != "-" && body != "" {
		body = p.rewriteText(hc, "trap", body)
	}
	return append([]string{"trap", body}, signals...), nil
}

func (p *pass) eval(hc interp.HandlerContext, args []string) ([]string, error) {
	rest := args[1:]
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	return []string{"eval", p.rewriteText(hc, "eval", strings.Join(rest, " "))}, nil
}

// rewriteText is a piece of script that the interpreter will parse itself, made safe. What cannot be parsed becomes a
// failing command, as it would be in bash.
func (p *pass) rewriteText(hc interp.HandlerContext, what, text string) string {
	at := atPlace(hc)
	name := what
	if at.file != "" {
		name = at.file + " (" + what + ")"
	}
	out, err := p.safeText(name, text)
	if err != nil {
		p.note(record{kind: ScriptError, name: err.Error(), key: at.String(), at: at})
		return "false"
	}
	return out
}

// safeText parses, rewrites and prints.
func (p *pass) safeText(name, text string) (string, error) {
	file, err := p.parse(name, text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := syntax.NewPrinter().Print(&b, file); err != nil {
		return "", err
	}
	return b.String(), nil
}

// source hands a file of the caller's to the interpreter under a path that cannot exist, so that it is looked for
// nowhere else.
func (p *pass) source(hc interp.HandlerContext, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	at := atPlace(hc)
	abs, text, ok := p.files.find(args[1], hc.Dir)
	if !ok {
		p.note(record{kind: NotRead, name: args[1], key: args[1], at: at})
		return nothing, nil
	}
	text, err := p.safeText(strings.TrimPrefix(abs, workDir+"/"), text)
	if err != nil {
		p.note(record{kind: ScriptError, name: err.Error(), key: abs, at: at})
		return nothing, nil
	}
	token := path.Join(sourceDir, abs)
	p.texts[token] = text
	return append([]string{args[0], token}, args[2:]...), nil
}
