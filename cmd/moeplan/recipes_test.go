package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
)

func TestRecipes(t *testing.T) {
	for _, c := range []struct {
		reason, args string
		exit         int
		want         string // in standard output, or in standard error where the exit code is not 0
	}{
		{"by model, GPU and count", "recipes --model dsv3 --gpu GB300 --gpus 256", 0, "r0741"},
		{"by words, in any order", "recipes hybridep kimi", 0, "kimi-k2"},
		{"what was measured", "recipes r0741", 0, "1635 TFLOPS"},
		{"CSV", "recipes r0741 -o csv", 0, "id,model,gpu,gpus,precision"},
		{"Markdown", "recipes r0741 -o markdown", 0, "| r0741"},
		{"nothing matches", "recipes no-such-word", 80, "no published layout matches"},
		{"a model that is not known", "recipes --model qwen9", 80, "unknown model"},
		{"a number that cannot be meant", "recipes --gpus -1", 80, "not positive"},
	} {
		var out, problems bytes.Buffer
		code := run(context.Background(), strings.Fields(c.args), &out, &problems)
		text := out.String()
		if c.exit != 0 {
			text = problems.String()
		}
		if code != c.exit || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit %d, want %d; output %q, want %q in it", c.reason, code, c.exit, text, c.want)
		}
	}
}

func TestRecipesJSON(t *testing.T) {
	var out bytes.Buffer
	if code := run(context.Background(), []string{"recipes", "r0741", "-o", "json"}, &out, &out); code != 0 {
		t.Fatalf("exit %d: %s", code, &out)
	}
	var got []map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != 1 {
		t.Fatalf("%d records: %v", len(got), err)
	}
	for key, want := range map[string]any{
		"id": "r0741", "model_id": "deepseek-v3", "expert_model_parallel_size": 32.0, "tflops_per_gpu": 1635.0,
		"mfu_percent": nil, // not stated
	} {
		if got[0][key] != want {
			t.Errorf("%s is %v, want %v", key, got[0][key], want)
		}
	}
}
