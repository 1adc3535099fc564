package main

import (
	"context"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/plan"
)

type workflowCmd struct {
	machine  `embed:""`
	runFlags `embed:""`
}

func (c *workflowCmd) Run(ctx context.Context, s streams) error {
	r, err := c.request(&c.runFlags)
	if err != nil {
		return err
	}
	result, err := plan.Search(ctx, r)
	if err != nil {
		return err
	}
	if len(result.Plans) == 0 {
		return nothingFits(result)
	}
	next, err := plan.Next(ctx, r, result.Plans[0].Layout)
	if err != nil {
		return err
	}
	report.Workflow(s.out, result, next)
	return nil
}
