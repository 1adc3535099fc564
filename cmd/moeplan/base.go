package main

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
)

// baseOf reads what --base names: a layout's text form, or a launch script of the same model. The layout must answer the
// question that is asked: as many GPUs, the same sequence and batch; what the question leaves open is taken from a script.
func baseOf(ctx context.Context, text string, r *plan.Request) (layout.Layout, error) {
	if info, err := os.Stat(text); err != nil || info.IsDir() {
		l, err := parseLayout(text, r)
		if err != nil {
			return l, fmt.Errorf("--base: %w", err)
		}
		return l, nil
	}
	check := checkCmd{File: text}
	_, command, err := check.read(ctx)
	if err != nil {
		return layout.Layout{}, fmt.Errorf("--base: %w", err)
	}
	argv, err := check.argv(command)
	if err != nil {
		return layout.Layout{}, fmt.Errorf("--base: %w", err)
	}
	j, err := plan.Judge(ctx, plan.Launch{Argv: argv, World: r.GPUs, Env: command.Env, Platform: r.Platform, Release: megatron.Main})
	if err != nil {
		return layout.Layout{}, &coded{exitUsage, fmt.Errorf("--base %s: %w", text, err)}
	}
	if broken := j.Violations.Errors(); len(broken) > 0 {
		return layout.Layout{}, broken
	}
	if j.Layout == nil || j.Layout.Split == nil {
		return layout.Layout{}, usage("--base %s: %s", text, cmp.Or(j.Missing, "it gives no complete layout"))
	}
	l := *j.Layout
	switch {
	case r.SeqLength == 0:
		r.SeqLength = l.SeqLength
	case r.SeqLength != l.SeqLength:
		return l, usage("--base %s runs --seq-length %d, --seq asks for %d", text, l.SeqLength, r.SeqLength)
	}
	switch {
	case r.GlobalBatchSize == 0:
		r.GlobalBatchSize = l.GlobalBatchSize
	case r.GlobalBatchSize != l.GlobalBatchSize:
		return l, usage("--base %s runs --global-batch-size %d, --global-batch asks for %d", text, l.GlobalBatchSize, r.GlobalBatchSize)
	}
	if total, _ := r.Model.Parameters(); total != j.Total {
		return l, usage("--base %s trains %d parameters, %s has %d: it is another model", text, j.Total, r.Model.ID, total)
	}
	return l, nil
}
