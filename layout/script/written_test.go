package script_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/script"
)

// writtenLayouts are layouts whose launches are written and read back: the shapes of each flag that a layout writes.
var writtenLayouts = []struct {
	model, text string
	world       int
}{
	{"qwen3-235b", "tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm", 256},
	{"deepseek-v3", "pp4 vpp4 ep64 recompute=mla_up_proj dispatcher=hybridep", 256},
	{"llama3-70b", "tp4 pp4 mbs2 recompute=full", 64},
	{"mixtral-8x7b", "tp2 ep8 dispatcher=deepep", 8},
	{"qwen3-30b-a3b", "ep8 pp2 vpp3 order=tp-cp-ep-pp-dp tp4 etp1 cp2 sp=on seq=8192", 16},
	{"gpt-oss-120b", "ep8 etp1", 64},
}

func written(t *testing.T, model, text string, world int) (*arch.Model, layout.Layout) {
	t.Helper()
	m, err := arch.Lookup(model)
	if err != nil {
		t.Fatal(err)
	}
	l, err := layout.Parse(text, layout.Defaults{World: world, Model: m})
	if err != nil {
		t.Fatal(err)
	}
	return m, l
}

// readBack resolves an argv to a layout.
func readBack(t *testing.T, argv []string, world int) layout.Layout {
	t.Helper()
	settings, err := megatron.Parse(argv, megatron.Main)
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := megatron.Resolve(settings, world, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := megatron.Layout(resolved)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A launch script that we write is clean to bash, and read by our own reader it is the same layout on the same world.
func TestLaunchReadBack(t *testing.T) {
	for _, c := range writtenLayouts {
		m, l := written(t, c.model, c.text, c.world)
		for _, slurm := range []bool{false, true} {
			launch, err := megatron.Launch(&l, m, megatron.LaunchOptions{GPUsPerNode: 8, SegmentNodes: 2, DomainRanks: 8, ComputeCapability: 9, Slurm: slurm})
			if err != nil {
				t.Errorf("%s: %v", c.text, err)
				continue
			}
			text := launch.Script()
			if bash, err := exec.LookPath("bash"); err == nil {
				cmd := exec.Command(bash, "-n")
				cmd.Stdin = strings.NewReader(text)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: bash -n: %v\n%s\n%s", c.text, err, out, text)
				}
			}
			s, err := script.Read(context.Background(), "launch.sh", strings.NewReader(text), script.Options{})
			if err != nil {
				t.Errorf("%s, slurm %v: %v\n%s", c.text, slurm, err, text)
				continue
			}
			training := s.Training()
			if training == nil {
				t.Errorf("%s, slurm %v: no launch found in\n%s", c.text, slurm, text)
				continue
			}
			if training.World.N != c.world {
				t.Errorf("%s, slurm %v: world %d, want %d", c.text, slurm, training.World.N, c.world)
			}
			if back := readBack(t, training.Megatron, c.world); back.Key() != l.Key() {
				t.Errorf("%s, slurm %v:\nwrote %s\nread  %s", c.text, slurm, l.Key(), back.Key())
			}
		}
	}
}

// The overrides that we write for Bridge say, read by our own reader, the same degrees, split, batch and recompute.
func TestBridgeReadBack(t *testing.T) {
	for _, c := range writtenLayouts {
		m, l := written(t, c.model, c.text, c.world)
		bridge, err := megatron.BridgeOverrides(&l, m, megatron.LaunchOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		s, err := script.ReadArgs("argv", bridge.Overrides)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		argv := append(append([]string(nil), m.MegatronFlags...), s.Training().Megatron...)
		argv = append(argv, "--max-position-embeddings", "1000000")
		if back := readBack(t, argv, c.world); back.Key() != l.Key() {
			t.Errorf("%s:\nwrote %s\nread  %s", c.text, l.Key(), back.Key())
		}
	}
}

// A launch script that is run hands torchrun the launcher and every flag as they are: here with stand-ins for torchrun, srun
// and scontrol that print what they get.
func TestLaunchRuns(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"torchrun": "#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done\n",
		"srun":     "#!/bin/sh\nSLURM_NODEID=0 exec \"$@\"\n",
		"scontrol": "#!/bin/sh\necho node0\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range writtenLayouts {
		m, l := written(t, c.model, c.text, c.world)
		for _, slurm := range []bool{false, true} {
			launch, err := megatron.Launch(&l, m, megatron.LaunchOptions{GPUsPerNode: 8, ComputeCapability: 9, Slurm: slurm})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(bash, "-c", launch.Script())
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "HOME=" + dir, "DATA_PATH=data", "TOKENIZER=tok", "SLURM_JOB_NODELIST=node0"}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s, slurm %v: %v\n%s", c.text, slurm, err, out)
				continue
			}
			words := strings.Split(strings.TrimSpace(string(out)), "\n")
			at := slices.Index(words, launch.Launcher)
			argv := launch.Args.Argv()
			if at < 0 || len(words) < at+1+len(argv) || !slices.Equal(words[at+1:at+1+len(argv)], argv) {
				t.Errorf("%s, slurm %v: torchrun gets\n%q\nwant %s and then\n%q", c.text, slurm, words, launch.Launcher, argv)
			}
		}
	}
}
