package script

import (
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// launch is a command line taken apart: what it is started through, what starts it, what is started.
type launch struct {
	wrappers []string
	options  map[string][]string // of wrappers and launcher: "srun" -> its words
	env      map[string]string   // given by env
	launcher string
	program  string
	module   bool
	args     []string

	text string // a script given as a string, to be read in turn
	name string // what to call it
	file string // a script given as a file
}

var (
	shells = []string{"bash", "sh", "dash", "zsh", "ksh", "ash"}
	// wrappers start another program that is named among their words.
	wrappers = []string{
		"env", "numactl", "taskset", "nohup", "time", "nice", "ionice", "chrt", "timeout", "setsid", "sudo", "stdbuf",
		"unbuffer", "nsys", "ncu", "nvprof", "rocprof", "rocprofv2", "rocprofv3", "dlprof", "strace", "gdb", "catchsegv",
		"srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", "jsrun", "aprun",
		"uv", "uvx", "poetry", "pdm", "hatch", "pipenv", "conda", "mamba", "micromamba", "pixi", "rye", "coverage",
		"singularity", "apptainer", "docker", "podman", "nerdctl", "enroot", "shifter", "kubectl",
		"ssh", "pdsh", "pssh", "parallel-ssh", "clush", "ray", "sbatch", "salloc", "bsub", "qsub", "xargs", "tini", "dumb-init",
	}
	// remote wrappers join their words to one string for a shell.
	remote       = []string{"ssh", "pdsh", "pssh", "parallel-ssh", "clush"}
	launchers    = []string{"torchrun", "deepspeed", "accelerate", "megatron"}
	swiftTasks   = []string{"pt", "sft", "rlhf", "export"}
	pythonName   = lazily(`^(python|pypy)[0-9.]*$`)
	torchModules = []string{"torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic.multiprocessing"}
)

func isPython(word string) bool { return pythonName().MatchString(path.Base(word)) }

func known(word string) bool {
	base := path.Base(word)
	return isPython(word) || slices.Contains(shells, base) || slices.Contains(launchers, base) || slices.Contains(wrappers, base)
}

// peel takes a command line apart. isScript says whether a word names a script that can be read. A line that starts no
// Python program has neither launcher, text nor file.
func peel(args []string, isScript func(string) bool) launch {
	l := launch{options: map[string][]string{}, env: map[string]string{}}
	for range 16 {
		if len(args) == 0 {
			return launch{}
		}
		base := path.Base(args[0])
		switch {
		case isPython(args[0]):
			return l.python(args[1:])
		case slices.Contains(shells, base):
			return l.shell(args)
		case base == "megatron":
			return l.swift(args[1:])
		case slices.Contains(launchers, base):
			return l.distributed(base, args[1:])
		case slices.Contains(wrappers, base):
			next := l.wrapped(base, args[1:], isScript)
			l.wrappers = append(l.wrappers, base)
			if l.text != "" {
				return l
			}
			l.options[base] = args[1 : len(args)-len(next)]
			args = next
		case strings.HasSuffix(base, ".sh") || strings.HasSuffix(base, ".bash") || strings.HasSuffix(base, ".slurm"):
			l.file, l.args = args[0], args[1:]
			return l
		case strings.HasSuffix(base, ".py") && strings.Contains(args[0], "/"):
			l.launcher, l.program, l.args = "python", args[0], args[1:]
			return l
		default:
			return launch{}
		}
	}
	return launch{}
}

// within adds what a script was started through to a launch inside it.
func (l launch) within(outer *launch) launch {
	if outer == nil {
		return l
	}
	l.wrappers = slices.Concat(outer.wrappers, l.wrappers)
	options := maps.Clone(outer.options)
	maps.Copy(options, l.options)
	l.options = options
	return l
}

// wrapped returns the words from the wrapped program on.
func (l *launch) wrapped(base string, words []string, isScript func(string) bool) []string {
	if base == "env" {
		for len(words) > 0 {
			if name, value, ok := strings.Cut(words[0], "="); ok && syntax.ValidName(name) {
				l.env[name] = value
				words = words[1:]
			} else if words[0] == "-u" && len(words) > 1 {
				words = words[2:]
			} else if isOption(words[0]) {
				words = words[1:]
			} else {
				break
			}
		}
		return words
	}
	if slices.Contains(remote, base) && len(words) > 0 {
		if last := words[len(words)-1]; strings.ContainsAny(last, " ;&") {
			l.text, l.name, l.args = last, base, nil
			return nil
		}
	}
	for i, w := range words {
		script := strings.HasSuffix(w, ".sh") || strings.HasSuffix(w, ".slurm") || strings.HasSuffix(w, ".sbatch")
		if base := path.Base(w); base == "megatron" && (i+1 == len(words) || !slices.Contains(swiftTasks, words[i+1])) {
			continue // the name of an environment, a container or a partition
		}
		if known(w) || script && (isScript(w) || base == "sbatch" || base == "srun") {
			if script {
				return append([]string{"bash"}, words[i:]...)
			}
			return words[i:]
		}
	}
	return nil
}

func (l launch) shell(args []string) launch {
	rest := args[1:]
	for len(rest) > 0 && isOption(rest[0]) {
		option := rest[0]
		rest = rest[1:]
		if strings.HasPrefix(option, "--") {
			if (option == "--rcfile" || option == "--init-file") && len(rest) > 0 {
				rest = rest[1:]
			}
			continue
		}
		if strings.Contains(option, "c") {
			if len(rest) == 0 {
				return launch{}
			}
			l.text, l.name = rest[0], "bash -c"
			if len(rest) > 2 {
				l.args = rest[2:]
			}
			if strings.TrimSpace(l.text) == "" {
				return launch{}
			}
			return l
		}
		if strings.Contains(option, "o") && len(rest) > 0 {
			rest = rest[1:]
		}
	}
	if len(rest) == 0 {
		return launch{}
	}
	l.file, l.args = rest[0], rest[1:]
	return l
}

func (l launch) python(words []string) launch {
	l.launcher = "python"
	for len(words) > 0 {
		w := words[0]
		switch {
		case w == "-m" && len(words) > 1:
			if slices.Contains(torchModules, words[1]) {
				return l.distributed("torchrun", words[2:])
			}
			if words[1] == "accelerate.commands.launch" {
				return l.distributed("accelerate", words[2:])
			}
			l.program, l.module, l.args = words[1], true, words[2:]
			return l
		case w == "-c" || w == "-" || w == "--version" || w == "-V":
			return launch{}
		case (w == "-W" || w == "-X") && len(words) > 1:
			words = words[2:]
		case isOption(w):
			words = words[1:]
		default:
			if path.Base(w) == "torchrun" {
				return l.distributed("torchrun", words[1:])
			}
			l.program, l.args = w, words[1:]
			return l
		}
	}
	return launch{}
}

// swift is ms-swift's own command, which starts torchrun with NNODES and NPROC_PER_NODE of the environment.
func (l launch) swift(words []string) launch {
	if len(words) == 0 || isOption(words[0]) {
		return launch{}
	}
	l.launcher, l.program, l.args = "megatron", words[0], words[1:]
	return l
}

// alone are options of torchrun, deepspeed and accelerate that take no value.
var alone = []string{
	"standalone", "no-python", "m", "module", "run-path", "use-env", "h", "help", "no-local-rank", "force-multi",
	"enable-each-rank-log", "bind-cores-to-rank", "save-pid", "multi-gpu", "use-deepspeed", "use-fsdp", "use-megatron-lm",
	"quiet", "debug", "cpu", "same-network", "no-ssh", "no-ssh-check", "enable-cpu-affinity",
}

// distributed reads torchrun and its relatives: options, then the program.
func (l launch) distributed(launcher string, words []string) launch {
	l.launcher = launcher
	if launcher == "accelerate" {
		if len(words) == 0 || words[0] != "launch" {
			return launch{}
		}
		words = words[1:]
	}
	all := words
	for len(words) > 0 && isOption(words[0]) {
		name := strings.ReplaceAll(strings.TrimLeft(words[0], "-"), "_", "-")
		words = words[1:]
		if name == "m" || name == "module" {
			l.module = true
		}
		if strings.Contains(name, "=") || slices.Contains(alone, name) {
			continue
		}
		// A value that came out empty leaves the next option or the program in its place.
		if len(words) > 0 && !isOption(words[0]) && !strings.HasSuffix(words[0], ".py") {
			words = words[1:]
		}
	}
	l.options[launcher] = all[:len(all)-len(words)]
	if len(words) == 0 {
		return l
	}
	l.program, l.args = words[0], words[1:]
	return l
}
