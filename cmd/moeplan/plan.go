package main

import (
	"context"
	"fmt"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/layout/where"
)

type planCmd struct {
	machine     `embed:""`
	runFlags    `embed:""`
	searchFlags `embed:""`

	Base    string `placeholder:"LAYOUT|SCRIPT" help:"Also say where a layout or a launch script of your own would stand."`
	Pareto  bool   `help:"Also list the front of time against memory."`
	Explain int    `placeholder:"N" help:"Tell the story of plan N instead: memory, time, traffic, rules, and how it compares with number 1."`
	Top     int    `default:"10" help:"How many plans to list."`
	Output  string `short:"o" enum:"table,json,csv,markdown" default:"table" help:"Format: table, json, csv or markdown."`
	HTML    string `name:"html" placeholder:"FILE" help:"Also write the answer as one HTML file with pictures; see moeplan report."`
}

// searchFlags bound and order what is searched.
type searchFlags struct {
	TP        layout.Range `placeholder:"2|1,2|2..8" group:"search" help:"Tensor parallel sizes to try; a number, a list or a range."`
	CP        layout.Range `placeholder:"N" group:"search" help:"Context parallel sizes."`
	PP        layout.Range `placeholder:"N" group:"search" help:"Pipeline parallel sizes."`
	EP        layout.Range `placeholder:"N" group:"search" help:"Expert parallel sizes."`
	ETP       layout.Range `placeholder:"N" group:"search" help:"Expert tensor parallel sizes."`
	VPP       layout.Range `placeholder:"N" group:"search" help:"Chunks per pipeline rank; 1 is not interleaved."`
	MBS       layout.Range `placeholder:"N" group:"search" help:"Micro-batch sizes."`
	Recompute string       `placeholder:"MODULES" group:"search" help:"none, full, or modules such as moe_act,layernorm: try only that."`
	Where     string       `placeholder:"CONDITION" group:"search" help:"Only layouts that meet a condition, such as 'tp<=4 && ep*etp<=8'."`
	Wide      bool         `group:"search" help:"Search longer CP, ETP up to 8 and any EP."`

	Objective string `enum:"time,memory,locality,workflow" default:"time" help:"Order plans by time, memory, locality or the field's workflow rules."`
}

// bound puts the flags into a request.
func (f *searchFlags) bound(r *plan.Request) error {
	r.Wide, r.Objective = f.Wide, plan.Objective(f.Objective)
	r.Pins = layout.Pins{TP: f.TP, CP: f.CP, PP: f.PP, EP: f.EP, ETP: f.ETP, VPP: f.VPP, MBS: f.MBS}
	if f.Recompute != "" {
		recompute, err := layout.ParseRecompute(f.Recompute)
		if err != nil {
			return &coded{exitUsage, err}
		}
		r.Recompute = &recompute
	}
	if r.Where = f.Where; r.Where != "" {
		if _, err := where.Compile(r.Where); err != nil {
			return &coded{exitUsage, err}
		}
	}
	return nil
}

func (c *planCmd) Run(ctx context.Context, s streams) error {
	r, err := c.request(&c.runFlags)
	if err != nil {
		return err
	}
	if err := positive("--top", c.Top, 100000); err != nil {
		return err
	}
	if err := c.explains(); err != nil {
		return err
	}
	if c.HTML != "" && c.HTML != "-" {
		if _, err := writable(c.HTML); err != nil {
			return err
		}
	}
	r.Top, r.Pareto = c.Top, c.Pareto
	if err := c.bound(&r); err != nil {
		return err
	}
	var base layout.Layout
	if c.Base != "" {
		if base, err = baseOf(ctx, c.Base, &r); err != nil {
			return err
		}
	}
	stop := watched(ctx, s.err)
	defer stop()
	result, err := plan.Search(ctx, r)
	if err != nil {
		return err
	}
	if c.Base != "" {
		if result.Base, err = plan.CompareBase(ctx, r, base); err != nil {
			return err
		}
	}
	stop()
	if c.Explain > 0 && len(result.Plans) > 0 {
		return c.story(ctx, s, &r, result)
	}
	switch c.Output {
	case "json":
		err = writeJSON(s.out, result)
	case "csv", "markdown":
		err = report.Plans(s.out, result, report.Format(c.Output))
	default:
		report.Screen(s.out, r.Model, result, c.flagText(&c.runFlags), report.Files{Model: c.modelFile(), GPU: c.gpuFile()})
		err = report.Against(s.out, result)
	}
	if err == nil && c.HTML != "" {
		err = writePage(ctx, r, &c.machine, &c.runFlags, c.HTML, s)
	}
	if err == nil && len(result.Plans) == 0 {
		return nothingFits(result)
	}
	return err
}

// explains checks --explain, and asks for as many plans as it needs.
func (c *planCmd) explains() error {
	if c.Explain == 0 {
		return nil
	}
	if err := positive("--explain", c.Explain, 100000); err != nil {
		return err
	}
	if c.Output != "table" && c.Output != "json" {
		return usage("--explain writes table or json, not %s", c.Output)
	}
	if c.HTML != "" {
		return usage("--explain tells of one plan, --html writes all of them: one of the two")
	}
	c.Top = max(c.Top, c.Explain)
	return nil
}

// story tells of one plan.
func (c *planCmd) story(ctx context.Context, s streams, r *plan.Request, result *plan.Result) error {
	if c.Explain > len(result.Plans) {
		return usage("--explain %d: only %d plans fit, one for each pair of meshes", c.Explain, len(result.Plans))
	}
	story, err := plan.Explain(ctx, *r, result, c.Explain)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(s.out, story)
	}
	report.Story(s.out, r.Model, result, story)
	return nil
}

// nothingFits is the error of a question whose legal layouts all need too much memory.
func nothingFits(result *plan.Result) error {
	m := result.NearestMiss
	if m == nil {
		return &coded{exitNoFit, errNothingFits}
	}
	return &coded{exitNoFit, fmt.Errorf("%w: the nearest layout is over by %.1f GiB on stage %d", errNothingFits,
		float64(m.OverBytes)/(1<<30), m.Stage)}
}
