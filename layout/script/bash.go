package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"
)

// ReadBash reads a launch script without running anything. name is the script's path, used in messages and, relative,
// as its place in opts.Sources.
//
// A script that stops at a limit of time or size is not an error: Complete is false and a warning says which. Errors:
// *SyntaxError; *LimitError for more than opts.MaxBytes or too deep a nesting; *UnsupportedError if all its launches
// are of a dialect that is recognised and not read; what src returns.
func ReadBash(ctx context.Context, name string, src io.Reader, opts Options) (*Script, error) {
	opts = opts.withDefaults()
	text, err := readAll(name, src, opts.MaxBytes)
	if err != nil {
		return nil, err
	}
	for k := range opts.Set {
		if !syntax.ValidName(k) || strings.HasPrefix(k, hidden) || k == "TMPDIR" {
			return nil, fmt.Errorf("%s: %q cannot be set", name, k)
		}
	}
	if _, err := parseBash(name, text, opts.MaxBytes); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()

	rd := &reading{opts: opts, name: name, inside: scriptPath(name), text: text, batch: batchLines(text)}
	base := rd.pass(ctx, probe{})
	s := &Script{Name: name, Dialect: Bash, Commands: base.commands, Complete: base.stopped == ""}
	rd.warn(ctx, s, base)
	return s, onlyUnsupported(s)
}

// scriptPath is the script's path below the directory it seems to be started in.
func scriptPath(name string) string {
	clean := path.Clean(strings.ReplaceAll(name, "\\", "/"))
	if path.IsAbs(clean) || strings.HasPrefix(clean, "..") || clean == "." {
		clean = path.Base(clean)
	}
	if clean == "/" || clean == "." || clean == ".." {
		clean = "script.sh"
	}
	return clean
}

func readAll(name string, src io.Reader, limit int) (string, error) {
	b, err := io.ReadAll(io.LimitReader(src, int64(limit)+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > limit {
		return "", &LimitError{name, fmt.Sprintf("more than %d bytes", limit)}
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n"), nil
}

// parseBash parses a script and refuses one whose tree is too deep for the interpreter's stack.
func parseBash(name, text string, limit int) (file *syntax.File, err error) {
	if len(text) > limit {
		return nil, &LimitError{name, fmt.Sprintf("more than %d bytes", limit)}
	}
	if n := nesting(text); n > 4*maxNesting {
		return nil, &LimitError{name, "brackets nested too deeply"}
	}
	defer func() {
		if r := recover(); r != nil { // a fault of the parser must not become the caller's
			file, err = nil, &SyntaxError{Name: name, Message: fmt.Sprint("cannot be parsed: ", r)}
		}
	}()
	file, err = syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), name)
	if err != nil {
		var pe syntax.ParseError
		if errors.As(err, &pe) {
			return nil, &SyntaxError{name, int(pe.Pos.Line()), int(pe.Pos.Col()), pe.Text}
		}
		return nil, &SyntaxError{Name: name, Message: err.Error()}
	}
	depth, deepest := 0, 0
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			depth--
			return true
		}
		depth++
		deepest = max(deepest, depth)
		return deepest <= 16*maxNesting
	})
	if deepest > 16*maxNesting {
		return nil, &LimitError{name, "statements nested too deeply"}
	}
	return file, nil
}

// nesting is the deepest run of open brackets, whatever quotes surround them.
func nesting(text string) int {
	depth, deepest := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			depth++
			deepest = max(deepest, depth)
		case ')', '}', ']':
			depth = max(depth-1, 0)
		}
	}
	return deepest
}

// reading is a script with everything that its passes share.
type reading struct {
	opts   Options
	name   string
	inside string
	text   string
	batch  map[string]sbatch
}

// probe is the one thing that a pass answers and the first did not.
type probe struct {
	variable, call, fail, file string
}

const probeValue = "3"

// pass reads the script once.
func (rd *reading) pass(ctx context.Context, pr probe) *pass {
	p := &pass{
		opts: rd.opts, name: rd.inside, facts: newFacts(), given: DefaultEnv(),
		answers: map[string]string{}, fails: map[string]bool{}, exists: map[string]bool{},
		files: newFiles(rd.opts, rd.inside), texts: map[string]string{}, missed: map[string]bool{}, seen: map[string]bool{},
	}
	for k, v := range rd.batch {
		p.given[k] = v.value
	}
	maps.Copy(p.given, rd.opts.Set)
	switch {
	case pr.variable != "":
		p.given[pr.variable] = probeValue
	case pr.call != "":
		p.answers[pr.call] = probeValue
	case pr.fail != "":
		p.fails[pr.fail] = true
	case pr.file != "":
		p.exists[pr.file] = true
	}
	file, err := p.parse(rd.inside, rd.text)
	if err != nil {
		p.stopped = err.Error()
		return p
	}
	done := make(chan *pass, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil { // a fault of the interpreter must not become the caller's
				p.stopped = fmt.Sprint("a construct that cannot be interpreted: ", r)
			}
			done <- p
		}()
		err := p.run(ctx, file, p.given, rd.opts.Args)
		if stopped := (errStopped{}); p.stopped == "" && errors.As(err, &stopped) {
			p.stopped = stopped.why
		}
		if ctx.Err() != nil && p.stopped == "" {
			p.stopped = fmt.Sprintf("not done after %v", rd.opts.Timeout)
		}
	}()
	select {
	case <-done:
		return p
	case <-ctx.Done():
	}
	// The interpreter looks at the context between statements. One that is inside a single slow expansion is left to
	// its end, and nothing of it is used.
	select {
	case <-done:
		return p
	case <-time.After(250 * time.Millisecond):
		return &pass{stopped: fmt.Sprintf("not done after %v", rd.opts.Timeout), facts: newFacts(), commands: p.snapshot()}
	}
}
