package script

import (
	"slices"
	"strconv"
	"strings"
)

// sizes derives how many processes a launch starts. A launcher's own options come first, then the wrapper that starts
// it on every node, then the environment. What is not said is not assumed, but for the launchers' own default of one.
func sizes(l launch, env map[string]string) (nodes, perNode, world Count) {
	switch l.launcher {
	case "torchrun":
		nodes = option(l.options["torchrun"], "nnodes", "torchrun")
		perNode = option(l.options["torchrun"], "nproc-per-node", "torchrun")
	case "deepspeed":
		nodes = option(l.options["deepspeed"], "num-nodes", "")
		perNode = option(l.options["deepspeed"], "num-gpus", "")
	case "accelerate":
		nodes = option(l.options["accelerate"], "num-machines", "")
		world = option(l.options["accelerate"], "num-processes", "")
	case "megatron":
		nodes, perNode = variable(env, "NNODES", 1), variable(env, "NPROC_PER_NODE", 1)
	case "python":
		nodes, perNode, world = pythonSizes(l, env)
	}
	if world.N == 0 && nodes.N > 0 && perNode.N > 0 {
		world = Count{nodes.N * perNode.N, nodes.From + " x " + perNode.From}
	}
	if world.N == 0 && world.From == "" {
		world.From = firstOf(unknown(nodes), unknown(perNode), "nothing says how many processes there are")
	}
	return nodes, perNode, world
}

func unknown(c Count) string {
	if c.N == 0 {
		return c.From
	}
	return ""
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// pythonSizes are those of a program that is started once per GPU, or that starts its own workers.
func pythonSizes(l launch, env map[string]string) (nodes, perNode, world Count) {
	for _, keys := range [][3]string{
		{"--actor-num-nodes", "--actor-num-gpus-per-node", "slime"},
		{"trainer.nnodes", "trainer.n_gpus_per_node", "verl"},
	} {
		nodes, perNode = argument(l.args, keys[0]), argument(l.args, keys[1])
		if nodes.N > 0 || perNode.N > 0 {
			return nodes, perNode, Count{}
		}
	}
	if slices.Contains(l.args, "--fake-process-group") {
		return Count{}, Count{}, variable(env, "WORLD_SIZE", 0)
	}
	if words, ok := l.options["srun"]; ok {
		nodes = firstKnown(option(words, "nodes", ""), option(words, "N", ""), variable(env, "SLURM_NNODES", 0))
		perNode = firstKnown(option(words, "ntasks-per-node", ""), variable(env, "SLURM_NTASKS_PER_NODE", 0))
		world = firstKnown(option(words, "ntasks", ""), option(words, "n", ""), variable(env, "SLURM_NTASKS", 0))
		if nodes.N > 0 && perNode.N > 0 {
			world = Count{}
		}
		return nodes, perNode, world
	}
	for _, mpi := range []string{"mpirun", "mpiexec", "orterun", "mpiexec.hydra"} {
		if words, ok := l.options[mpi]; ok {
			return Count{}, Count{}, firstKnown(option(words, "np", ""), option(words, "n", ""))
		}
	}
	return Count{}, Count{}, variable(env, "WORLD_SIZE", 0)
}

func firstKnown(counts ...Count) Count {
	for _, c := range counts {
		if c.Known() {
			return c
		}
	}
	return Count{}
}

// option finds a number among a launcher's words: --name=4, --name 4, with - or _ alike. A launcher whose name is
// given starts one where the option is missing.
func option(words []string, name, launcher string) Count {
	c := Count{}
	if launcher != "" {
		c = Count{1, launcher + "'s default"}
	}
	for i, w := range words {
		if !isOption(w) {
			continue
		}
		key, value, joined := optionWord(w)
		if strings.ReplaceAll(strings.TrimLeft(key, "-"), "_", "-") != name {
			continue
		}
		if !joined {
			if i+1 < len(words) && !isOption(words[i+1]) {
				value = words[i+1]
			}
		}
		c = number(value, key)
	}
	return c
}

// optionWord takes "--nodes=4" and "-N4" apart: a letter may have its number attached.
func optionWord(w string) (key, value string, joined bool) {
	if len(w) > 2 && w[0] == '-' && w[1] != '-' && strings.Trim(w[2:], "0123456789") == "" {
		return w[:2], w[2:], true
	}
	return strings.Cut(w, "=")
}

func argument(args []string, name string) Count {
	for i, a := range args {
		key, value, joined := strings.Cut(a, "=")
		if strings.TrimLeft(key, "+") != name {
			continue
		}
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		return number(value, name)
	}
	return Count{}
}

func variable(env map[string]string, name string, missing int) Count {
	v, ok := env[name]
	if !ok {
		if missing > 0 {
			return Count{missing, name + " is not set"}
		}
		return Count{}
	}
	return number(v, "$"+name)
}

// number reads a positive count. Ranges ("1:4"), "gpu" and "auto" are decided when the program runs.
func number(text, from string) Count {
	n, err := strconv.Atoi(text)
	switch {
	case text == "":
		return Count{0, from + " has no value"}
	case err != nil:
		return Count{0, from + " is " + strconv.Quote(shorten(text, 40))}
	case n < 1 || n > 1<<24:
		return Count{0, from + " is " + strconv.Itoa(n)}
	}
	return Count{n, from}
}

func shorten(s string, limit int) string {
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}

// sbatch is an environment variable that Slurm would set from a line of the script.
type sbatch struct {
	value string
	line  int
}

// batchLines reads #SBATCH lines, which end at the first command, into the variables that Slurm makes of them
// (slurm.schedmd.com/sbatch.html, output environment variables).
func batchLines(text string) map[string]sbatch {
	vars := map[string]sbatch{}
	names := map[string][]string{
		"nodes": {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, "N": {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"},
		"ntasks-per-node": {"SLURM_NTASKS_PER_NODE"}, "ntasks": {"SLURM_NTASKS", "SLURM_NPROCS"}, "n": {"SLURM_NTASKS", "SLURM_NPROCS"},
		"gpus-per-node": {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"}, "gres": {"SLURM_GPUS_ON_NODE"},
		"cpus-per-task": {"SLURM_CPUS_PER_TASK"}, "c": {"SLURM_CPUS_PER_TASK"}, "job-name": {"SLURM_JOB_NAME"}, "J": {"SLURM_JOB_NAME"},
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		rest, ok := strings.CutPrefix(line, "#SBATCH")
		if !ok {
			if line != "" && !strings.HasPrefix(line, "#") {
				break
			}
			continue
		}
		words := strings.Fields(rest)
		for i, w := range words {
			if strings.HasPrefix(w, "#") {
				break
			}
			key, value, joined := optionWord(w)
			key = strings.TrimLeft(key, "-")
			if !joined && i+1 < len(words) {
				value = words[i+1]
			}
			if !isOption(w) || value == "" {
				continue
			}
			if key == "gres" || key == "gpus-per-node" {
				value = value[strings.LastIndex(value, ":")+1:]
			}
			for _, name := range names[key] {
				vars[name] = sbatch{value, number}
			}
		}
	}
	if _, ok := vars["SLURM_NTASKS"]; !ok {
		n, err1 := strconv.Atoi(vars["SLURM_NNODES"].value)
		t, err2 := strconv.Atoi(vars["SLURM_NTASKS_PER_NODE"].value)
		if err1 == nil && err2 == nil && n > 0 && t > 0 && n < 1<<20 && t < 1<<10 {
			vars["SLURM_NTASKS"] = sbatch{strconv.Itoa(n * t), vars["SLURM_NNODES"].line}
		}
	}
	return vars
}
