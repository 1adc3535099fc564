package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// Bounds of one reading, beside those of Options.
const (
	maxVariableBytes = 8 << 20  // all variables together
	maxGrowthBytes   = 64 << 20 // what one statement may put together
	maxArgumentBytes = 32 << 20 // arguments of all calls together
	maxArguments     = 1 << 16  // of one call
	maxFrames        = 6000     // Go stack frames, hence nesting of functions and substitutions
	maxNesting       = 300      // syntax tree
	maxScripts       = 8        // bash -c inside bash -c
	maxCommands      = 256      // launches
	maxRecords       = 512      // programs not executed, files not read
)

// Where the script seems to be. Nothing of this exists.
const (
	workDir   = "/work"
	homeDir   = "/home/moeplan"
	nowhere   = "/dev/null/moeplan" // below a file: cannot exist, cannot be created
	sourceDir = nowhere + "/source"
)

// DefaultEnv is the environment in which scripts seem to run, beside Options.Set and what their #SBATCH lines say.
func DefaultEnv() map[string]string {
	return map[string]string{
		"HOME": homeDir, "PWD": workDir, "USER": "moeplan", "LOGNAME": "moeplan", "HOSTNAME": "localhost",
		"SHELL": "/bin/bash", "PATH": nowhere + "/bin", "LANG": "C", "TERM": "dumb", "TMPDIR": nowhere,
		"BASH_VERSION": "5.2.0(1)-release", "OSTYPE": "linux-gnu", "UID": "1000", "EUID": "1000", "GID": "1000",
		"OLDPWD": workDir, "!": "4243", "SHLVL": "1", "PYTHONPATH": "", "LD_LIBRARY_PATH": "",
	}
}

// errStopped ends a reading at a limit.
type errStopped struct{ why string }

func (e errStopped) Error() string { return "stopped: " + e.why }

// record is something that a script asked for and did not get.
type record struct {
	kind WarningKind
	name string
	key  string // what probing answers: the place of a call, or a path
	at   place
}

// pass is one reading of a script: interpreter, limits, and what it saw.
type pass struct {
	opts    Options
	name    string // of the script, as a path below workDir
	facts   *facts
	given   map[string]string // environment: defaults, #SBATCH, Set
	answers map[string]string // output of calls, by place: what is probed
	fails   map[string]bool   // calls that fail, by place: what is probed
	exists  map[string]bool   // paths that exist: what is probed

	files    *files
	texts    map[string]string // rewritten sources by their path below sourceDir
	calls    int
	argBytes int
	scripts  int
	outer    *launch         // what the script at hand was started through, if another one started it
	missed   map[string]bool // variables that were looked for and not set
	records  []record
	seen     map[string]bool
	mu       sync.Mutex
	commands []Command
	stopped  string
}

func (p *pass) note(r record) {
	id := string(r.kind) + "\x00" + r.key + "\x00" + r.name
	if p.seen[id] || len(p.records) >= maxRecords {
		return
	}
	p.seen[id] = true
	p.records = append(p.records, r)
}

// lookup makes the pass the interpreter's outermost environment.
type lookup struct {
	p    *pass
	vars map[string]string
}

func (e lookup) Get(name string) expand.Variable {
	if v, ok := e.vars[name]; ok {
		return expand.Variable{Set: true, Exported: syntax.ValidName(name), Kind: expand.String, Str: v}
	}
	if name == "BASH_SOURCE" {
		return expand.Variable{Set: true, Kind: expand.Indexed, List: []string{workDir + "/" + e.p.name}}
	}
	if syntax.ValidName(name) && !strings.HasPrefix(name, hidden) {
		e.p.missed[name] = true
	}
	return expand.Variable{}
}

func (e lookup) Each(fn func(string, expand.Variable) bool) {
	for _, name := range sortedKeys(e.vars) {
		if syntax.ValidName(name) && !fn(name, e.Get(name)) {
			return
		}
	}
}

// run interprets a rewritten file in a fresh shell.
func (p *pass) run(ctx context.Context, file *syntax.File, vars map[string]string, args []string) error {
	r, err := interp.New(
		interp.Env(lookup{p, vars}),
		interp.Dir("/"),
		interp.Params(append([]string{"--"}, args...)...),
		interp.StdIO(nil, plainOutput{}, plainOutput{}),
		interp.CallHandler(p.call),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return p.exec }),
		interp.OpenHandler(p.open),
		interp.StatHandler(p.stat),
		interp.AccessHandler(p.access),
		interp.ReadDirHandler2(p.readDir),
	)
	if err != nil {
		return err
	}
	r.Dir = workDir
	if d := vars["PWD"]; strings.HasPrefix(d, "/") {
		r.Dir = d
	}
	return r.Run(ctx, file)
}

