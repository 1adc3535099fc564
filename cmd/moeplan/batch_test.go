package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runFile runs the program on a command line, with FILE replaced by a file of the given content.
func runFile(t *testing.T, content, line string) (code int, stdout, stderr string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, problems bytes.Buffer
	args := strings.Fields(line)
	for i := range args {
		if args[i] == "FILE" {
			args[i] = name
		}
	}
	code = run(context.Background(), args, &out, &problems)
	return code, out.String(), problems.String()
}

const llamaArgs = `["--tensor-model-parallel-size","2","--num-layers","32","--hidden-size","4096","--num-attention-heads","32","--ffn-hidden-size","14336","--swiglu","--normalization","RMSNorm","--position-embedding-type","rope","--disable-bias-linear","--group-query-attention","--num-query-groups","8","--untie-embeddings-and-output-weights","--seq-length","4096","--max-position-embeddings","4096","--micro-batch-size","1","--global-batch-size","16","--bf16","--use-distributed-optimizer","--vocab-size","128256","--sequence-parallel"]`

// A batch answers every line in order, whatever stands in it, and exits 0.
func TestBatch(t *testing.T) {
	lines := []string{
		`{"id":"a","world_size":8,"platform":"h100","env":{"CUDA_DEVICE_MAX_CONNECTIONS":"1"},"args":` + llamaArgs + `}`,
		`not json`,
		``,
		`{"id":{"any":[1,"json"]},"world_size":8,"args":["--no-such-flag"]}`,
		`{"id":7,"world_size":0,"args":[]}`,
		`{"id":8,"world_size":8}`,
		`{"world_size":8,"args":[]}`,
		`{"id":9,"world_size":8,"args":[],"megatron_version":"0.99"}`,
		`{"id":10,"world_size":8,"args":[],"platform":"h9"}`,
		`{"id":11,"world_size":8,"args":[],"checks":"some"}`,
		`{"id":12,"world_size":8,"args":[],"rank":8}`,
		`{"id":13,"world_size":8,"args":["` + strings.Repeat("x", maxLine) + `"]}`,
		`{"id":"b","world_size":6,"args":` + llamaArgs + `}`,
	}
	code, out, problems := runFile(t, strings.Join(lines, "\n"), "batch FILE")
	if code != 0 || problems != "" {
		t.Fatalf("exit %d, %s", code, problems)
	}
	var answers []map[string]any
	for line := range strings.Lines(out) {
		var a map[string]any
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("answer %q: %v", line, err)
		}
		answers = append(answers, a)
	}
	want := []struct{ id, key, reason string }{
		{`"a"`, "layout", "a legal request"},
		{`null`, "error", "no JSON: the answer says so and the batch goes on"},
		{`{"any":[1,"json"]}`, "violations", "an unknown flag is a violation, and the id comes back as it was"},
		{`7`, "error", "no ranks"},
		{`8`, "error", "args is required"},
		{`null`, "error", "id is required"},
		{`9`, "error", "unknown release"},
		{`10`, "error", "unknown platform"},
		{`11`, "error", "unknown checks"},
		{`12`, "error", "no such rank"},
		{`null`, "error", "a line without end is dropped"},
		{`"b"`, "layout", "illegal, and arithmetic still defines a layout"},
	}
	if len(answers) != len(want) {
		t.Fatalf("%d answers, want %d", len(answers), len(want))
	}
	for i, w := range want {
		id, _ := json.Marshal(answers[i]["id"])
		if string(id) != w.id || answers[i][w.key] == nil {
			t.Errorf("answer %d: id %s, %s %v; want id %s with %s (%s)", i, id, w.key, answers[i][w.key], w.id, w.key, w.reason)
		}
	}
	a := answers[0]
	if len(a["violations"].([]any)) != 0 {
		t.Errorf("a legal request breaks %v", a["violations"])
	}
	stage := a["stages"].([]any)[0].(map[string]any)
	memory := stage["memory"].(map[string]any)
	for _, key := range []string{"weights", "gradients", "optimizer", "workspace", "activations", "transient", "dense_state", "expert_state",
		"allocated_after_step", "peak_allocated", "peak_reserved", "peak_device", "peak_device_low"} {
		if _, ok := memory[key]; !ok {
			t.Errorf("memory lacks %s", key)
		}
	}
	// 8,030,261,248 parameters (data/models.json, llama3.1-8b); half on each TP rank but for the norms, which are whole.
	if total := a["parameters"].(map[string]any)["total"].(float64); total != 8030261248 {
		t.Errorf("total %g", total)
	}
	if b := answers[len(answers)-1]["violations"].([]any); len(b) == 0 {
		t.Error("6 GPUs with TP 2 and a batch of 16 break nothing")
	}
}

const launchScript = `#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nnodes ${NNODES:-1} --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size ${TP:-2} --num-layers 32 --hidden-size 4096 \
  --num-attention-heads 32 --ffn-hidden-size 14336 --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
  --group-query-attention --num-query-groups 8 --untie-embeddings-and-output-weights --seq-length 4096 --max-position-embeddings 4096 \
  --micro-batch-size 1 --global-batch-size 16 --bf16 --use-distributed-optimizer --vocab-size 128256 --sequence-parallel \
  --eval-interval 1000 --train-iters 10 --attention-dropout 0 --hidden-dropout 0
`

// Each verdict has its exit code.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		script, line string
		code         int
		want, reason string
	}{
		{launchScript, "check FILE", 0, "Megatron accepts it", "legal and fits"},
		{launchScript, "check FILE --set TP=3", 2, "heads", "TP 3 does not divide 32 heads"},
		{launchScript, "check FILE --set NNODES=3", 2, "not divisible", "a batch of 16 on DP 12"},
		{launchScript, "check FILE --gpu a100-40", 3, "NO:", "8 B on 40 GB without more"},
		{launchScript, "check FILE -o json", 0, `"key": "tp2 `, "JSON"},
		{"echo hello\n", "check FILE", 80, "", "nothing is launched"},
		{"", "check -- --num-layers 2 --no-such-flag", 80, "", "an argv without a world"},
		{"", "check --world 8 -- --num-layers 2 --fake-init-process-group", 2, "--fake-process-group", "a flag that no parser has"},
	} {
		code, out, problems := runFile(t, c.script, c.line)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit %d, want %d with %q (%s)\n%s%s", c.line, code, c.code, c.want, c.reason, out, problems)
		}
	}
}
