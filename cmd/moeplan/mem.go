package main

import (
	"context"
	"strings"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/plan"
)

type memCmd struct {
	Layout []string `arg:"" help:"Layout in its text form, such as tp2 pp8 vpp4 ep32."`

	machine  `embed:""`
	runFlags `embed:""`
	Why      bool   `help:"Add formula and source to each line."`
	Output   string `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

func (c *memCmd) Run(ctx context.Context, s streams) error {
	r, err := c.request(&c.runFlags)
	if err != nil {
		return err
	}
	l, err := parseLayout(strings.Join(c.Layout, " "), &r)
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
