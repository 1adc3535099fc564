package main

import (
	"context"
	"io"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
)

type emitCmd struct {
	Layout   []string `arg:"" optional:"" name:"layout" help:"Layout in its text form, such as 'tp2 pp8 vpp4 ep32 recompute=moe_act'. Without one the best plan is taken."`
	For      string   `enum:"check" default:"check" help:"What the commands are for: check (one GPU, fake process group)."`
	machine  `embed:""`
	runFlags `embed:""`
	Output   string `short:"o" enum:"script,json" default:"script" help:"Format: script or json."`
}

func (c *emitCmd) Run(ctx context.Context, s streams) error {
	r, err := c.request(&c.runFlags)
	if err != nil {
		return err
	}
	l, err := c.chosen(ctx, &r)
	if err != nil {
		return err
	}
	command, err := megatron.CheckCommand(&l, r.Model, megatron.CheckOptions{
		ComputeCapability: r.Platform.SM.Int() / 10,
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(s.out, command)
	}
	_, err = io.WriteString(s.out, command.Script())
	return err
}

// chosen is the layout given, if its rules hold, or the best plan's.
func (c *emitCmd) chosen(ctx context.Context, r *plan.Request) (layout.Layout, error) {
	text := strings.Join(c.Layout, " ")
	if text == "" {
		result, err := plan.Search(ctx, *r)
		if err != nil {
			return layout.Layout{}, err
		}
		if len(result.Plans) == 0 {
			return layout.Layout{}, &coded{exitNoFit, errNothingFits}
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
	if err != nil {
		return l, &coded{exitUsage, err}
	}
	return l, legal(r.Model, &l)
}

func legal(m *arch.Model, l *layout.Layout) error {
	if broken := layout.Check(m, l).Errors(); len(broken) > 0 {
		return broken
	}
	return nil
}
