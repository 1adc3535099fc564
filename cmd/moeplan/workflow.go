package main

import (
	"context"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/plan"
)

type workflowCmd struct {
	chosen `embed:""`
	Why    bool   `help:"Add the source of each line."`
	Output string `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

func (c *workflowCmd) Run(ctx context.Context, s streams) error {
	r, l, err := c.take(ctx, s.err)
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
