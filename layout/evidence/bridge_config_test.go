package evidence

import (
	_ "embed"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// bridgeYAML is a container as Megatron-Bridge saves it: sorted keys, sections indented by two, lists at the depth of their
// key, types as targets (written by hand after megatron/training/config/container.py and yaml_utils.py of Core 0.20).
//
//go:embed testdata/bridge-config.yaml
var bridgeYAML string

// bridgeSummaryText is what Bridge prints since February 2026 (training/config.py:1809).
const bridgeSummaryText = `
======================================================================
Configuration Summary (Non-Default Values vs Megatron Core)
======================================================================

[optimizer] Non-default values (vs Mcore OptimizerConfig):
  lr: 0.0003  (Mcore default: None)

[ddp] Non-default values (vs Mcore DistributedDataParallelConfig):
  grad_reduce_in_fp32: True  (Mcore default: False)
  overlap_grad_reduce: True  (Mcore default: False)

[model] Non-default values (vs Mcore TransformerConfig):
  moe_token_dispatcher_type: 'flex'  (Mcore default: 'allgather')
  recompute_modules: ['moe_act', 'layernorm']  (Mcore default: None)
  tensor_model_parallel_size: 2  (Mcore default: 1)

----------------------------------------------------------------------
Other Configuration Values:
----------------------------------------------------------------------

[train]:
  global_batch_size: 2048
  micro_batch_size: 1

[tokenizer]:
  tensor_model_parallel_size: 9

======================================================================
  expert_model_parallel_size: 64
`

func TestBridgeConfigurations(t *testing.T) {
	of := func(text string) *Log {
		t.Helper()
		log, err := ReadLog("bridge.log", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
	whole := map[string]string{"seq_length": "4096", "grad_reduce_in_bf16": "True", "overlap_grad_reduce": "True", "expert_model_parallel_size": "32",
		"moe_token_dispatcher_type": "flex", "num_experts": "128", "params_dtype": "torch.bfloat16", "activation_func": "torch.nn.functional.silu",
		"recompute_granularity": "selective", "recompute_modules": "['moe_act', 'layernorm']", "tensor_model_parallel_size": "2",
		"virtual_pipeline_model_parallel_size": "6", "expert_tensor_parallel_size": "1", "optimizer": "adam", "lr": "0.0003", "profile": "True", "global_batch_size": "2048", "micro_batch_size": "1"}
	for _, c := range []struct {
		text   string
		want   map[string]string
		reason string
	}{
		{bridgeYAML, whole, "the saved file"},
		{"> initializing\n------- Task Configuration -------\n" + bridgeYAML + "----------------------------------\n  expert_model_parallel_size: 64\nmodel:\n  hidden_size: 1\n",
			whole, "printed by older releases, and what follows is none of it"},
		{strings.ReplaceAll(bridgeYAML, "\n", "\r\n"), whole, "a file from elsewhere"},
		{bridgeSummaryText, map[string]string{"lr": "0.0003", "grad_reduce_in_bf16": "False", "overlap_grad_reduce": "True", "moe_token_dispatcher_type": "flex",
			"recompute_modules": "['moe_act', 'layernorm']", "tensor_model_parallel_size": "2", "global_batch_size": "2048", "micro_batch_size": "1"},
			"the summary of later releases: sections that are none of ours, and what follows, do not count"},
		{"_target_: megatron.bridge.training.config.ConfigContainer\nmodel:\n  transformer:\n    hidden_size: 64\n    recompute_modules:\n    - mlp\n  hidden_dropout: 0.0\ntrain:\n  micro_batch_size: 2\n",
			map[string]string{"hidden_size": "64", "recompute_modules": "['mlp']", "hidden_dropout": "0.0", "micro_batch_size": "2"}, "a model that nests its shape"},
		{"_target_: x.ConfigContainer\nmodel:\n  expert_tensor_parallel_size: null\n  virtual_pipeline_model_parallel_size: null\n  fp8: null\n",
			map[string]string{"virtual_pipeline_model_parallel_size": "None", "fp8": "None"}, "a size that follows another one says nothing"},
		{"model:\n  hidden_size: 64\n", map[string]string{}, "YAML of somebody else"},
	} {
		log := of(c.text)
		if !maps.Equal(log.Arguments, c.want) {
			t.Errorf("%s:\n got %v\nwant %v", c.reason, log.Arguments, c.want)
		}
		if len(log.Conflicts) > 0 {
			t.Errorf("%s: conflicts %v", c.reason, log.Conflicts)
		}
	}
	if log := of(bridgeYAML + "----\n" + strings.Replace(bridgeYAML, "tensor_model_parallel_size: 2", "tensor_model_parallel_size: 4", 1)); !slices.Equal(log.Conflicts, []string{"tensor_model_parallel_size"}) {
		t.Errorf("two runs in a log: conflicts %v", log.Conflicts)
	}
	if log := of("_target_: a.ConfigContainer\nmodel:\n" + strings.Repeat("\n", maxConfigLines) + "  hidden_size: 64\n"); len(log.Arguments) > 0 {
		t.Errorf("a dump without end is followed: %v", log.Arguments)
	}
	// a saved file has no end of its own: the log that follows it is one
	base, err := os.ReadFile("testdata/base.log")
	if err != nil {
		t.Fatal(err)
	}
	alone, both := of(string(base)), of(bridgeYAML+string(base))
	if len(alone.Iterations) == 0 || len(both.Iterations) != len(alone.Iterations) || len(both.Memory) != len(alone.Memory) {
		t.Errorf("%d iterations and %d ranks behind a configuration, %d and %d without it", len(both.Iterations), len(both.Memory), len(alone.Iterations), len(alone.Memory))
	}
	// what another rank prints into the summary is read, and is no section of it
	log := of(strings.Replace(bridgeSummaryText, "[train]:\n", "[train]:\n[Rank 3] (after 2 iterations) memory (MB) | allocated: 5.0 | max allocated: 7.0 | reserved: 8.0 | max reserved: 9.0\n", 1))
	if len(log.Memory) != 1 || log.Memory[0].Rank != 3 || log.Arguments["micro_batch_size"] != "1" {
		t.Errorf("memory %v, arguments %v", log.Memory, log.Arguments)
	}
}
