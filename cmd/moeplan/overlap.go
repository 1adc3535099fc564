package main

import (
	"io"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/evidence"
	"github.com/moeplan/moeplan/topology"
)

type overlapCmd struct {
	Trace   string `arg:"" help:"Trace that torch.profiler exported (.json or .json.gz; '-' is standard input)."`
	Log     string `placeholder:"FILE" help:"Log of the same run, for its memory."`
	GPU     string `name:"gpu" help:"Kind of GPU, for its memory where the trace does not say: a name that moeplan platforms lists, or a YAML file."`
	Sources bool   `help:"Add the source of each claim."`
	Output  string `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

// Help is the part of the usage below the summary.
func (overlapCmd) Help() string {
	return `Measures the unions of communication and of compute kernels, what of the former is hidden and exposed, by axis, and idle time,
and names what the steps mostly wait for with the fixes that target it. Overlapping kernels are never summed.

  moeplan overlap torch_profile/rank-0.json.gz --log run.log

An Nsight Systems export (SQLite) is not read yet; the message says how to turn it into JSON.

Exit codes: 0 done; 1 the file cannot be read; 80 usage.`
}

type overlapJSON struct {
	Trace *evidence.Trace       `json:"trace"`
	Wall  *evidence.WallVerdict `json:"wall"`
}

func (c *overlapCmd) Run(s streams) error {
	var memory evidence.Memory
	if c.GPU != "" {
		p, err := lookupPlatform(c.GPU)
		if err != nil {
			return err
		}
		g, err := p.Need(topology.FigureMemory)
		if err != nil {
			return err
		}
		memory.Capacity = evidence.Bytes{N: int64(g * (1 << 30)), Known: true}
	}
	if c.Log != "" {
		logs, err := readLogs([]string{c.Log})
		if err != nil {
			return err
		}
		memory.Log = logs[0]
	}
	trace, err := readTrace(c.Trace)
	if err != nil {
		return err
	}
	wall := trace.Wall(memory)
	if c.Output == "json" {
		return writeJSON(s.out, overlapJSON{trace, wall})
	}
	return report.Overlap(s.out, trace, wall, c.Sources)
}

func readTrace(name string) (trace *evidence.Trace, err error) {
	err = withFile(name, func(r io.Reader) error {
		trace, err = evidence.ReadTrace(name, r)
		return err
	})
	return trace, err
}
