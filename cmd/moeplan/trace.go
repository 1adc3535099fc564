package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/layout/timeline"
)

type traceCmd struct {
	chosen       `embed:""`
	Tuned        bool   `help:"With the usual switches on, instead of a first run (alltoall, eager)."`
	Microbatches int    `placeholder:"N" help:"Run only so many micro-batches, for a smaller picture (default: all of a step)."`
	Output       string `short:"o" required:"" placeholder:"FILE" help:"File to write; - is standard output."`
}

func (c *traceCmd) Run(ctx context.Context, s streams) error {
	if c.Microbatches != 0 {
		if err := positive("--microbatches", c.Microbatches, layout.MaxSize); err != nil {
			return err
		}
	}
	if c.Output != "-" {
		if _, err := writable(c.Output); err != nil {
			return err
		}
	}
	r, l, err := c.take(ctx, s.err)
	if err != nil {
		return err
	}
	line, err := plan.Timeline(ctx, r, l, c.Tuned, c.Microbatches)
	if err != nil {
		return &coded{exitUsage, err}
	}
	var out bytes.Buffer
	if err := line.WriteChrome(&out, fmt.Sprintf("%s on %d %s: %s", r.Model.ID, r.GPUs, r.Platform.ID, &l)); err != nil {
		return err
	}
	if c.Output == "-" {
		_, err := s.out.Write(out.Bytes())
		return err
	}
	if err := writeWhole(c.Output, out.Bytes()); err != nil {
		return err
	}
	worst := 0
	for i := range line.Ranks {
		if line.Ranks[i].Peak > line.Ranks[worst].Peak {
			worst = i
		}
	}
	_, err = fmt.Fprintf(s.out, "%s: %d stages, %d micro-batches, %d events; %.4g s a step; stage %d peaks at %.1f GiB allocated\n"+
		"open it at https://ui.perfetto.dev (nothing is uploaded) or chrome://tracing\n",
		c.Output, len(line.Ranks), line.Microbatches, events(line), line.Seconds, worst, float64(line.Ranks[worst].Peak)/(1<<30))
	return err
}

func events(line *timeline.Timeline) (n int) {
	for i := range line.Ranks {
		n += len(line.Ranks[i].Events)
	}
	return n
}
