package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
)

// questions are the five of the first issue, with the layouts that answer them: what is emitted is tested here, not found.
var questions = []string{
	"--gpus 256 --model qwen3-235b tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm",
	"--gpus 256 --gpu gb200 --model deepseek-v3 tp1 pp4 vpp4 ep64 recompute=mla_up_proj",
	"--gpus 16 --model qwen3-30b-a3b tp2 ep16 mbs2 recompute=moe_act",
	"--gpus 64 --model llama3-70b tp4 pp4",
	"--gpus 8 --gpu h200 --model mixtral-8x7b tp2 ep8 recompute=moe_act",
}

// What is emitted for a release is what its parser takes, flag by flag, and bash reads it. emit itself asks the table of flags
// and the rules of the release; here the five questions are asked for the first release with a fake process group, one in
// between and main, and launches for an older one.
func TestEmitForReleases(t *testing.T) {
	for _, c := range []struct {
		form, release string
		exit          int
		want          string
	}{
		{"check", "0.16.1", 0, "--fake-process-group"},
		{"check", "0.18.2", 0, "--fake-process-group"},
		{"check", "main", 0, "--fake-process-group"},
		{"check", "0.15.3", 2, "--fake-process-group: Megatron-LM 0.15.3 does not have it yet, it came with 0.16.1"},
		{"launch", "0.14.0", 0, "torchrun"},
		{"launch", "main", 0, "--log-memory-interval"},
	} {
		for _, q := range questions {
			args := append([]string{"emit", "--for", c.form, "--megatron-version", c.release}, strings.Fields(q)...)
			var out, problems bytes.Buffer
			if code := run(context.Background(), args, &out, &problems); code != c.exit {
				t.Errorf("%v: exit %d, want %d: %s", args, code, c.exit, &problems)
				continue
			}
			if !strings.Contains(out.String()+problems.String(), c.want) {
				t.Errorf("%v: no %q", args, c.want)
			}
			if c.exit != 0 && out.Len() > 0 {
				t.Errorf("%v: refused, and %d bytes are written all the same", args, out.Len())
			}
			reads(t, out.Bytes(), args)
		}
	}
}

