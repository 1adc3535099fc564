package megatron

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// LaunchOptions says where a launch runs.
type LaunchOptions struct {
	// GPUsPerNode is the number of processes a node; it divides the world.
	GPUsPerNode int
	// SegmentNodes is how many neighbouring nodes must share an NVLink domain, so that consecutive ranks do; 0 where a node
	// is a domain of its own.
	SegmentNodes int
	// DomainGPUs are the GPUs of an NVLink domain; 0 is unknown. DomainRanks is how many ranks of a dispatch group share one,
	// 0 where that is unknown or not the same for all groups. Both are for HybridEP.
	DomainGPUs, DomainRanks int
	// ComputeCapability is the GPUs' major compute capability; 0 is taken for Hopper.
	ComputeCapability int
	// BF16Gradients and BF16Moments are CheckOptions'.
	BF16Gradients, BF16Moments bool
	// OffloadModules and OffloadOptimizer are CheckOptions'.
	OffloadModules   []string
	OffloadOptimizer bool
	// Slurm writes an sbatch script; without it the script runs torchrun on each node.
	Slurm bool
}

// LaunchCommand is a launch of one layout.
type LaunchCommand struct {
	Title    string     `json:"title"`    // what it is, in one line, for people
	Comments []string   `json:"comments"` // what a reader has to know, one sentence or two each
	Env      []Variable `json:"env"`      // to set on every rank, in this order
	Launcher string     `json:"launcher"` // the script in the root of Megatron-LM, such as pretrain_gpt.py
	Args     Args       `json:"args"`     // data, tokenizer and checkpoints are variables of the script
	Nodes    int        `json:"nodes"`    // how many the launch takes
	o        LaunchOptions
}

// Launch writes a real launch of a layout: torchrun on every node, or an sbatch script that starts it with srun. What no
// layout decides (data, tokenizer, learning rate, length of the run, checkpoints) stands at the top as variables to set.
//
// Errors are those of Training, a world that is no whole number of nodes, and a launcher that a shell would not read as one
// word.
func Launch(l *layout.Layout, m *arch.Model, o LaunchOptions) (*LaunchCommand, error) {
	if o.GPUsPerNode < 1 || l.World%o.GPUsPerNode != 0 && l.World > o.GPUsPerNode {
		return nil, fmt.Errorf("megatron: %d ranks are no whole number of nodes of %d GPUs", l.World, o.GPUsPerNode)
	}
	o.GPUsPerNode = min(o.GPUsPerNode, l.World)
	args, err := Training(l, m)
	if err != nil {
		return nil, err
	}
	check := CheckOptions{ComputeCapability: o.ComputeCapability, BF16Gradients: o.BF16Gradients, BF16Moments: o.BF16Moments,
		OffloadModules: o.OffloadModules, OffloadOptimizer: o.OffloadOptimizer}
	args.optimizer(check)
	args.Set("--no-create-attention-mask-in-dataloader") // a causal mask of its own would lie on the GPU with each batch
	args.Set("--eval-interval", "1000")                  // it has no default, and without one the framework stops
	args.Set("--log-interval", "1")
	args.Set("--log-throughput")
	args.Set("--log-memory-interval", "100")
	args.Set("--distributed-timeout-minutes", "60")
	c := &LaunchCommand{Title: fmt.Sprintf("Launch of %s, %s", m.ID, l), Launcher: m.Launcher, Args: args,
		Nodes: l.World / o.GPUsPerNode, o: o}
	if c.Launcher == "" {
		c.Launcher = "pretrain_gpt.py"
	}
	if Quote(c.Launcher) != c.Launcher { // srun hands it to a shell
		return nil, fmt.Errorf("megatron: launcher %s of %s: letters, digits and _@%%+=:,./- only", quoted(c.Launcher), m.ID)
	}
	c.Env = append(environment(l, check), launchEnvironment(l, o)...)
	c.Comments = launchComments(l, o)
	return c, nil
}

