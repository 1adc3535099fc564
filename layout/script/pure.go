package script

import (
	"io"
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/interp"
)

// pure computes the few programs that only turn their arguments or their input into text, so that a script which asks
// for its own directory or counts to eight gets its answer. It reports whether it did.
func (p *pass) pure(hc interp.HandlerContext, args []string) (bool, error) {
	words := args[1:]
	for len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	switch path.Base(args[0]) {
	case "dirname":
		if len(words) == 1 && !isOption(words[0]) {
			say(hc, path.Dir(words[0]))
			return true, nil
		}
	case "basename":
		if len(words) >= 1 && len(words) <= 2 && !isOption(words[0]) {
			base := path.Base(words[0])
			if len(words) == 2 && base != words[1] {
				base = strings.TrimSuffix(base, words[1])
			}
			say(hc, base)
			return true, nil
		}
	case "realpath", "readlink":
		var names []string
		for _, w := range words {
			if !isOption(w) {
				names = append(names, w)
			}
		}
		if len(names) == 1 {
			say(hc, absolute(names[0], hc.Dir))
			return true, nil
		}
	case "seq":
		return p.seq(hc, words)
	case "cat":
		return p.cat(hc, words)
	case "sleep", "sync", "clear", "tput":
		return true, nil
	case "true", ":":
		return true, nil
	case "false":
		return true, interp.ExitStatus(1)
	}
	return false, nil
}

func say(hc interp.HandlerContext, s string) { io.WriteString(hc.Stdout, s+"\n") }

// seq prints FIRST to LAST by INCREMENT, up to a thousand numbers.
func (p *pass) seq(hc interp.HandlerContext, words []string) (bool, error) {
	n := []int{}
	for _, w := range words {
		v, err := strconv.Atoi(w)
		if err != nil {
			return false, nil
		}
		n = append(n, v)
	}
	first, step, last := 1, 1, 0
	switch len(n) {
	case 1:
		last = n[0]
	case 2:
		first, last = n[0], n[1]
	case 3:
		first, step, last = n[0], n[1], n[2]
	default:
		return false, nil
	}
	if step == 0 {
		return false, nil
	}
	const most = 1000
	for i, v := 0, first; i < most && (step > 0 && v <= last || step < 0 && v >= last); i, v = i+1, v+step {
		say(hc, strconv.Itoa(v))
	}
	return true, nil
}

// cat copies standard input (a here-document, a pipe) and the caller's files.
func (p *pass) cat(hc interp.HandlerContext, words []string) (bool, error) {
	for _, w := range words {
		if isOption(w) && w != "-" {
			return false, nil
		}
	}
	if len(words) == 0 {
		words = []string{"-"}
	}
	for _, w := range words {
		if w == "-" {
			if hc.Stdin != nil {
				io.Copy(hc.Stdout, io.LimitReader(hc.Stdin, int64(p.opts.MaxBytes)))
			}
			continue
		}
		if w == noneFile || w == "/dev/null" {
			continue
		}
		text, ok := p.files.read(w, hc.Dir)
		if !ok {
			p.note(record{kind: NotRead, name: w, key: w, at: atPlace(hc)})
			continue
		}
		io.WriteString(hc.Stdout, text)
	}
	return true, nil
}
