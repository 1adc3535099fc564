package script

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// translate finds the dialect of a command's arguments and writes them as Megatron-LM would have them.
func translate(c *Command) {
	c.Dialect, _ = argsDialect(c)
	switch c.Dialect {
	case Megatron:
		c.Megatron = c.Args
		c.Model = valueOf(c.Args, "--hf-checkpoint") // slime
	case Bridge:
		c.bridge()
	case Swift:
		c.swift()
	case Verl:
		c.verl()
	}
}

// ReadArgs reads an argv that stands alone, in any of the dialects: "--num-layers 94 ...", or
// "model.tensor_model_parallel_size=2 ...". A launcher in front ("torchrun --nnodes 4 pretrain_gpt.py ...") is read too.
//
// Errors: *UnsupportedError for a dialect that is recognised and not read.
func ReadArgs(name string, args []string) (*Script, error) {
	s := &Script{Name: name, Complete: true}
	c := Command{Args: args}
	if len(args) > 0 && !isOption(args[0]) && !strings.Contains(args[0], "=") {
		if l := peel(args, func(string) bool { return false }); l.launcher != "" {
			c = Command{Launcher: l.launcher, Wrappers: l.wrappers, Program: l.program, Module: l.module, Args: l.args, Env: l.env}
			c.Nodes, c.PerNode, c.World = sizes(l, l.env)
		} else if strings.HasSuffix(args[0], ".py") {
			c.Program, c.Args = args[0], args[1:]
		}
	}
	translate(&c)
	_, s.Why = argsDialect(&c)
	s.Dialect = c.Dialect
	s.Commands = []Command{c}
	return s, onlyUnsupported(s)
}

// onlyUnsupported is the error for a script that launches something, but nothing that can be read.
func onlyUnsupported(s *Script) error {
	var first *UnsupportedError
	for i := range s.Commands {
		c := &s.Commands[i]
		if c.Dialect.Supported() && len(c.Megatron) > 0 {
			return nil
		}
		if _, why := argsDialect(c); first == nil && c.Dialect != Unknown && !c.Dialect.Supported() {
			first = &UnsupportedError{s.Name, c.Dialect, why}
		}
	}
	if first == nil {
		return nil
	}
	return first
}

var (
	verlKey        = lazily(`^\+{0,2}actor_rollout_ref\.`)
	nemoKey        = lazily(`^\+{0,2}(trainer\.(num_nodes|devices)|exp_manager\.|model\.megatron_amp)`)
	dottedOverride = lazily(`^\+{0,2}(model|train|ddp|optimizer|dataset|dist|mixed_precision|comm_overlap|checkpoint|tokenizer|logger|rng|scheduler|profiling)(\.[A-Za-z_][A-Za-z0-9_.]*)?=`)
	underscored    = lazily(`^--[a-z0-9]+(_[a-z0-9]+)+(=|$)`)
	dashedMegatron = lazily(`^--(tensor-model-parallel-size|pipeline-model-parallel-size|num-layers|hidden-size|micro-batch-size|global-batch-size|hybrid-layer-pattern|num-experts|use-mcore-models|seq-length|use-distributed-optimizer|bf16|sequence-parallel|expert-model-parallel-size|context-parallel-size|fake-process-group)$`)
)

