package evidence

import (
	"slices"
	"strings"
)

// Megatron-Bridge writes its configuration by section, model and train and ddp, where Megatron-LM dumps arguments:
//
//   - releases before February 2026 print the whole container as YAML between two rules of dashes, later ones save the same
//     text where logger.save_config_filepath says (NVIDIA-NeMo/Megatron-Bridge@067f987df
//     src/megatron/bridge/training/setup.py:785; before b273cd371 printed there);
//   - later ones print what differs from Megatron-Core's defaults (training/config.py:1809).
//
// Both become Arguments under Megatron-LM's names: what was asked for, never what happened.

// bridgeConfig follows one dump, line by line.
type bridgeConfig struct {
	put func(name, value string)

	form    byte // 0 outside a dump, 'y' in YAML, 's' in the summary
	lines   int
	section string
	inside  string // section within the model: transformer
	key     string // whose value may follow on lines of its own
	items   []string
	rules   int // lines of = seen in a summary
}

// maxConfigLines bounds one dump: a whole one has some 1,500 lines.
const maxConfigLines = 20000

const (
	bridgeSummary = "Configuration Summary (Non-Default Values vs Megatron Core)"
	bridgeTarget  = "_target_: "
	bridgeClass   = "ConfigContainer"
	bridgeDefault = "  (Mcore default: "
)

// bridgeNames are the arguments that sections other than the model's decide, by their keys; a ! before the name turns a truth
// around. Of the model every other key is an argument.
var bridgeNames = map[string]map[string]string{
	"model": {"num_moe_experts": "num_experts"},
	"train": {"micro_batch_size": "micro_batch_size", "global_batch_size": "global_batch_size", "train_iters": "train_iters",
		"rampup_batch_size": "rampup_batch_size", "manual_gc": "manual_gc"},
	"dataset": {"seq_length": "seq_length", "sequence_length": "seq_length"},
	"ddp": {"overlap_grad_reduce": "overlap_grad_reduce", "overlap_param_gather": "overlap_param_gather", "use_distributed_optimizer": "use_distributed_optimizer",
		"grad_reduce_in_fp32": "!grad_reduce_in_bf16", "average_in_collective": "ddp_average_in_collective", "bucket_size": "ddp_bucket_size",
		"use_megatron_fsdp": "use_megatron_fsdp", "num_distributed_optimizer_instances": "num_distributed_optimizer_instances"},
	"optimizer": {"optimizer": "optimizer", "lr": "lr", "min_lr": "min_lr", "weight_decay": "weight_decay", "clip_grad": "clip_grad",
		"exp_avg_dtype": "exp_avg_dtype", "exp_avg_sq_dtype": "exp_avg_sq_dtype", "main_grads_dtype": "main_grads_dtype",
		"main_params_dtype": "main_params_dtype", "use_precision_aware_optimizer": "use_precision_aware_optimizer",
		"optimizer_cpu_offload": "optimizer_cpu_offload", "optimizer_offload_fraction": "optimizer_offload_fraction"},
	"profiling": {"use_pytorch_profiler": "profile", "use_nsys_profiler": "profile"},
}

// line takes a line of a log. It is true where the line belongs to a dump.
func (b *bridgeConfig) line(line string) bool {
	switch {
	case strings.HasPrefix(line, bridgeTarget) && strings.HasSuffix(strings.TrimSpace(line), bridgeClass):
		*b = bridgeConfig{put: b.put, form: 'y'}
		return true
	case strings.HasPrefix(line, bridgeSummary):
		*b = bridgeConfig{put: b.put, form: 's'}
		return true
	case b.form == 0:
		return false
	}
	if b.lines++; b.lines > maxConfigLines {
		b.form = 0
		return false
	}
	if b.form == 's' {
		return b.summary(line)
	}
	if b.yaml(line) {
		return true
	}
	b.flush()
	b.form = 0
	return false
}

