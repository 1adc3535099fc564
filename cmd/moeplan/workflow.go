package main

import (
	"context"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/plan"
)

type workflowCmd struct {
	Layout []string `arg:"" optional:"" help:"Layout in its text form. Without one the best plan is taken."`
	Why    bool     `help:"Add the source of each line."`
	Plan   string   `placeholder:"FILE#N" help:"Plan N (default 1) of a file that moeplan -o json wrote, instead of --model, --gpus and a layout."`

	machine  `embed:""`
	runFlags `embed:""`
	Output   string `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

func (c *workflowCmd) Run(ctx context.Context, s streams) error {
	e := emitCmd{Layout: c.Layout, Plan: c.Plan, machine: c.machine, runFlags: c.runFlags}
	if c.Plan != "" {
		if err := e.fromPlan(s.err); err != nil {
			return err
		}
	}
	r, err := e.request(&e.runFlags)
	if err != nil {
		return err
	}
	l, err := chosenLayout(ctx, e.Layout, &r)
	if err != nil {
		return err
	}
	w, err := plan.WorkflowOf(ctx, r, l)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(s.out, w)
	}
	report.Workflow(s.out, w, c.Why)
	return nil
}
