package megatron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// CheckOptions changes what CheckCommand writes. The zero value is what most callers want.
type CheckOptions struct {
	// ComputeCapability is the major compute capability of the GPU that runs the check: 8 Ampere, 9 Hopper, 10
	// Blackwell. 0 means unknown and is taken for Hopper.
	ComputeCapability int
	// Iterations is --train-iters; 0 means 3. The memory line of the first iteration lacks the optimizer state at the
	// peak, so fewer than 2 are refused.
	Iterations int
	// FullBatch keeps the layout's global batch size instead of the smallest one that reaches the same peak.
	FullBatch bool
	// DeviceMemory adds --log-device-memory-used: the memory line then also says what the whole card uses.
	DeviceMemory bool
	// BF16Gradients reduces and keeps main gradients in bf16; BF16Moments stores Adam's moments in bf16 with the
	// precision-aware optimizer.
	BF16Gradients, BF16Moments bool
	// OffloadModules are moved to the host by fine-grained activation offloading; OffloadOptimizer moves all state of the
	// optimizer.
	OffloadModules   []string
	OffloadOptimizer bool
	// MiddleStages adds stages that own no data, each through a wrapper that makes Megatron-LM train there all the same.
	// Nobody has run it yet.
	MiddleStages bool
	// Python is the interpreter; "" means python.
	Python string
}

// Variable is one environment variable.
type Variable struct {
	Name  string `json:"name"`  // such as CUDA_DEVICE_MAX_CONNECTIONS
	Value string `json:"value"` // as the environment holds it, unquoted
}

// Run is one process: the rank of one pipeline stage.
type Run struct {
	Rank  int        `json:"rank"`          // the rank that the process impersonates
	Stage int        `json:"pipeline_rank"` // that the rank sits on
	Holds string     `json:"holds"`         // what sits on the stage, in words
	Env   []Variable `json:"env"`           // complete, RANK included
	Argv  []string   `json:"argv"`          // interpreter and script first
	// Wrapped says that the script is MiddleWrapper, which stands in front of the launcher.
	Wrapped bool `json:"wrapped,omitempty"`
	// ExpectPeakAllocated is torch.cuda.max_memory_allocated as it was predicted, in bytes; null is unknown, which CheckCommand leaves.
	ExpectPeakAllocated *int64 `json:"expect_peak_allocated"`
}

// Command is a check of one layout on one GPU.
type Command struct {
	Title    string   `json:"title"`    // what it is, in one line, for people
	Comments []string `json:"comments"` // what a reader has to know, one sentence or two each
	Launcher string   `json:"launcher"` // the script in the root of Megatron-LM
	Args     Args     `json:"args"`     // the same for every run
	Runs     []Run    `json:"runs"`     // in the order in which they must run
	// Verify is the command line that judges the logs, for people; "" prints none.
	Verify string `json:"verify,omitempty"`
}