// launchEnvironment is what a real run wants beside what the framework insists on: segments of the allocator that grow
// (NVIDIA-NeMo/Megatron-Bridge@067f987df docs/performance-guide.md), and HybridEP's view of the NVLink domains: how many
// ranks of a dispatch group one holds, its GPUs, and whether it reaches over nodes (comm-model.md 2.4, from Bridge's
// src/megatron/bridge/perf_recipes). HybridEP finds out by itself what is not said.
func launchEnvironment(l *layout.Layout, o LaunchOptions) []Variable {
	env := []Variable{{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}}
	if l.Dispatcher != layout.HybridEP {
		return env
	}
	if o.DomainRanks > 0 {
		env = append(env, Variable{"NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN", strconv.Itoa(o.DomainRanks)})
	}
	if o.DomainGPUs > 0 {
		overNodes := "0"
		if o.DomainGPUs > o.GPUsPerNode {
			overNodes = "1"
		}
		env = append(env, Variable{"NVLINK_DOMAIN_SIZE", strconv.Itoa(o.DomainGPUs)}, Variable{"USE_MNNVL", overNodes})
	}
	return env
}

func launchComments(l *layout.Layout, o LaunchOptions) []string {
	out := []string{"Run it in the root of a Megatron-LM checkout (Core 0.16 or later) with Transformer Engine. Set the variables below first."}
	if o.SegmentNodes > 1 {
		out = append(out, fmt.Sprintf("Consecutive ranks must share an NVLink domain: the scheduler has to place segments of %d nodes together.", o.SegmentNodes))
	}
	if l.Dispatcher == layout.AllToAll {
		out = append(out, "This is the bring-up state: alltoall dispatcher, eager, no expert overlap. Change one variable at a time afterwards (moeplan next).")
	}
	return out
}

// dataFlags are what the script's variables become.
const dataFlags = `"${DATA_ARGS[@]}"`

// Script renders the launch as a bash script.
func (c *LaunchCommand) Script() string {
	var b strings.Builder
	b.WriteString("#!/usr/bin/env bash\n")
	if c.o.Slurm {
		fmt.Fprintf(&b, "#SBATCH --nodes=%d\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=%d\n#SBATCH --exclusive\n", c.Nodes, c.o.GPUsPerNode)
		if c.o.SegmentNodes > 1 {
			fmt.Fprintf(&b, "#SBATCH --segment=%d\n", c.o.SegmentNodes)
		}
	}
	comment(&b, c.Title)
	b.WriteString("#\n")
	for _, text := range c.Comments {
		comment(&b, text)
	}
	b.WriteString(`set -euo pipefail

DATA_ARGS=(
  --data-path ${DATA_PATH:-/set/DATA_PATH}
  --tokenizer-type HuggingFaceTokenizer
  --tokenizer-model "${TOKENIZER:-/set/TOKENIZER}"
  --train-iters "${TRAIN_ITERS:-1000}"
  --lr "${LR:-1e-4}"
  --min-lr "${MIN_LR:-1e-5}"
  --lr-decay-style cosine
  --lr-warmup-iters "${WARMUP_ITERS:-100}"
)
`)
	for _, v := range c.Env {
		fmt.Fprintf(&b, "export %s=%s\n", v.Name, Quote(v.Value))
	}
	if !c.o.Slurm {
		fmt.Fprintf(&b, "\ntorchrun --nnodes %d --nproc-per-node %d --node-rank \"${NODE_RANK:-0}\" \\\n"+
			"  --master-addr \"${MASTER_ADDR:-localhost}\" --master-port \"${MASTER_PORT:-29500}\" \\\n", c.Nodes, c.o.GPUsPerNode)
		b.WriteString("  ")
		command(&b, append([]string{c.Launcher}, c.Args.Argv()...))
		fmt.Fprintf(&b, " \\\n  %s\n", dataFlags)
		return b.String()
	}
	// srun starts one torchrun a node; its node number is known only there.
	b.WriteString("MASTER_ADDR=\"${MASTER_ADDR:-$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)}\"\nexport MASTER_ADDR\n\nTRAIN=(\n")
	for _, f := range c.Args {
		words := append([]string{f.Name}, f.Values...)
		for i := range words {
			words[i] = Quote(words[i])
		}
		fmt.Fprintf(&b, "  %s\n", strings.Join(words, " "))
	}
	fmt.Fprintf(&b, ")\nsrun bash -c 'torchrun --nnodes %d --nproc-per-node %d --node-rank \"$SLURM_NODEID\" \\\n"+
		"  --master-addr \"$MASTER_ADDR\" --master-port \"${MASTER_PORT:-29500}\" %s \"$@\"' moeplan \\\n  \"${TRAIN[@]}\" %s\n",
		c.Nodes, c.o.GPUsPerNode, c.Launcher, dataFlags)
	return b.String()
}
