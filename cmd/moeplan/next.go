package main

import (
	"context"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/plan"
)

type nextCmd struct {
	chosen `embed:""`
	Why    bool   `help:"Add the source of each claim."`
	Output string `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

func (c *nextCmd) Run(ctx context.Context, s streams) error {
	r, l, err := c.take(ctx, s.err)
	if err != nil {
		return err
	}
	next, err := plan.Next(ctx, r, l)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(s.out, next)
	}
	report.Next(s.out, next, c.Why)
	return nil
}