// CheckCommand writes the commands that check a layout on one GPU under Megatron-LM's fake process group: the first
// stage, the stage with the MTP layers and the last one, each as a rank that owns data and reports memory (tensor,
// context and data parallel rank 0). NVIDIA/Megatron-LM@d98e8a64dd megatron/training/arguments.py:1756, initialize.py:349,
// training.py:5525-5552, pretrain_gpt.py:374.
//
// Flex dispatchers do not run under a fake group, so tokens always go by alltoall; the global batch is cut to what the
// pipeline needs to reach its peak. Both are said in the comments. Errors are those of Training and folding.New, and a
// layout whose batch does not fill one micro-batch.
func CheckCommand(l *layout.Layout, m *arch.Model, o CheckOptions) (*Command, error) {
	if o.Iterations == 0 {
		o.Iterations = 3
	}
	if o.Iterations < 2 {
		return nil, fmt.Errorf("megatron: a check needs at least 2 iterations, not %d: the first memory line lacks optimizer state", o.Iterations)
	}
	if o.Python == "" {
		o.Python = "python"
	}
	f, err := folding.New(l.Degrees, l.Order, 1)
	if err != nil {
		return nil, err
	}
	if l.MicroBatchSize < 1 || l.NumMicrobatches() < 1 {
		return nil, fmt.Errorf("megatron: global batch %d does not fill one micro-batch of %d on each of %d data parallel ranks",
			l.GlobalBatchSize, l.MicroBatchSize, l.DP())
	}
	run := *l
	run.Dispatcher = layout.AllToAll
	if !o.FullBatch {
		run.GlobalBatchSize = checkMicrobatches(l) * l.MicroBatchSize * l.DP()
	}
	args, err := Training(&run, m)
	if err != nil {
		return nil, err
	}
	args.optimizer(o)
	args.fakeRun(m, o)

	c := &Command{
		Title:    fmt.Sprintf("One-GPU check of %s, %s", m.ID, l),
		Launcher: m.Launcher,
		Args:     args,
	}
	if c.Launcher == "" {
		c.Launcher = "pretrain_gpt.py"
	}
	env := environment(l, o)
	stages := dataStages(l.Split)
	data := len(stages)
	if o.MiddleStages {
		stages = append(stages, middleStages(l.Split, stages)...)
	}
	for i, stage := range stages {
		rank, err := f.AttentionRank(0, 0, 0, stage)
		if err != nil {
			return nil, err
		}
		vars := []Variable{{"WORLD_SIZE", strconv.Itoa(l.World)}, {"RANK", strconv.Itoa(rank)}, {"LOCAL_RANK", "0"}}
		script := c.Launcher
		if i >= data {
			script = MiddleWrapper
		}
		c.Runs = append(c.Runs, Run{
			Rank: rank, Stage: stage, Holds: holds(l.Split, stage),
			Env:     append(vars, env...),
			Argv:    append([]string{o.Python, script}, args.Argv()...),
			Wrapped: i >= data,
		})
	}
	c.Comments = comments(l, &run, m, c)
	return c, nil
}

// optimizer sets the types of main gradients and moments where they are not fp32. The precision-aware optimizer reads
// gradients in their own type and needs to be told (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/arguments.py:1196-1210,
// megatron/core/optimizer/optimizer_config.py:433-480).
func (a *Args) optimizer(o CheckOptions) {
	if o.BF16Gradients {
		a.Set("--grad-reduce-in-bf16")
	}
	if len(o.OffloadModules) > 0 {
		a.Set("--fine-grained-activation-offloading")
		a.Set("--offload-modules", o.OffloadModules...)
	}
	if o.OffloadOptimizer {
		a.Set("--use-precision-aware-optimizer")
		a.Set("--optimizer-cpu-offload")
		a.Set("--optimizer-offload-fraction", "1.0")
	}
	if !o.BF16Moments {
		return
	}
	a.Set("--use-precision-aware-optimizer")
	if o.BF16Gradients {
		a.Set("--main-grads-dtype", "bf16")
	}
	a.Set("--exp-avg-dtype", "bf16")
	a.Set("--exp-avg-sq-dtype", "bf16")
}

// fakeRun adds everything that makes a run start on one GPU without data, tokenizer or peers, and report its memory
// (layout-rules.md 4.5). --eval-interval has no default, and without one the framework divides by None even when there is
// nothing to evaluate (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/training.py:5436). NullTokenizer has exactly
// --vocab-size entries, padded like those of the real run.
func (a *Args) fakeRun(m *arch.Model, o CheckOptions) {
	a.number("--train-iters", o.Iterations)
	a.Set("--eval-iters", "0")
	a.Set("--eval-interval", "1000")
	a.Set("--lr", "1e-4")
	a.Set("--min-lr", "1e-5")
	a.Set("--lr-decay-style", "cosine")
	a.Set("--lr-warmup-iters", "1")
	a.Set("--mock-data")
	a.Set("--num-workers", "1")
	a.Set("--no-mmap-bin-files")
	a.Set("--no-create-attention-mask-in-dataloader")
	a.Set("--tokenizer-type", "NullTokenizer")
	if _, ok := a.Get("--vocab-size"); !ok {
		a.number("--vocab-size", m.VocabSize)
	}
	if m.MoE != nil {
		a.Set("--moe-router-force-load-balancing")
	}
	a.Set("--log-interval", "1")
	a.Set("--log-memory-interval", "1")
	if o.DeviceMemory {
		a.Set("--log-device-memory-used")
	}
	a.Set("--no-one-logger")
	a.Set("--fake-process-group")
}