// argsDialect says in which dialect a launch speaks, and by what it was recognised.
func argsDialect(c *Command) (Dialect, string) {
	has := func(names ...string) string {
		for _, a := range c.Args {
			name, _, _ := strings.Cut(a, "=")
			if slices.Contains(names, name) {
				return name
			}
		}
		return ""
	}
	first := func(re *regexp.Regexp) string {
		for _, a := range c.Args {
			if re.MatchString(a) {
				name, _, _ := strings.Cut(a, "=")
				return name
			}
		}
		return ""
	}
	base := path.Base(c.Program)
	switch {
	case c.Launcher == "accelerate":
		return Accelerate, "it is started with accelerate launch"
	case c.Launcher == "megatron":
		return Swift, "the command is ms-swift's megatron " + c.Program
	case strings.HasPrefix(c.Program, "torchtitan") || has("--job.config_file", "--job.config-file") != "":
		return Torchtitan, "torchtitan's program or options"
	case strings.Contains(c.Program, "verl") || first(verlKey()) != "":
		return Verl, "verl's program or keys"
	case has("--deepspeed", "--deepspeed_config", "--deepspeed-config") != "":
		return DeepSpeed, has("--deepspeed", "--deepspeed_config", "--deepspeed-config") + " is given"
	case strings.Contains(base, "megatron_gpt_") || first(nemoKey()) != "":
		return NeMo, "NeMo's Hydra keys"
	case first(dashedMegatron()) != "":
		return Megatron, first(dashedMegatron()) + " is given"
	case strings.Contains(base, "run_script") || strings.Contains(base, "run_recipe") || strings.Contains(base, "setup_experiment") || has("-mr", "--model_recipe_name") != "":
		return Bridge, "Megatron-Bridge's performance scripts"
	case first(dottedOverride()) != "":
		return Bridge, first(dottedOverride()) + " is given"
	case swiftFlag(c.Args) != "":
		return Swift, swiftFlag(c.Args) + " is given"
	}
	return Unknown, "nothing in it is known"
}

// swiftFlag is a parallel size written with underscores.
func swiftFlag(args []string) string {
	for _, a := range args {
		if name, _, _ := strings.Cut(a, "="); underscored().MatchString(a) && layoutFlags[strings.ReplaceAll(name, "_", "-")] {
			return name
		}
	}
	return ""
}

func valueOf(args []string, names ...string) string {
	v := ""
	for i, a := range args {
		name, value, joined := strings.Cut(a, "=")
		if !slices.Contains(names, name) {
			continue
		}
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		v = value
	}
	return v
}

// put adds a field to the translation, or to what is not mapped.
func (c *Command) put(field, key, value, reason string) {
	words, ok := spell(field, value)
	if !ok {
		c.Unmapped = append(c.Unmapped, Unmapped{key, value, reason})
		return
	}
	c.Megatron = append(c.Megatron, words...)
}

// assume adds a default of the dialect that Megatron-LM does not share, unless the flag is there already.
func (c *Command) assume(why string, words ...string) {
	if !slices.Contains(c.Megatron, words[0]) {
		c.Megatron = append(c.Megatron, words...)
		c.Assumed = append(c.Assumed, strings.Join(words, " ")+": "+why)
	}
}

