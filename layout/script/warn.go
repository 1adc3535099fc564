package script

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

const maxProbes = 48

// warn finds out what the launches depend on: it reads the script again with one unknown thing answered at a time and
// compares.
func (rd *reading) warn(ctx context.Context, s *Script, base *pass) {
	if base.stopped != "" {
		s.Warnings = append(s.Warnings, Warning{Kind: Stopped, Message: "reading stopped: " + base.stopped + "; launches after that are not listed"})
	}
	probes := 0
	try := func(pr probe) ([]string, bool) {
		if probes >= maxProbes || ctx.Err() != nil {
			return nil, false
		}
		probes++
		other := rd.pass(ctx, pr)
		if ctx.Err() != nil {
			return nil, false
		}
		return affected(base.commands, other.commands), true
	}
	// With no launch left in the first place, everything that could bring one back matters.
	for _, name := range rd.unsetNames(base) {
		flags, done := try(probe{variable: name})
		if done && len(flags) == 0 {
			continue
		}
		at := base.facts.firstSeen[name]
		w := Warning{Kind: UnsetVariable, Name: name, File: rd.elsewhere(at.file), Line: at.line, Col: at.col, Affects: flags, Set: name + "=VALUE"}
		if base.facts.defaulted[name] {
			w.Kind = ScriptDefault
			w.Message = fmt.Sprintf("%s is not set, so the script's own default holds for %s; --set %s=VALUE changes it", name, join(flags), name)
		} else {
			w.Message = fmt.Sprintf("%s is not set, and %s depends on it; give --set %s=VALUE", name, join(flags), name)
		}
		s.Warnings = append(s.Warnings, w)
	}
	for _, r := range base.records {
		w := Warning{Kind: r.kind, Name: r.name, File: rd.elsewhere(r.at.file), Line: r.at.line, Col: r.at.col}
		switch r.kind {
		case NotExecuted:
			flags, done := try(probe{call: r.key})
			if base.facts.condition[r.key] || strings.HasPrefix(r.name, "command -v ") {
				more, also := try(probe{fail: r.key})
				flags, done = append(flags, more...), done && also
			}
			slices.Sort(flags)
			w.Affects = slices.Compact(flags)
			if done && len(flags) == 0 {
				continue
			}
			w.Message = fmt.Sprintf("%s was not executed, and %s depends on it", r.name, join(w.Affects))
			if v := base.facts.assigned[r.key]; v != "" {
				w.Set = v + "=VALUE"
				w.Message += "; give --set " + w.Set
			}
		case FileTest:
			flags, done := try(probe{file: r.key})
			if done && len(flags) == 0 {
				continue
			}
			w.Affects = flags
			w.Message = fmt.Sprintf("%s was taken not to exist, and %s depends on it", r.name, join(flags))
		case NotRead:
			w.Message = fmt.Sprintf("%s was not read: what it sets is missing", r.name)
		case ScriptError:
			w.Message = r.name
		}
		s.Warnings = append(s.Warnings, w)
	}
}

// elsewhere is the file of a place, or "" for the script itself.
func (rd *reading) elsewhere(file string) string {
	if file == rd.inside {
		return ""
	}
	return file
}

// unsetNames are the variables that were read and that nobody set, in the order of their first reading.
func (rd *reading) unsetNames(p *pass) []string {
	var names []string
	for name := range p.missed {
		if _, read := p.facts.firstSeen[name]; read && !p.facts.arrays[name] {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := p.facts.firstSeen[a], p.facts.firstSeen[b]
		if x.file != y.file {
			return strings.Compare(x.file, y.file)
		}
		if x.line != y.line {
			return x.line - y.line
		}
		if x.col != y.col {
			return x.col - y.col
		}
		return strings.Compare(a, b)
	})
	return names
}

// affected names the flags in which two lists of launches differ, "launch" where launches come or go.
func affected(a, b []Command) []string {
	var flags []string
	if len(a) != len(b) {
		flags = append(flags, "launch")
	}
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		if x.Program != y.Program || x.Launcher != y.Launcher || x.Line != y.Line {
			flags = append(flags, "launch")
			continue
		}
		if x.World.N != y.World.N || x.Nodes.N != y.Nodes.N || x.PerNode.N != y.PerNode.N {
			flags = append(flags, "world size")
		}
		flags = append(flags, differing(x.Args, y.Args)...)
		for _, k := range sortedKeys(x.Env) {
			if relevantEnv(k) && x.Env[k] != y.Env[k] {
				flags = append(flags, k)
			}
		}
	}
	slices.Sort(flags)
	return slices.Compact(flags)
}

// relevantEnv are the variables that change memory or legality.
func relevantEnv(name string) bool {
	return strings.HasPrefix(name, "NVTE_") || slices.Contains([]string{
		"CUDA_DEVICE_MAX_CONNECTIONS", "PYTORCH_CUDA_ALLOC_CONF", "WORLD_SIZE", "NNODES", "NPROC_PER_NODE",
	}, name)
}

// differing compares two argument lists flag by flag.
func differing(a, b []string) []string {
	x, y := byFlag(a), byFlag(b)
	var flags []string
	for _, k := range sortedKeys(x) {
		if v, ok := y[k]; !ok || v != x[k] {
			flags = append(flags, k)
		}
	}
	for _, k := range sortedKeys(y) {
		if _, ok := x[k]; !ok {
			flags = append(flags, k)
		}
	}
	return flags
}

func byFlag(args []string) map[string]string {
	m, flag := map[string]string{}, "argument"
	for _, a := range args {
		name, value, joined := strings.Cut(a, "=")
		switch {
		case strings.HasPrefix(a, "--") || joined && !isOption(a) && strings.Contains(name, "."):
			flag = name
			m[flag] += "\x00" + value
		default:
			m[flag] += "\x00" + a
		}
	}
	return m
}

func join(flags []string) string {
	switch {
	case len(flags) == 0:
		return "something"
	case len(flags) > 6:
		return strings.Join(flags[:6], ", ") + fmt.Sprintf(" and %d more", len(flags)-6)
	}
	return strings.Join(flags, ", ")
}