// checkMicrobatches returns the smallest number of micro-batches per pipeline that brings the first stage into its steady
// state, so that as much is in flight as in the real run; M if the real run has fewer.
//
// In flight on stage 0 are min(M, PP) micro-batches without interleaving and min(M*VPP, w+1) chunks of them with it, where
// w = 2*(PP-1) + (VPP-1)*PP, one more under --overlap-moe-expert-parallel-comm; interleaving also needs M to be a multiple
// of PP (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/pipeline_parallel/schedules.py:930-985).
func checkMicrobatches(l *layout.Layout) int {
	peak, step := l.PP, 1
	if l.VPP > 1 {
		peak, step = 2*(l.PP-1)+(l.VPP-1)*l.PP+1, l.PP
		if l.EPOverlap {
			peak++
		}
	}
	n := step
	for n*l.VPP <= peak {
		n += step
	}
	return min(n, l.NumMicrobatches())
}

// dataStages lists the stages on which a fake run trains: first, MTP, last. Stage 0 leads because only RANK 0 compiles the
// dataset helper that the others import (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/initialize.py:183).
func dataStages(s *layout.Split) []int {
	stages := []int{0, s.PP - 1}
	for i, c := range s.Cells {
		if c.MTP > 0 {
			stages = append(stages, i%s.PP)
		}
	}
	slices.Sort(stages)
	return slices.Compact(stages)
}

// middleStages are the stages without data that are worth a run: the first of each number of layers, which of those has most
// in flight.
func middleStages(s *layout.Split, data []int) (stages []int) {
	seen := map[int]bool{}
	for stage := range s.PP {
		layers := 0
		for chunk := range s.VPP {
			layers += s.Cell(stage, chunk).Decoders
		}
		if slices.Contains(data, stage) || seen[layers] {
			continue
		}
		seen[layers] = true
		stages = append(stages, stage)
	}
	return stages
}

// environment returns what the process needs beside its place in the world. Before Blackwell a run with TP or CP above 1
// is refused unless CUDA_DEVICE_MAX_CONNECTIONS is 1; with overlapped expert communication that is only a warning, and
// the overlap wants more (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/arguments.py:1455-1479).
func environment(l *layout.Layout, o CheckOptions) (env []Variable) {
	if len(o.OffloadModules) > 0 { // layout-rules.md 4.2
		env = append(env, Variable{"NVTE_CPU_OFFLOAD_V1", "1"})
	}
	if (l.TP == 1 && l.CP == 1) || o.ComputeCapability >= 10 {
		return env
	}
	if l.EPOverlap {
		return append(env, Variable{"CUDA_DEVICE_MAX_CONNECTIONS", "32"})
	}
	return append(env, Variable{"CUDA_DEVICE_MAX_CONNECTIONS", "1"})
}

// holds says in words what sits on a stage.
func holds(s *layout.Split, stage int) string {
	var parts []string
	for chunk := range s.VPP {
		c := s.Cell(stage, chunk)
		if c.Embedding {
			parts = append(parts, "embedding")
		}
		switch {
		case c.Decoders == 1:
			parts = append(parts, fmt.Sprintf("layer %d", c.First+1))
		case c.Decoders > 1:
			parts = append(parts, fmt.Sprintf("layers %d-%d", c.First+1, c.First+c.Decoders))
		}
		if c.MTP > 0 {
			parts = append(parts, fmt.Sprintf("%d MTP", c.MTP))
		}
		if c.Loss {
			parts = append(parts, "output layer")
		}
	}
	return strings.Join(parts, ", ")
}