// summary takes a line of the summary. It is false of what another rank printed into it.
func (b *bridgeConfig) summary(line string) bool {
	switch {
	case strings.HasPrefix(line, "===="):
		if b.rules++; b.rules == 2 {
			b.form = 0
		}
		return true
	case strings.HasPrefix(line, "["):
		name, _, ok := strings.Cut(line[1:], "]")
		if ok = ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") == ""; ok {
			b.section = name
		}
		return ok
	case strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   "):
		key, value, ok := keyValue(line[2:])
		if ok {
			value, _, _ = strings.Cut(value, bridgeDefault)
			b.give(key, pythonText(value))
		}
		return ok
	}
	return false
}

// yaml takes a line of the YAML form, whose sections are indented by two; false is its end: a line that no such file holds.
func (b *bridgeConfig) yaml(line string) bool {
	text := strings.TrimLeft(line, " ")
	depth := len(line) - len(text)
	if text == "" {
		return true
	}
	if _, _, key := keyValue(text); !key && !strings.HasPrefix(text, "- ") && depth < 4 {
		return false
	}
	if b.inside != "" {
		switch {
		case depth >= 4:
			depth -= 2
		default:
			b.flush()
			b.inside = ""
		}
	}
	switch {
	case depth == 0 && !strings.HasPrefix(text, "- "):
		b.flush()
		key, value, ok := keyValue(text)
		if b.section = ""; ok && value == "" {
			b.section = key
		}
		return ok
	case depth == 2 && strings.HasPrefix(text, "- "):
		if b.key != "" && len(b.items) < 1<<10 {
			b.items = append(b.items, "'"+pythonText(text[2:])+"'")
		}
	case depth == 2:
		b.flush()
		key, value, ok := keyValue(text)
		switch {
		case !ok:
		case key == "transformer" && b.section == "model" && value == "":
			b.inside = key
		case value == "":
			b.key = key
		default:
			b.give(key, pythonText(value))
		}
	case depth == 4 && b.key != "" && strings.HasPrefix(text, bridgeTarget): // a type: torch.bfloat16
		b.give(b.key, pythonText(text[len(bridgeTarget):]))
		b.key = ""
	}
	return true
}

// flush ends a value that was spread over lines.
func (b *bridgeConfig) flush() {
	if b.key != "" && len(b.items) > 0 {
		b.give(b.key, "["+strings.Join(b.items, ", ")+"]")
	}
	b.key, b.items = "", nil
}

// give hands a value on under its name as an argument.
func (b *bridgeConfig) give(key, value string) {
	name := bridgeNames[b.section][key]
	if name == "" && b.section == "model" {
		name = key
	}
	turned, not := strings.CutPrefix(name, "!")
	switch {
	case name == "" || strings.HasPrefix(key, "_"):
		return
	case not && value != "True" && value != "False":
		return
	case not:
		name, value = turned, python(value == "False")
	case name == "profile" && value != "True":
		return // one of two switches
	case value == "None" && strings.HasSuffix(name, "_size") && name != "virtual_pipeline_model_parallel_size":
		return // follows another size
	}
	b.put(name, value)
}

// keyValue reads "key: value"; the value is "" where it follows on other lines.
func keyValue(text string) (key, value string, ok bool) {
	key, value, ok = strings.Cut(strings.TrimRight(text, " \r"), ":")
	if !ok || key == "" || len(key) > 100 || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || value != "" && value[0] != ' ' {
		return "", "", false
	}
	return key, strings.TrimSpace(value), true
}

// pythonText is a scalar as Megatron-LM's own dump prints it: True, None, text without quotes.
func pythonText(value string) string {
	value = strings.TrimSpace(value)
	switch value {
	case "true":
		return "True"
	case "false":
		return "False"
	case "null", "~":
		return "None"
	}
	if n := len(value); n >= 2 && (value[0] == '\'' || value[0] == '"') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}

// put keeps an argument, or the fact that two dumps in the log disagree.
func (l *logReader) put(name, value string) {
	if len(value) > maxValue {
		return
	}
	old, seen := l.log.Arguments[name]
	switch {
	case !seen && len(l.log.Arguments) < maxArguments:
		l.log.Arguments[strings.Clone(name)] = strings.Clone(value)
	case seen && old != value && name != "rank" && !slices.Contains(l.log.Conflicts, name):
		l.log.Conflicts = append(l.log.Conflicts, strings.Clone(name))
	}
}
