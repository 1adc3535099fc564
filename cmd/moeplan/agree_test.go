package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A plan, the launch that emit writes of it, and what check says of that launch are one run: every stage has the same bytes,
// allocated and on the card, on every kind of machine and with every choice that a launch can say.
func TestPlanAndItsLaunchAgree(t *testing.T) {
	stages := func(text string, path ...string) any {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		for _, key := range path {
			if key == "0" {
				value = value.([]any)[0]
			} else {
				value = value.(map[string]any)[key]
			}
		}
		return value
	}
	for _, c := range []struct{ question, layout, reason string }{
		{"--gpus 256 --gpu gb200 --model deepseek-v3", "tp1 pp4 vpp4 ep64 recompute=mla_up_proj", "an NVLink domain of 72"},
		{"--gpus 256 --gpu h100 --model qwen3-235b", "tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm dispatcher=deepep overlap=on", "a flex dispatcher and overlap"},
		{"--gpus 64 --gpu b200 --model qwen3-30b-a3b --precision mxfp8", "tp1 pp1 ep8 mbs2", "FP8"},
		{"--gpus 16 --gpu h100 --model qwen3-30b-a3b --grads bf16 --moments bf16", "tp1 ep16 recompute=moe_act", "narrow state"},
		{"--gpus 64 --gpu h100 --model llama3-70b", "tp4 pp4", "a dense model"},
		{"--gpus 8 --gpu h200 --model mixtral-8x7b --offload optimizer", "tp2 ep8 recompute=moe_act", "state on the host"},
	} {
		name := filepath.Join(t.TempDir(), "train.sh")
		args := append(strings.Fields(c.question), c.layout)
		if err := os.WriteFile(name, []byte(mustRun(t, append([]string{"emit", "--for", "launch"}, args...)...)), 0o600); err != nil {
			t.Fatal(err)
		}
		gpu := strings.Fields(c.question)[3]
		checked := stages(mustRun(t, "check", name, "--gpu", gpu, "-o", "json"), "stages")
		saved := filepath.Join(t.TempDir(), "saved")
		mustRun(t, append([]string{"emit", "--save", saved}, args...)...)
		plan, err := os.ReadFile(filepath.Join(saved, "plan.json"))
		if err != nil {
			t.Fatal(err)
		}
		planned := stages(string(plan), "plans", "0", "stages").([]any)
		for i, p := range planned {
			if !reflect.DeepEqual(p, checked.([]any)[i]) {
				t.Errorf("%s (%s): stage %d is planned as\n%v and checked as\n%v", c.question, c.reason, i, p, checked.([]any)[i])
				break
			}
		}
	}
}