// runText parses, rewrites and runs a script that another one starts, such as the string of bash -c.
func (p *pass) runText(ctx context.Context, name, text string, vars map[string]string, args []string) error {
	if p.scripts >= maxScripts {
		return p.stop("scripts inside scripts, more than %d deep", maxScripts)
	}
	file, err := p.parse(name, text)
	if err != nil {
		p.note(record{kind: ScriptError, name: err.Error(), key: name})
		return nil
	}
	p.scripts++
	defer func() { p.scripts-- }()
	err = p.run(ctx, file, vars, args)
	if stopped := (errStopped{}); errors.As(err, &stopped) || ctx.Err() != nil {
		return err
	}
	return nil
}

func (p *pass) parse(name, text string) (*syntax.File, error) {
	file, err := parseBash(name, text, p.opts.MaxBytes)
	if err != nil {
		return nil, err
	}
	(&rewriter{file: name, set: p.opts.Set, facts: p.facts}).rewrite(file)
	return file, nil
}

func (p *pass) stop(format string, args ...any) error {
	if p.stopped == "" {
		p.stopped = fmt.Sprintf(format, args...)
	}
	return errStopped{p.stopped}
}

// checkCall counts a call against the limits.
func (p *pass) checkCall(args []string) error {
	p.calls++
	if p.calls > p.opts.MaxCalls {
		return p.stop("more than %d commands", p.opts.MaxCalls)
	}
	if len(args) > maxArguments {
		return p.stop("a command with more than %d arguments", maxArguments)
	}
	for _, a := range args {
		p.argBytes += len(a) + 16
	}
	if p.argBytes > maxArgumentBytes {
		return p.stop("commands with more than %d MiB of arguments", maxArgumentBytes>>20)
	}
	var pc [1]uintptr
	if runtime.Callers(maxFrames, pc[:]) > 0 {
		return p.stop("functions or substitutions nested too deeply")
	}
	return nil
}

// checkGrowth refuses a statement that could put together more than maxGrowthBytes, and variables that are too large.
func (p *pass) checkGrowth(env expand.Environ, weight, repl int) error {
	total, longest := 0, 0
	env.Each(func(_ string, v expand.Variable) bool {
		add := func(s string) { total += len(s) + 16; longest = max(longest, len(s)) }
		add(v.Str)
		for _, s := range v.List {
			add(s)
		}
		for k, s := range v.Map {
			add(k)
			add(s)
		}
		return total <= maxVariableBytes
	})
	if total > maxVariableBytes {
		return p.stop("variables of more than %d MiB", maxVariableBytes>>20)
	}
	bound := float64(total) * float64(weight)
	switch {
	case repl > 0:
		bound *= float64(1 + repl)
	case repl < 0:
		bound *= 1 + float64(-repl)*float64(longest)
	}
	if bound > maxGrowthBytes {
		return p.stop("a statement that could make a value of more than %d MiB", maxGrowthBytes>>20)
	}
	return nil
}

// plainOutput is standard output and error: nothing reads them.
type plainOutput struct{}

func (plainOutput) Write(b []byte) (int, error) { return len(b), nil }

// discardFile is what every opened file is when written to.
type discardFile struct{ io.Reader }

func (discardFile) Write(b []byte) (int, error) { return len(b), nil }
func (discardFile) Close() error                { return nil }

// open is the interpreter's only way to a file. Writing goes nowhere; reading reaches the caller's fs.FS.
func (p *pass) open(ctx context.Context, name string, flag int, _ os.FileMode) (io.ReadWriteCloser, error) {
	if text, ok := p.texts[name]; ok {
		return discardFile{strings.NewReader(text)}, nil
	}
	if flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		return discardFile{strings.NewReader("")}, nil
	}
	hc := interp.HandlerCtx(ctx)
	text, ok := p.files.read(name, hc.Dir)
	if !ok && name != noneFile && name != "/dev/null" {
		p.note(record{kind: NotRead, name: name, key: name, at: atPlace(hc)})
	}
	return discardFile{strings.NewReader(text)}, nil
}

func (p *pass) stat(ctx context.Context, name string, _ bool) (fs.FileInfo, error) {
	if info, ok := p.files.info(name); ok {
		return info, nil
	}
	if p.exists[name] {
		return thing{name: name}, nil
	}
	p.note(record{kind: FileTest, name: name, key: name, at: atPlace(interp.HandlerCtx(ctx))})
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

func (p *pass) access(ctx context.Context, name string, _ interp.AccessMode) error {
	_, err := p.stat(ctx, name, true)
	return err
}

func (p *pass) readDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return p.files.list(name, interp.HandlerCtx(ctx).Dir)
}

func atPlace(hc interp.HandlerContext) place { return parsePlace(hc.Env.Get(atName).String()) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
