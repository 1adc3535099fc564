package main

import (
	"context"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/plan"
)

type diffCmd struct {
	A string `arg:"" help:"First layout in its text form, quoted."`
	B string `arg:"" help:"Second layout."`

	machine  `embed:""`
	runFlags `embed:""`
	Output   string `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

func (c *diffCmd) Run(ctx context.Context, s streams) error {
	r, err := c.request(&c.runFlags)
	if err != nil {
		return err
	}
	a, err := parseLayout(c.A, &r)
	if err != nil {
		return err
	}
	b, err := parseLayout(c.B, &r)
	if err != nil {
		return err
	}
	d, err := plan.Diff(ctx, r, a, b)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(s.out, d)
	}
	return report.Diff(s.out, d)
}
