package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/plan"
)

// chosen says which layout of which question a command is about: one that is written out, a plan of a file, or the best plan.
type chosen struct {
	Layout []string `arg:"" optional:"" name:"layout" help:"Layout in its text form, such as 'tp2 pp8 vpp4 ep32 recompute=moe_act'. Without one the best plan is taken."`
	Plan   string   `placeholder:"FILE#N" help:"Plan N (default 1) of a file that moeplan -o json wrote, instead of --model, --gpus and a layout."`

	machine  `embed:""`
	runFlags `embed:""`
}

// take reads the question and the layout. What a reader must know of a plan file goes to notes.
func (c *chosen) take(ctx context.Context, notes io.Writer) (r plan.Request, l layout.Layout, err error) {
	if c.Plan != "" {
		if err := c.fromPlan(notes); err != nil {
			return r, l, err
		}
	}
	if r, err = c.request(&c.runFlags); err != nil {
		return r, l, err
	}
	l, err = c.layout(ctx, &r)
	return r, l, err
}

// layout is the layout given, if its rules hold, or the best plan's.
func (c *chosen) layout(ctx context.Context, r *plan.Request) (layout.Layout, error) {
	text := strings.TrimSpace(strings.Join(c.Layout, " "))
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
