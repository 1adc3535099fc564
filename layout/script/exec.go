package script

import (
	"context"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
)

// exec stands in for starting a program: it notes what would be started and says that it went well.
func (p *pass) exec(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	if len(args) == 0 || args[0] == guardName {
		return status(hc.LastExitStatus) // a guard leaves $? as it is
	}
	at := atPlace(hc)
	key := at.String()
	if args[0] == haveName {
		return p.have(hc, args[1:], at)
	}
	if handled, err := p.pure(hc, args); handled {
		return err
	}
	l := peel(args, p.isScript(hc.Dir)).within(p.outer)
	switch {
	case l.text != "":
		defer p.enter(l)()
		return p.runText(ctx, l.name, l.text, p.inherited(hc.Env, l.env), l.args)
	case l.file != "":
		if abs, text, ok := p.files.find(l.file, hc.Dir); ok {
			defer p.enter(l)()
			return p.runText(ctx, strings.TrimPrefix(abs, workDir+"/"), text, p.inherited(hc.Env, l.env), l.args)
		}
		p.note(record{kind: NotRead, name: l.file, key: l.file, at: at})
		return nil
	case l.launcher != "":
		if len(p.commands) >= maxCommands {
			return p.stop("more than %d launches", maxCommands)
		}
		p.addCommand(p.command(hc, l, at))
		return nil
	}
	if slices.Contains([]string{"mkdir", "install"}, path.Base(args[0])) {
		for _, a := range args[1:] {
			if !isOption(a) {
				p.files.folders[absolute(a, hc.Dir)] = true
			}
		}
		return nil
	}
	if captured(hc.Stdout) || p.facts.condition[key] {
		p.note(record{kind: NotExecuted, name: path.Base(args[0]), key: key, at: at})
	}
	if out, ok := p.answers[key]; ok {
		io.WriteString(hc.Stdout, out+"\n")
	}
	if p.fails[key] {
		return interp.ExitStatus(1)
	}
	return nil
}

// enter makes a launch the one that the launches of its script are inside of.
func (p *pass) enter(l launch) (leave func()) {
	outer := p.outer
	p.outer = &l
	return func() { p.outer = outer }
}

func status(code int) error {
	if code == 0 {
		return nil
	}
	return interp.ExitStatus(uint8(code))
}

// captured reports whether someone reads what a program prints.
func captured(w io.Writer) bool {
	switch w.(type) {
	case plainOutput, *plainOutput, discardFile, *discardFile, *os.File:
		return false
	}
	return w != nil && w != io.Discard
}

// have answers "command -v NAME" and its relatives: everything is installed, by its own name.
func (p *pass) have(hc interp.HandlerContext, names []string, at place) error {
	key := at.String()
	if len(names) == 0 {
		return interp.ExitStatus(1)
	}
	p.note(record{kind: NotExecuted, name: "command -v " + names[0], key: key, at: at})
	if p.fails[key] {
		return interp.ExitStatus(1)
	}
	for _, n := range names {
		io.WriteString(hc.Stdout, n+"\n")
	}
	return nil
}

func (p *pass) isScript(dir string) func(string) bool {
	return func(name string) bool {
		_, _, ok := p.files.find(name, dir)
		return ok
	}
}

// inherited is what a child of the shell would find in its environment.
func (p *pass) inherited(env expand.Environ, more map[string]string) map[string]string {
	vars := DefaultEnv()
	maps.Copy(vars, exported(env))
	maps.Copy(vars, more)
	vars["TMPDIR"] = nowhere
	return vars
}

func exported(env expand.Environ) map[string]string {
	vars := map[string]string{}
	env.Each(func(name string, v expand.Variable) bool {
		if !v.IsSet() || !v.Exported || v.Kind != expand.String {
			delete(vars, name)
		} else if !strings.HasPrefix(name, hidden) {
			vars[name] = v.Str
		}
		return true
	})
	return vars
}

// command builds the answer for one launch.
func (p *pass) command(hc interp.HandlerContext, l launch, at place) Command {
	env := exported(hc.Env)
	maps.Copy(env, l.env)
	all := maps.Clone(env)
	for k, v := range DefaultEnv() {
		if env[k] == v {
			delete(env, k)
		}
	}
	for k, v := range p.given {
		if _, mine := p.opts.Set[k]; !mine && env[k] == v {
			delete(env, k) // SLURM_ variables that we made up
		}
	}
	c := Command{
		Launcher: l.launcher, Wrappers: l.wrappers, Program: l.program, Module: l.module, Args: l.args, Env: env,
		File: at.file, Line: at.line, Col: at.col,
	}
	if c.File == p.name {
		c.File = ""
	}
	c.Nodes, c.PerNode, c.World = sizes(l, all)
	translate(&c)
	return c
}

func (p *pass) addCommand(c Command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands = append(p.commands, c)
}

func (p *pass) snapshot() []Command {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.commands)
}
