package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/moeplan/moeplan/cmd/internal/page"
	"github.com/moeplan/moeplan/layout/plan"
)

type reportCmd struct {
	machine     `embed:""`
	runFlags    `embed:""`
	searchFlags `embed:""`

	Top    int    `default:"12" help:"How many plans to show."`
	Output string `short:"o" required:"" placeholder:"FILE" help:"HTML file to write; - is standard output."`
}

// Help is the part of the usage below the summary.
func (reportCmd) Help() string {
	return `Writes one file that needs no network and no server: memory of each stage, where communication travels, the pipeline over
time, the front of time against memory, every plan, and the commands that check it.

  moeplan report --gpus 256 --model qwen3-235b -o report.html

Exit codes: 0 done; 2 no legal layout exists for what was pinned; 3 nothing fits (the file says what would); 80 usage.`
}

func (c *reportCmd) Run(ctx context.Context, s streams) error {
	r, err := c.request(&c.runFlags)
	if err != nil {
		return err
	}
	if err := positive("--top", c.Top, mostPagePlans); err != nil {
		return err
	}
	if err := c.bound(&r); err != nil {
		return err
	}
	r.Top = c.Top
	return writePage(ctx, r, &c.machine, &c.runFlags, c.Output, s)
}

// mostPagePlans bounds the plans of a page: each brings its pictures, some 50 kB.
const mostPagePlans = 200

// writePage writes the answer to a request as a page.
func writePage(ctx context.Context, r plan.Request, f *machine, run *runFlags, name string, s streams) error {
	r.Top = min(r.Top, mostPagePlans)
	if name != "-" {
		if _, err := writable(name); err != nil {
			return err
		}
	}
	a, err := page.Ask(ctx, r)
	if err != nil {
		return err
	}
	a.Flags, a.GPUFile, a.ModelFile, a.Version = f.flagText(run), f.gpuFile(), f.modelFile(), versionText()
	var out bytes.Buffer
	if err := page.Write(&out, a); err != nil {
		return err
	}
	if name == "-" {
		_, err = s.out.Write(out.Bytes())
	} else if err = writeWhole(name, out.Bytes()); err == nil {
		_, err = fmt.Fprintf(s.err, "moeplan: wrote %s (%d kB)\n", name, (out.Len()+500)/1000)
	}
	if err == nil && len(a.Result.Plans) == 0 {
		return nothingFits(a.Result)
	}
	return err
}
