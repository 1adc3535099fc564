package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
)

type emitCmd struct {
	chosen  `embed:""`
	For     string `enum:"check,launch,bridge" default:"check" help:"check (one GPU, fake process group), launch (torchrun; with --slurm an sbatch script) or bridge (Megatron-Bridge overrides)."`
	Slurm   bool   `help:"With --for launch: write an sbatch script."`
	Release string `name:"megatron-version" default:"main" help:"Megatron-Core release that is to run it: 0.11 to main."`
	Middle  bool   `name:"middle-stages" help:"With --for check: add stages that own no data, through a wrapper that nobody has tested."`
	Save    string `placeholder:"DIR" help:"Write check.sh, launch.sh, launch.sbatch, bridge.txt, contract.yaml and plan.json into a new or empty folder instead."`
	Output  string `short:"o" enum:"script,json" default:"script" help:"Format: script or json."`
}

func (c *emitCmd) Run(ctx context.Context, s streams) error {
	release, err := megatron.ParseRelease(c.Release)
	if err != nil {
		return &coded{exitUsage, err}
	}
	r, l, err := c.take(ctx, s.err)
	if err != nil {
		return err
	}
	e := emitter{m: plan.Stretched(r.Model, l.SeqLength), l: &l, r: &r, release: release, middle: c.Middle, verify: c.verifyText(&r, &l)}
	if c.Save != "" {
		if err := e.save(ctx, c.Save); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.out, "written to %s: plan.json check.sh launch.sh launch.sbatch bridge.txt contract.yaml\n", c.Save)
		return err
	}
	text, value, err := e.emit(ctx, c.For, c.Slurm)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(s.out, value)
	}
	_, err = io.WriteString(s.out, text)
	return err
}

// verifyText is the command that reads the check's logs back. What no catalogue and no file here describes, the plan does.
func (c *emitCmd) verifyText(r *plan.Request, l *layout.Layout) string {
	const logs = "moeplan verify moeplan-check.rank*.log"
	if b := c.brought; b != nil && b.own {
		return fmt.Sprintf("%s --plan %s", logs, megatron.Quote(c.Plan))
	}
	return fmt.Sprintf("%s --model %s --gpus %d --gpu %s%s '%s'", logs, megatron.Quote(cmp.Or(c.modelFile(), r.Model.ID)), r.GPUs,
		megatron.Quote(cmp.Or(c.gpuFile(), r.Platform.ID)), c.flagText(&c.runFlags), l.Key())
}
