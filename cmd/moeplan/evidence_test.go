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

const evidenceData = "../../layout/evidence/testdata/"

// evidenceLayout is the README's first plan.
const evidenceLayout = "tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm split=Ett|(tt|)*46L"

func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

// evidenceContract writes a contract with the command and returns its file.
func evidenceContract(t *testing.T, more ...string) string {
	t.Helper()
	args := append([]string{"contract", "--model", "qwen3-235b", "--gpus", "256", evidenceLayout, "--set", "workload.data_path=/data",
		"--set", "workload.save=/ckpt"}, more...)
	code, out, errs := command(t, args...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	name := filepath.Join(t.TempDir(), "C.yaml")
	if err := os.WriteFile(name, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestVerifyCommand(t *testing.T) {
	base := []string{"--model", "qwen3-235b", "--gpus", "256", "--gpu", "h100"}
	for _, tt := range []struct {
		name   string
		args   []string
		code   int
		out    string
		err    string
		reason string
	}{
		{"holds", append([]string{"verify", evidenceData + "fake-agrees.log"}, append(base, evidenceLayout)...), 0, "stages 1-6", "", "1 % off"},
		{"layout first", append([]string{"verify", evidenceLayout, evidenceData + "fake-agrees.log"}, base...), 0, "the prediction holds", "", "words may come in any order"},
		{"deviates", append([]string{"verify", evidenceData + "fake-deviates.log"}, append(base, evidenceLayout)...), 4, "deviates", "deviates by +", "9 % off"},
		{"tolerance", append([]string{"verify", evidenceData + "fake-deviates.log", "--tolerance", "10"}, append(base, evidenceLayout)...), 0, "", "", "9 % are allowed"},
		{"out of memory", append([]string{"verify", evidenceData + "oom.log"}, append(base, evidenceLayout)...), 4, "out of memory", "ran out of memory", "it was to fit"},
		{"another layout", append([]string{"verify", evidenceData + "fake-agrees.log"}, append(base, "tp4 pp8 ep32 recompute=full")...), 4, "ANOTHER RUN", "another run", "the log's arguments are of TP 2"},
		{"first report only", append([]string{"verify", evidenceData + "core-0.11.log"}, append(base, evidenceLayout)...), 4, "lacks optimizer state", "holds 1000 parameters", "a lower bound confirms nothing, and its parameters are another model's"},
		{"a saved configuration", append([]string{"verify", evidenceData + "fake-agrees.log", evidenceData + "bridge-config.yaml"}, append(base, evidenceLayout)...), 0, "a configuration alone: what was asked for, which proves nothing", "", "it agrees, and adds nothing"},
		{"another's configuration", append([]string{"verify", evidenceData + "fake-agrees.log", evidenceData + "bridge-config.yaml"}, append(base, "tp2 pp8 vpp6 ep16 recompute=moe_act,layernorm split=Ett|(tt|)*46L")...), 4, "expert_model_parallel_size 32, the layout has 16", "another run", "Bridge was told otherwise"},
		{"no log", append([]string{"verify", evidenceLayout}, base...), 80, "", "no log", "usage"},
		{"no layout", append([]string{"verify", evidenceData + "oom.log"}, base...), 80, "", "no layout", "usage"},
		{"no file", append([]string{"verify", "none.log", evidenceLayout}, base...), 1, "", "none.log", "a file that is not there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := command(t, tt.args...)
			if code != tt.code || !strings.Contains(strings.Join(strings.Fields(out), " "), tt.out) || !strings.Contains(errs, tt.err) {
				t.Errorf("exit %d, want %d: %s\n%s%s", code, tt.code, tt.reason, out, errs)
			}
		})
	}
}

// What a verification finds goes into the calibration file, beside what is there, and later plans keep it free.
func TestVerifyCalibrates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cal.yaml")
	verify := []string{"verify", evidenceData + "fake-agrees.log", "--model", "qwen3-235b", "--gpus", "256", "--gpu", "h100", evidenceLayout, "--calibrate", file}
	for range 2 { // new, then there already
		if code, out, errs := command(t, verify...); code != 0 {
			t.Fatalf("exit %d\n%s%s", code, out, errs)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "offset_gib: 0.6") || !strings.Contains(string(text), "ranks: 2") {
		t.Fatalf("%v\n%s", err, text)
	}
	code, out, errs := command(t, "--model", "qwen3-235b", "--gpus", "256", "--gpu", "h100", "--top", "1", "--calibration", file)
	if code != 0 || !strings.Contains(out, "may take 63.0") { // 63.65 less 0.61
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	other := append(append([]string{}, verify...), "--gpu", "b200")
	if code, _, errs := command(t, other...); code != 80 || !strings.Contains(errs, "is of h100, not of b200") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestEvidenceCommand(t *testing.T) {
	plain := evidenceContract(t)
	deepep := evidenceContract(t, "--variable", "layout.moe_token_dispatcher", "--base", "alltoall", "--set", "layout.moe_token_dispatcher=deepep")
	trace := evidenceData + "trace-deepep.json.gz"
	for _, tt := range []struct {
		name   string
		args   []string
		code   int
		out    string
		err    string
		reason string
	}{
		{"A/B", []string{"evidence", "--contract", deepep, "--trace", trace, evidenceData + "faster.log", evidenceData + "base.log"}, 0, "alltoall to deepep: step time -12.7 %, noise 1.0 %: faster", "", "a matched pair"},
		{"A/B by two contracts", []string{"evidence", "--contract", deepep, "--base-contract", plain, "--trace", trace, evidenceData + "faster.log", evidenceData + "base.log"}, 0, "faster", "", "the same, spelt out"},
		{"noise", []string{"evidence", "--contract", deepep, "--trace", trace, evidenceData + "same.log", evidenceData + "base.log"}, 4, "inside the noise", "inside the noise", "no gain"},
		{"two changes", []string{"evidence", "--contract", deepep, "--trace", trace, evidenceData + "two-changes.log", evidenceData + "base.log"}, 4, "DIFFERS TOO", "rejected", "not as its contract says"},
		{"an Nsight export", []string{"evidence", "--contract", plain, "--trace", evidenceData + "nsys.sqlite", evidenceData + "base.log"}, 0, "8 exchanges and 0 gathers of NCCL in expert groups", "", "its kernels prove the dispatcher as a profiler's do"},
		{"alone", []string{"evidence", "--contract", plain, evidenceData + "base.log"}, 0, "supports a training-equivalent claim", "", "a baseline"},
		{"screen", []string{"evidence", "--contract", plain, "--strength", "screen", evidenceData + "base.log"}, 0, "a screen accepts nothing", "", "asked for less"},
		{"no base", []string{"evidence", "--contract", plain, evidenceData + "faster.log", evidenceData + "base.log"}, 80, "", "a base log needs its conditions", "usage"},
		{"no contract", []string{"evidence", evidenceData + "base.log"}, 80, "", "no --contract", "usage"},
		{"bad contract", []string{"evidence", "--contract", evidenceData + "base.log", evidenceData + "base.log"}, 80, "", "base.log:", "no YAML"},
		{"regression", []string{"evidence", "--regression", evidenceData + "faster.log", evidenceData + "base.log"}, 4, "+14.4 %", "none is called the cause", "slower, two arguments differ"},
		{"no regression", []string{"evidence", "--regression", evidenceData + "base.log", evidenceData + "faster.log"}, 0, "nothing is worse", "", "faster"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := command(t, tt.args...)
			if code != tt.code || !strings.Contains(strings.Join(strings.Fields(out), " "), tt.out) || !strings.Contains(errs, tt.err) {
				t.Errorf("exit %d, want %d: %s\n%s%s", code, tt.code, tt.reason, out, errs)
			}
			if code == 80 || code == 1 {
				return
			}
			code, out, _ = command(t, append(tt.args, "-o", "json")...)
			if code != tt.code || !json.Valid([]byte(out)) {
				t.Errorf("as JSON: exit %d\n%.300s", code, out)
			}
		})
	}
}

func TestContractCommand(t *testing.T) {
	for _, tt := range []struct {
		args []string
		err  string
	}{
		{[]string{"--set", "software.nccl=2.28"}, "did you mean software.nccl_version?"},
		{[]string{"--set", "x"}, "want FIELD=VALUE"},
		{[]string{"--variable", "layout.dispatcher"}, "did you mean layout.moe_token_dispatcher?"},
		{[]string{"--base", "x"}, "variable is blank"},
	} {
		code, _, errs := command(t, append([]string{"contract", "--model", "qwen3-235b", "--gpus", "256", evidenceLayout}, tt.args...)...)
		if code != 80 || !strings.Contains(errs, tt.err) {
			t.Errorf("%v: exit %d: %s", tt.args, code, errs)
		}
	}
}

func TestOverlapCommand(t *testing.T) {
	code, out, errs := command(t, "overlap", evidenceData+"trace.json.gz", "--log", evidenceData+"faster.log", "--gpu", "h100", "--sources")
	if code != 0 || !strings.Contains(out, "communication, EP first") || !strings.Contains(out, "comm-model.md 4.7") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, out, _ := command(t, "overlap", evidenceData+"trace.json.gz", "-o", "json"); code != 0 || !json.Valid([]byte(out)) {
		t.Errorf("exit %d\n%s", code, out)
	}
	db := filepath.Join(t.TempDir(), "run.sqlite")
	if err := os.WriteFile(db, []byte("SQLite format 3\x00rest"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := command(t, "overlap", db); code != 1 || !strings.Contains(errs, "are no database: its header alone has 100") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestEvidenceHelp: each command shows an example and its exit codes.
func TestEvidenceHelp(t *testing.T) {
	for _, name := range []string{"verify", "contract", "evidence", "overlap"} {
		code, out, _ := command(t, name, "--help")
		if code != 0 || !strings.Contains(out, "moeplan "+name) || !strings.Contains(out, "Exit codes:") {
			t.Errorf("%s --help: exit %d\n%s", name, code, out)
		}
	}
}
