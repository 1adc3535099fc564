package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/evidence"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
)

// emitter writes one layout in every form that emit knows.
type emitter struct {
	m *arch.Model
	l *layout.Layout
	r *plan.Request

	release megatron.Release // that is to run it
	middle  bool             // check middle stages too
	verify  string           // the command line that judges a check's logs
}

// accepted refuses what the release's parser does not take, naming each flag, and what its rules forbid.
func (e *emitter) accepted(args megatron.Args) error {
	if missing := args.Missing(e.release); len(missing) > 0 {
		return &coded{exitIllegal, missing}
	}
	settings, err := megatron.Parse(args.Argv(), e.release)
	if err != nil {
		return &coded{exitIllegal, err}
	}
	connections := "1"
	if e.l.EPOverlap {
		connections = "32"
	}
	resolved, err := megatron.Resolve(settings, e.l.World, map[string]string{"CUDA_DEVICE_MAX_CONNECTIONS": connections, "NVTE_CPU_OFFLOAD_V1": "1"})
	if err != nil {
		return &coded{exitIllegal, err}
	}
	if broken := megatron.Check(resolved, megatron.CheckSettings{ComputeCapability: e.r.Platform.SM.Int() / 10}).Errors(); len(broken) > 0 {
		return broken
	}
	return nil
}

// emit returns the text of one form, and the value that -o json prints.
func (e *emitter) emit(ctx context.Context, form string, slurm bool) (string, any, error) {
	switch form {
	case "launch":
		launch, err := megatron.Launch(e.l, e.m, e.launchOptions(slurm))
		if err != nil {
			return "", nil, err
		}
		const report = "--log-memory-interval" // helps to watch a run, and can be left out
		if name := (megatron.Args{{Name: report, Values: []string{"1"}}}); len(name.Missing(e.release)) > 0 {
			launch.Args.Remove(report)
		}
		return launch.Script(), launch, e.accepted(launch.Args)
	case "bridge":
		bridge, err := megatron.BridgeOverrides(e.l, e.m, e.launchOptions(false))
		if err != nil {
			return "", nil, err
		}
		return bridge.Text(), bridge, nil
	}
	check, err := megatron.CheckCommand(e.l, e.m, megatron.CheckOptions{ComputeCapability: e.r.Platform.SM.Int() / 10,
		BF16Gradients: e.r.BF16Gradients, BF16Moments: e.r.LowPrecisionMoments, MiddleStages: e.middle,
		OffloadModules: e.r.Offload.Modules(e.m.MoE != nil), OffloadOptimizer: e.r.Offload.Optimizer()})
	if err != nil {
		return "", nil, err
	}
	if err := e.expect(ctx, check); err != nil {
		return "", nil, err
	}
	check.Verify = e.verify
	return check.Script(), check, e.accepted(check.Args)
}

// expect writes into each run of a check what it is predicted to allocate. A layout that can be run and not priced keeps
// its commands, without figures.
func (e *emitter) expect(ctx context.Context, check *megatron.Command) error {
	r, l := plan.CheckRun(*e.r, *e.l)
	described, _, err := plan.Describe(ctx, r, l)
	if err != nil {
		return ctx.Err()
	}
	for i := range check.Runs {
		run := &check.Runs[i]
		run.ExpectPeakAllocated = &described.Stages[run.Stage].Memory.PeakAllocated
	}
	if worst := described.WorstStage; !slices.ContainsFunc(check.Runs, func(r megatron.Run) bool { return r.Stage == worst }) {
		check.Comments = append(check.Comments, fmt.Sprintf("Stage %d is predicted to be the fullest, with %.1f GiB, and is not among these runs.",
			worst, float64(described.Stages[worst].Memory.PeakAllocated)/(1<<30)))
	}
	return nil
}

// launchOptions say where the platform's machines make a launch run.
func (e *emitter) launchOptions(slurm bool) megatron.LaunchOptions {
	p := e.r.Platform
	o := megatron.LaunchOptions{GPUsPerNode: max(1, p.Node.Int()), ComputeCapability: p.SM.Int() / 10, Slurm: slurm,
		BF16Gradients: e.r.BF16Gradients, BF16Moments: e.r.LowPrecisionMoments,
		OffloadModules: e.r.Offload.Modules(e.m.MoE != nil), OffloadOptimizer: e.r.Offload.Optimizer()}
	domain, err := p.UsableDomain(e.l.Degrees)
	if err != nil {
		return o
	}
	if domain > o.GPUsPerNode {
		o.SegmentNodes = min(domain, e.l.World) / o.GPUsPerNode
	}
	if p.Domain.Known {
		o.DomainGPUs = p.Domain.Int()
	}
	if spans, ok := topology.SpansOf(e.l.Degrees, e.l.RankOrder(), domain); ok {
		if span, ok := spans.Of(folding.GroupETPEP); ok && span.RanksMin == span.RanksMax {
			o.DomainRanks = span.RanksMax
		}
	}
	return o
}

// save writes everything into a folder that is new or empty. Each file is written whole or not at all.
func (e *emitter) save(ctx context.Context, dir string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return usage("--save %s: the folder is not empty", dir)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	described, err := plan.AnswerWith(ctx, *e.r, *e.l)
	if err != nil {
		return err
	}
	var planned bytes.Buffer
	if err := writeJSON(&planned, described); err != nil {
		return err
	}
	files := []struct{ name, text string }{{"plan.json", planned.String()}}
	for _, f := range []struct {
		name, form string
		slurm      bool
	}{{"check.sh", "check", false}, {"launch.sh", "launch", false}, {"launch.sbatch", "launch", true}, {"bridge.txt", "bridge", false}} {
		text, _, err := e.emit(ctx, f.form, f.slurm)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		files = append(files, struct{ name, text string }{f.name, text})
	}
	contract := contractOf(e.r, e.l)
	contract.Judge()
	var conditions strings.Builder
	if err := evidence.WriteContract(&conditions, contract); err != nil {
		return err
	}
	files = append(files, struct{ name, text string }{"contract.yaml", conditions.String()})
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := writeWhole(filepath.Join(dir, f.name), []byte(f.text)); err != nil {
			return err
		}
	}
	return nil
}
