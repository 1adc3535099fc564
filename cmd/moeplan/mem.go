package main

import (
	"context"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/plan"
)

type memCmd struct {
	chosen `embed:""`
	Why    bool   `help:"Add formula and source to each line."`
	Output string `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

func (c *memCmd) Run(ctx context.Context, s streams) error {
	r, l, err := c.take(ctx, s.err)
	if err != nil {
		return err
	}
	a, err := plan.AccountOf(ctx, r, l)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(s.out, a)
	}
	return report.Memory(s.out, a, c.Why)
}
