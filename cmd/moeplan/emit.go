package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
)

type emitCmd struct {
	Layout   []string `arg:"" optional:"" name:"layout" help:"Layout in its text form, such as 'tp2 pp8 vpp4 ep32 recompute=moe_act'. Without one the best plan is taken."`
	Plan     string   `placeholder:"FILE#N" help:"Plan N (default 1) of a file that moeplan -o json wrote, instead of --model, --gpus and a layout."`
	For      string   `enum:"check,launch,bridge" default:"check" help:"check (one GPU, fake process group), launch (torchrun; with --slurm an sbatch script) or bridge (Megatron-Bridge overrides)."`
	Slurm    bool     `help:"With --for launch: write an sbatch script."`
	Release  string   `name:"megatron-version" default:"main" help:"Megatron-Core release that is to run it: 0.11 to main."`
	Middle   bool     `name:"middle-stages" help:"With --for check: add stages that own no data, through a wrapper that nobody has tested."`
	Save     string   `placeholder:"DIR" help:"Write check.sh, launch.sh, launch.sbatch, bridge.txt and plan.json into a new or empty folder instead."`
	machine  `embed:""`
	runFlags `embed:""`
	Output   string `short:"o" enum:"script,json" default:"script" help:"Format: script or json."`
}

func (c *emitCmd) Run(ctx context.Context, s streams) error {
	release, err := megatron.ParseRelease(c.Release)
	if err != nil {
		return &coded{exitUsage, err}
	}
	if c.Plan != "" {
		if err := c.fromPlan(s.err); err != nil {
			return err
		}
	}
	r, err := c.request(&c.runFlags)
	if err != nil {
		return err
	}
	l, err := chosenLayout(ctx, c.Layout, &r)
	if err != nil {
		return err
	}
	e := emitter{m: plan.Stretched(r.Model, l.SeqLength), l: &l, r: &r, release: release, middle: c.Middle, verify: c.verifyText(&r, &l)}
	if c.Save != "" {
		if err := e.save(ctx, c.Save); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.out, "written to %s: plan.json check.sh launch.sh launch.sbatch bridge.txt\n", c.Save)
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
	if b := c.brought; b != nil && (b.model != nil || b.platform != nil) {
		return fmt.Sprintf("%s --plan %s", logs, megatron.Quote(c.Plan))
	}
	return fmt.Sprintf("%s --model %s --gpus %d --gpu %s%s '%s'", logs, cmp.Or(c.modelFile(), r.Model.ID), r.GPUs,
		cmp.Or(c.gpuFile(), r.Platform.ID), c.flagText(&c.runFlags), l.Key())
}

// chosenLayout is the layout given, if its rules hold, or the best plan's.
func chosenLayout(ctx context.Context, words []string, r *plan.Request) (layout.Layout, error) {
	text := strings.TrimSpace(strings.Join(words, " "))
	if text == "" {
		result, err := plan.Search(ctx, *r)
		if err != nil {
			return layout.Layout{}, err
		}
		if len(result.Plans) == 0 {
			return layout.Layout{}, nothingFits(result)
		}
		return result.Plans[0].Layout, nil
	}
	return parseLayout(text, r)
}

// parseLayout reads a layout's text form and refuses one that breaks a rule.
func parseLayout(text string, r *plan.Request) (layout.Layout, error) {
	l, err := layout.Parse(text, layout.Defaults{
		World: r.GPUs,
		Run:   layout.Run{SeqLength: r.SeqLength, GlobalBatchSize: r.GlobalBatchSize, Precision: r.Precision, Order: r.Order},
		Model: r.Model,
	})
	var broken layout.Violations
	switch {
	case errors.As(err, &broken):
		return l, &coded{exitIllegal, err}
	case err != nil:
		return l, &coded{exitUsage, err}
	}
	if err := plan.PrecisionRuns(l.Precision, r.Platform); err != nil {
		return l, err
	}
	if l.RankOrder() != folding.DefaultOrder && l.RankOrder() != folding.TPPPDPOrder {
		return l, usage("order=%s: a Megatron command line gives %s or, with --use-tp-pp-dp-mapping, %s", l.Order,
			folding.DefaultOrder, folding.TPPPDPOrder)
	}
	return l, legal(plan.Stretched(r.Model, l.SeqLength), &l)
}

func legal(m *arch.Model, l *layout.Layout) error {
	if broken := layout.Check(m, l).Errors(); len(broken) > 0 {
		return broken
	}
	return nil
}
