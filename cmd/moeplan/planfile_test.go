package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/cmd/internal/config"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/topology"
)

// mustRun runs a command line that has to succeed, and returns what it prints.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	var out, problems bytes.Buffer
	if code := run(context.Background(), args, &out, &problems); code != exitDone {
		t.Fatalf("%q: exit %d: %s", args, code, &problems)
	}
	return out.String()
}

// ownFiles writes a model and a platform of the catalogue as files under other names.
func ownFiles(t *testing.T, dir, model, gpu string) (modelFile, gpuFile string) {
	t.Helper()
	m, err := arch.Lookup(model)
	if err != nil {
		t.Fatal(err)
	}
	p, err := topology.LookupPlatform(gpu)
	if err != nil {
		t.Fatal(err)
	}
	own, theirs := *m, *p
	own.ID, theirs.ID = "own-"+m.ID, "own-"+p.ID
	var text, figures bytes.Buffer
	if err := config.WriteModel(&text, &own); err != nil {
		t.Fatal(err)
	}
	if err := config.WritePlatform(&figures, &theirs); err != nil {
		t.Fatal(err)
	}
	modelFile, gpuFile = filepath.Join(dir, "model.yaml"), filepath.Join(dir, "gpu.yaml")
	if err := os.WriteFile(modelFile, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gpuFile, figures.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return modelFile, gpuFile
}

// verifyLine is the one line of a check that names files: those of the flags, or the plan.
var verifyLine = regexp.MustCompile(`(?m)^.*moeplan verify .*$`)

// A plan file alone gives what the question's flags and files give, whatever shape the model has.
func TestPlanFilesTravel(t *testing.T) {
	t.Setenv("MOEPLAN_CONFIG", "none")
	for _, c := range []struct{ model, gpu, flags, reason string }{
		{"qwen3-30b-a3b", "h100", "--gpus 64", "the plain case"},
		{"deepseek-v3", "gb200", "--gpus 256 --moments bf16 --grads bf16", "MLA, MTP, shared experts, a domain larger than a node"},
		{"qwen3-8b", "h100", "--gpus 16 --seq 65536 --order tp-cp-ep-pp-dp --pp 2", "a sequence beyond the model's positions, another rank order"},
		{"gpt-oss-20b", "b200", "--gpus 16 --imbalance 1.5 --headroom 20", "sliding windows, sinks, biases"},
		{"nemotron-3-nano", "h200", "--gpus 32", "a hybrid pattern"},
		{"qwen3-next-80b-a3b", "h200", "--gpus 64 --trainable-fraction 0.1", "gated delta nets, frozen weights"},
		{"qwen3-30b-a3b", "h200", "--gpus 12 --domain 4 --gpus-per-node 4 --nic-gbit 100", "figures that flags replace"},
	} {
		t.Run(c.model+" "+c.flags, func(t *testing.T) {
			dir := t.TempDir()
			modelFile, gpuFile := ownFiles(t, dir, c.model, c.gpu)
			question := append([]string{"--model", modelFile, "--gpu", gpuFile}, strings.Fields(c.flags)...)
			planned := mustRun(t, append(question, "--top", "1", "-o", "json")...)
			var result struct{ Plans []struct{ Key string } }
			if err := json.Unmarshal([]byte(planned), &result); err != nil || len(result.Plans) == 0 {
				t.Fatalf("%v: %.200s", err, planned)
			}
			away := filepath.Join(t.TempDir(), "plan.json") // another machine: the files are not there
			if err := os.WriteFile(away, []byte(planned), 0o644); err != nil {
				t.Fatal(err)
			}
			question = strings.Fields(strings.NewReplacer(" --order tp-cp-ep-pp-dp --pp 2", "").Replace(strings.Join(question, " "))) // in the layout's text
			type emission struct{ name, with, from string }
			var all []emission
			for _, form := range []string{"check", "launch", "launch --slurm", "bridge"} {
				args := strings.Fields("emit --for " + form)
				all = append(all, emission{form, mustRun(t, append(append(append([]string{}, args...), question...), result.Plans[0].Key)...), ""})
			}
			trace := append(append(strings.Fields("trace --microbatches 16 -o -"), question...), result.Plans[0].Key)
			if c.model != "nemotron-3-nano" {
				all = append(all, emission{"trace", mustRun(t, trace...), ""})
			}
			for _, f := range []string{modelFile, gpuFile} {
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
			for _, e := range all {
				if e.name == "trace" {
					e.from = mustRun(t, "trace", "--microbatches", "16", "-o", "-", "--plan", away)
				} else {
					e.from = mustRun(t, append(strings.Fields("emit --for "+e.name), "--plan", away)...)
				}
				if e.name == "check" {
					if !strings.Contains(e.from, "moeplan verify moeplan-check.rank*.log --plan "+megatron.Quote(away)) {
						t.Error("the check does not say how its log is read back without the files")
					}
					e.with, e.from = verifyLine.ReplaceAllString(e.with, ""), verifyLine.ReplaceAllString(e.from, "")
				}
				if e.with != e.from || e.with == "" {
					t.Errorf("%s (%s): of the plan file\n%s\nof the flags\n%s", e.name, c.reason, e.from, e.with)
				}
			}
			// what is written from it travels on
			again := filepath.Join(t.TempDir(), "again")
			mustRun(t, "emit", "--plan", away, "--save", again)
			if a, b := mustRun(t, "emit", "--for", "launch", "--plan", filepath.Join(again, "plan.json")), mustRun(t, "emit", "--for", "launch", "--plan", away); a != b {
				t.Errorf("the second hand differs:\n%s\n%s", a, b)
			}
		})
	}
}

// FuzzPlanFile: no plan file panics, runs long, or puts words of its own on a line of the script.
func FuzzPlanFile(f *testing.F) {
	f.Setenv("MOEPLAN_CONFIG", "none")
	const file = `{"request":{"model":%s,"platform":"h100","gpus":8,"seq_length":4096,"global_batch_size":16,"precision":"bf16","main_grads_dtype":"fp32","exp_avg_dtype":"fp32","imbalance":1,"model_spec":%s},"plans":[{"key":"tp1"}]}`
	flags := `["--num-layers","2","--hidden-size","512","--ffn-hidden-size","1024","--num-attention-heads","8","--vocab-size","1000","--normalization","RMSNorm","--swiglu","--disable-bias-linear","--position-embedding-type","rope","--untie-embeddings-and-output-weights"]`
	f.Add(fmt.Sprintf(file, `"x"`, `{"id":"x","megatron_flags":`+flags+`}`))
	f.Add(fmt.Sprintf(file, `"x"`, `{"id":"x","hf_id":"$(touch pwned)\ntouch pwned","megatron_flags":`+flags+`}`))
	f.Add(fmt.Sprintf(file, `"x"`, `{"id":"x","megatron_flags":["--spec","$(touch pwned)"]}`))
	f.Add(fmt.Sprintf(file, `"x"`, strings.Repeat("[", 5000)+strings.Repeat("]", 5000)))
	f.Add(fmt.Sprintf(file, `"qwen3-8b"`, `null`))
	f.Add(`{"request":{"platform_spec":{"id":"h100","name":"a\ntouch pwned"}},"plans":[{"key":"tp1"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		name := filepath.Join(t.TempDir(), "p.json")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var out, problems bytes.Buffer
		if code := run(context.Background(), []string{"emit", "--for", "launch", "--plan", name}, &out, &problems); code == exitDone {
			for line := range strings.Lines(out.String()) {
				if strings.HasPrefix(strings.TrimSpace(line), "touch") {
					t.Errorf("%s", &out)
				}
			}
		} else if problems.Len() == 0 {
			t.Errorf("exit %d and nothing said", code)
		}
	})
}
