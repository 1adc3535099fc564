package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/plan"
)

type sizeCmd struct {
	Model string   `required:"" help:"Model, by any obvious short form."`
	GPU   []string `name:"gpu" default:"h100" help:"Kinds of GPU to compare, such as h100,b200,gb200."`
	GPUs  string   `name:"gpus" placeholder:"64..4096" help:"Numbers of GPUs: a range (doubling), a list, or one (default: from the fewest that fit, doubling, to about 32 times as many)."`

	Tokens  string    `placeholder:"15T" help:"Training tokens, such as 15T or 300B: adds days and GPU-hours."`
	Price   []float64 `name:"price-per-gpu-hour" help:"Price of a GPU-hour: adds cost. One for all kinds, or one each."`
	Goodput float64   `default:"1" help:"Share of the time in which steps make progress."`

	runFlags `embed:""`
	Output   string `short:"o" enum:"table,json,csv,markdown" default:"table" help:"Format: table, json, csv or markdown."`
}

func (c *sizeCmd) Run(ctx context.Context, s streams) error {
	tokens, err := parseTokens(c.Tokens)
	if err != nil {
		return err
	}
	if len(c.Price) > 1 && len(c.Price) != len(c.GPU) {
		return usage("--price-per-gpu-hour: %d prices for %d kinds of GPU", len(c.Price), len(c.GPU))
	}
	if !(c.Goodput > 0 && c.Goodput <= 1) {
		return usage("--goodput %g does not lie between 0 and 1", c.Goodput)
	}
	var all []*plan.Sizing
	stop := watched(ctx, s.err)
	defer stop()
	for i, gpu := range c.GPU {
		r, err := c.sizeRequest(ctx, gpu, tokens)
		if err != nil {
			return err
		}
		switch len(c.Price) {
		case 0:
		case 1:
			r.PricePerGPUHour = c.Price[0]
		default:
			r.PricePerGPUHour = c.Price[i]
		}
		if !(r.PricePerGPUHour >= 0 && r.PricePerGPUHour < 1e9) {
			return usage("--price-per-gpu-hour %g cannot be meant", r.PricePerGPUHour)
		}
		sizing, err := plan.Size(ctx, r)
		if err != nil {
			return err
		}
		all = append(all, sizing)
	}
	stop()
	if err := c.write(s.out, all); err != nil {
		return err
	}
	for _, sizing := range all {
		for _, row := range sizing.Rows {
			if row.Key != nil {
				return nil
			}
		}
	}
	return &coded{exitNoFit, errNothingFits}
}

// write prints the answers, one a platform.
func (c *sizeCmd) write(w io.Writer, all []*plan.Sizing) error {
	if c.Output == "json" {
		return writeJSON(w, all)
	}
	for i, sizing := range all {
		if c.Output == "table" {
			if i > 0 {
				fmt.Fprintln(w)
			}
			sizeHead(w, sizing)
		}
		if err := report.Sizes(w, sizing, report.Format(c.Output)); err != nil {
			return err
		}
	}
	return nil
}

func (c *sizeCmd) sizeRequest(ctx context.Context, gpu string, tokens float64) (plan.SizeRequest, error) {
	one := 1
	m := machine{Model: c.Model, GPU: gpu, GPUs: &one}
	base, err := m.request(&c.runFlags)
	if err != nil {
		return plan.SizeRequest{}, err
	}
	r := plan.SizeRequest{Request: base, Tokens: tokens, Goodput: c.Goodput}
	node := 8
	if base.Platform.Node.Known {
		node = base.Platform.Node.Int()
	}
	if c.GPUs == "" {
		r.GPUs, r.Counts = node, []int{node}
		first, err := plan.Size(ctx, r)
		if err != nil {
			return r, err
		}
		if first.FewestGPUs == nil {
			return r, &coded{exitNoFit, fmt.Errorf("no number of %s GPUs that moeplan tries holds %s", gpu, base.Model.ID)}
		}
		r.Counts = plan.SizeCounts(*first.FewestGPUs, 32**first.FewestGPUs, node)
		r.Counts = r.Counts[:len(r.Counts)-1] // the upper end is no number that anybody asked for
		return r, nil
	}
	for part := range strings.SplitSeq(c.GPUs, ",") {
		span, err := layout.ParseRange(part)
		if err != nil {
			return r, fmt.Errorf("--gpus: %w", err)
		}
		low, high := span.Bounds()
		if low == high {
			if err := wholeNodes(low, base.Platform); err != nil {
				return r, err
			}
			r.Counts = append(r.Counts, low)
			continue
		}
		r.Counts = append(r.Counts, plan.SizeCounts(low, high, node)...)
	}
	if len(r.Counts) == 0 {
		return r, usage("--gpus %s holds no whole number of %s nodes of %d", c.GPUs, gpu, node)
	}
	return r, nil
}

// parseTokens reads 15T, 300B, 2.5e12 or a plain number.
func parseTokens(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	scale := 1.0
	number := text
	switch text[len(text)-1] {
	case 'T', 't':
		scale, number = 1e12, text[:len(text)-1]
	case 'B', 'b', 'G', 'g':
		scale, number = 1e9, text[:len(text)-1]
	case 'M', 'm':
		scale, number = 1e6, text[:len(text)-1]
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n > 0 && n*scale < 1e18) {
		return 0, usage("--tokens %q: want a number such as 15T, 300B or 2e12", text)
	}
	return n * scale, nil
}

func sizeHead(w io.Writer, s *plan.Sizing) {
	fmt.Fprintf(w, "%s on %s   seq %d, gbs %d\n", s.Model, s.Platform, s.SeqLength, s.GlobalBatchSize)
	floor := 0
	if s.FloorGPUs != nil {
		floor = *s.FloorGPUs
	}
	if s.FewestGPUs != nil {
		fmt.Fprintf(w, "fewest      %d GPUs in whole nodes (arithmetic floor %d): %s\n", *s.FewestGPUs, floor, *s.FewestKey)
	} else {
		fmt.Fprintf(w, "fewest      none found (arithmetic floor %d)\n", floor)
	}
}