// Middle stages are an option, marked as untested, and their wrapper is Python.
func TestEmitMiddleStages(t *testing.T) {
	args := strings.Fields("emit --middle-stages " + questions[0])
	var out, problems bytes.Buffer
	if code := run(context.Background(), args, &out, &problems); code != 0 {
		t.Fatalf("exit %d: %s", code, &problems)
	}
	for _, want := range []string{"UNTESTED", "cat > moeplan_middle_stage.py", "python moeplan_middle_stage.py", "pipeline stage 1:", "do_train = True", "The last memory line of each run"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	reads(t, out.Bytes(), args)
	_, wrapper, _ := strings.Cut(out.String(), "<<'END'\n")
	wrapper, _, _ = strings.Cut(wrapper, "END\n")
	if python, err := exec.LookPath("python3"); err == nil {
		compile := exec.Command(python, "-c", "import ast, sys; ast.parse(sys.stdin.read())")
		compile.Stdin = strings.NewReader(wrapper)
		if text, err := compile.CombinedOutput(); err != nil {
			t.Errorf("the wrapper is no Python: %v\n%s", err, text)
		}
	}
}

// reads lets bash parse a script without running it, where there is a bash.
func reads(t *testing.T, script []byte, args []string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil || len(script) == 0 {
		return
	}
	parse := exec.Command(bash, "-n")
	parse.Stdin = bytes.NewReader(script)
	if text, err := parse.CombinedOutput(); err != nil {
		t.Errorf("%v: bash -n: %v\n%s", args, err, text)
	}
}

// What is emitted with offload is read back, by the reader of people's own launches, to the memory that the plan promises.
func TestEmitOffloadReadsBack(t *testing.T) {
	m, err := arch.Lookup("qwen3-235b")
	if err != nil {
		t.Fatal(err)
	}
	p, err := topology.LookupPlatform("h100")
	if err != nil {
		t.Fatal(err)
	}
	without := int64(0)
	for _, offload := range []plan.Offload{plan.OffloadNothing, plan.OffloadActivations, plan.OffloadOptimizer, plan.OffloadBoth} {
		r := plan.Request{Model: m, Platform: p, GPUs: 256, SeqLength: 4096, GlobalBatchSize: 2048, Offload: offload}
		l, err := parseLayout("tp2 pp8 vpp6 ep32 recompute=layernorm", &r)
		if err != nil {
			t.Fatal(err)
		}
		promised, _, err := plan.Describe(context.Background(), r, l)
		if err != nil {
			t.Fatal(err)
		}
		e := emitter{m: m, l: &l, r: &r}
		_, value, err := e.emit(context.Background(), "launch", false)
		if err != nil {
			t.Fatalf("%s: %v", offload, err)
		}
		argv := value.(*megatron.LaunchCommand).Args.Argv()
		j, err := plan.Judge(context.Background(), plan.Launch{Argv: append(argv, "--vocab-size", fmt.Sprint(m.VocabSize)), World: 256, Platform: p,
			Env: map[string]string{"CUDA_DEVICE_MAX_CONNECTIONS": "1", "NVTE_CPU_OFFLOAD_V1": "1"}})
		if err != nil {
			t.Fatal(err)
		}
		if len(j.Stages) != len(promised.Stages) {
			t.Fatalf("%s: %d stages are read back, not %d: %s %v", offload, len(j.Stages), len(promised.Stages), j.Missing, j.Violations.Errors())
		}
		for i := range j.Stages {
			got, want := j.Stages[i].Memory, promised.Stages[i].Memory
			if got.PeakAllocated != want.PeakAllocated || got.Optimizer != want.Optimizer || got.Activations != want.Activations {
				t.Errorf("%s, stage %d: read back %+v, promised %+v", offload, i, got, want)
			}
		}
		peak := promised.Stages[promised.WorstStage].Memory.PeakAllocated
		if offload == plan.OffloadNothing {
			without = peak
		} else if peak >= without {
			t.Errorf("%s: %d, without %d", offload, peak, without)
		}
	}
}

// A check says what each of its ranks is predicted to allocate: what the plan says of that stage, with balanced routing and
// alltoall whatever was asked, because that is what runs.
func TestCheckExpects(t *testing.T) {
	for _, asked := range []string{"", " dispatcher=deepep", " --imbalance 1.5"} {
		args := strings.Fields("emit -o json --gpus 256 --model qwen3-235b tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm" + asked)
		var out, problems bytes.Buffer
		if code := run(context.Background(), args, &out, &problems); code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, &problems)
		}
		var check megatron.Command
		if err := json.Unmarshal(out.Bytes(), &check); err != nil {
			t.Fatal(err)
		}
		// 63,099 and 51,785 MiB are the peaks of the first screen of README.md, 61.6 and 50.6 GiB.
		for i, want := range []int64{63099, 51785} {
			if got := *check.Runs[i].ExpectPeakAllocated >> 20; got != want && got != want-1 {
				t.Errorf("%q: rank %d is to allocate %d MiB, want %d", asked, check.Runs[i].Rank, got, want)
			}
		}
		if !strings.Contains(check.Verify, "moeplan-check.rank*.log --model qwen3-235b-a22b --gpus 256 --gpu h100 'tp2 ") {
			t.Errorf("%q: %s", asked, check.Verify)
		}
	}
}

// Where the fullest stage owns no data, the script says so, and --middle-stages reaches it.
func TestCheckNamesTheFullestStage(t *testing.T) {
	for _, tt := range []struct {
		args string
		said bool
	}{
		{"--model qwen3-235b --gpus 256 tp2 pp16 vpp6 ep16 recompute=moe_act", true},                  // stage 1 has one layer more than stage 0
		{"--middle-stages --model qwen3-235b --gpus 256 tp2 pp16 vpp6 ep16 recompute=moe_act", false}, // now it runs
		{"--model qwen3-235b --gpus 256 tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm", false},        // stage 0 is the fullest
	} {
		var out, problems bytes.Buffer
		if code := run(context.Background(), append([]string{"emit"}, strings.Fields(tt.args)...), &out, &problems); code != 0 {
			t.Fatalf("%s: exit %d: %s", tt.args, code, &problems)
		}
		if said := strings.Contains(out.String(), "Stage 1 is predicted to be the fullest"); said != tt.said {
			t.Errorf("%s: said %v, want %v", tt.args, said, tt.said)
		}
	}
}