// flagged groups "--name value value" and "--name=value" by name, in order.
func flagged(args []string) (pairs [][2]string, rest []string) {
	for i := 0; i < len(args); i++ {
		if !isOption(args[i]) || isNumber(args[i]) {
			rest = append(rest, args[i])
			continue
		}
		name, value, joined := strings.Cut(args[i], "=")
		var values []string
		for !joined && i+1 < len(args) && (!isOption(args[i+1]) || isNumber(args[i+1])) && !dottedOverride().MatchString(args[i+1]) {
			i++
			values = append(values, args[i])
		}
		if !joined {
			value = strings.Join(values, ",")
		}
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs, rest
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

const notInTable = "no Megatron-LM flag for it is known here"

// swift translates ms-swift's arguments (docs/source_en/Megatron-SWIFT/Command-line-parameters.md, whose defaults
// these are).
func (c *Command) swift() {
	pairs, rest := flagged(c.Args)
	for _, p := range pairs {
		field := strings.ReplaceAll(strings.TrimLeft(p[0], "-"), "-", "_")
		switch field {
		case "model", "model_id_or_path":
			c.Model = p[1]
		case "max_length":
			c.put("seq_length", p[0], p[1], notInTable)
		case "recompute_granularity":
			if p[1] == "none" {
				continue
			}
			c.put(field, p[0], p[1], notInTable)
		default:
			if s, ok := fields[field]; ok && p[1] == "" && s.kind == whenTrue {
				p[1] = "true"
			}
			c.put(field, p[0], p[1], notInTable)
		}
	}
	for _, r := range rest {
		c.Unmapped = append(c.Unmapped, Unmapped{r, "", "not a flag"})
	}
	const why = "ms-swift's default"
	c.assume(why, "--micro-batch-size", "1")
	c.assume(why, "--global-batch-size", "16")
	c.assume(why, "--expert-tensor-parallel-size", "1")
	c.assume(why, "--use-distributed-optimizer")
	c.assume(why, "--moe-token-dispatcher-type", "alltoall")
	if valueOf(c.Args, "--recompute_granularity") != "none" {
		c.assume(why, "--recompute-granularity", "selective")
	}
	if !slices.Contains(c.Megatron, "--fp16") {
		c.assume("ms-swift takes the checkpoint's torch_dtype; bfloat16 assumed", "--bf16")
	}
}

// bridge translates Megatron-Bridge's overrides (section.field=value) and the options of its performance scripts
// (scripts/performance/argument_parser.py). Both are relative to a recipe that the command only names.
func (c *Command) bridge() {
	short := map[string]string{
		"-tp": "tensor_model_parallel_size", "-pp": "pipeline_model_parallel_size", "-cp": "context_parallel_size",
		"-vp": "virtual_pipeline_model_parallel_size", "-ep": "expert_model_parallel_size", "-et": "expert_tensor_parallel_size",
		"-mb": "micro_batch_size", "-gb": "global_batch_size", "-sl": "seq_length",
	}
	pairs, rest := flagged(c.Args)
	for _, p := range pairs {
		field := firstOf(short[p[0]], strings.TrimLeft(p[0], "-"))
		switch p[0] {
		case "-ng", "--num_gpus":
			c.World = number(p[1], p[0])
			continue
		case "-gn", "--gpus_per_node":
			c.PerNode = number(p[1], p[0])
			continue
		case "-mr", "--model_recipe_name", "--recipe":
			c.Model = p[1]
			continue
		}
		c.bridgeField(field, p[0], p[1])
	}
	for _, r := range rest {
		key, value, joined := strings.Cut(strings.TrimLeft(r, "+"), "=")
		if !joined {
			c.Unmapped = append(c.Unmapped, Unmapped{r, "", "not an override"})
			continue
		}
		if key == "mixed_precision" {
			c.bridgePrecision(value)
			continue
		}
		section, field, _ := strings.Cut(key, ".")
		if !slices.Contains([]string{"model", "train", "ddp", "optimizer", "dataset"}, section) && key != "dist.use_tp_pp_dp_mapping" {
			c.Unmapped = append(c.Unmapped, Unmapped{key, value, "its section has no part in a layout"})
			continue
		}
		c.bridgeField(field, key, value)
	}
	if slices.Contains(c.Megatron, "--expert-model-parallel-size") {
		c.assume("Megatron-Bridge's default with EP > 1 since 2026-06 (PR 4579)", "--expert-tensor-parallel-size", "1")
	}
	if !slices.Contains(c.Megatron, "--pipeline-model-parallel-layout") &&
		(slices.Contains(c.Megatron, "--pipeline-model-parallel-size") || slices.Contains(c.Megatron, "--num-virtual-stages-per-pipeline-rank")) {
		c.Unmapped = append(c.Unmapped, Unmapped{"model.pipeline_model_parallel_layout", "", "PP or VPP is overridden, so a layout that the recipe brings no longer holds and must be given anew"})
	}
	c.Unmapped = append(c.Unmapped, Unmapped{"recipe", c.Model, "overrides change a recipe whose own values are not in the command"})
}

func (c *Command) bridgeField(field, key, value string) {
	if field == "virtual_pipeline_model_parallel_size" && (value == "1" || value == "-1") {
		return // the scripts' way to say "none"
	}
	c.put(field, key, value, notInTable)
}

// bridgePrecision knows the recipes that change the type of everything at once; the FP8 ones also choose what is kept
// in FP8, which differs by release.
func (c *Command) bridgePrecision(value string) {
	switch value {
	case "bf16_mixed":
		c.Megatron = append(c.Megatron, "--bf16")
	case "fp16_mixed":
		c.Megatron = append(c.Megatron, "--fp16")
	default:
		c.Unmapped = append(c.Unmapped, Unmapped{"mixed_precision", value, "what this recipe keeps in FP8 depends on the release"})
	}
}
