package main

import (
	"fmt"
	"io"
	"os"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/evidence"
	"github.com/moeplan/moeplan/layout/evidence/sqlite"
	"github.com/moeplan/moeplan/topology"
)

type overlapCmd struct {
	Trace   string `arg:"" help:"Trace that torch.profiler exported (.json or .json.gz; '-' is standard input), or an Nsight Systems export (.sqlite)."`
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
  nsys profile --trace=cuda,nvtx --cuda-graph-trace=node -c cudaProfilerApi ... && nsys export --type sqlite report.nsys-rep
  moeplan overlap report.sqlite

The axis of a communication kernel is told by its name (DeepEP, HybridEP, userbuffers), the process group in PyTorch's trace, or
the ranges around it; in an Nsight Systems export those are the NVTX ranges around the call that launched it. What nothing
tells is "other". A SQLite file is only read, and never through standard input.

Exit codes: 0 done; 1 the file cannot be read; 80 usage.`
}

// overlapJSON is what a profiler trace shows of communication, computation and waiting.
type overlapJSON struct {
	Trace *evidence.Trace       `json:"trace"` // the measured unions of kernels, device by device
	Wall  *evidence.WallVerdict `json:"wall"`  // what the steps mostly wait for, and what would change that
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

// readTrace reads a trace of PyTorch as a stream, and a database, which only a file is, at its places.
func readTrace(name string) (trace *evidence.Trace, err error) {
	err = withFile(name, func(r io.Reader) error {
		if f, ok := r.(*os.File); ok && isDatabase(f) {
			trace, err = readExport(name, f)
		} else {
			trace, err = evidence.ReadTrace(name, r)
		}
		return err
	})
	return trace, err
}

// isDatabase reports whether a file, which a pipe is not, begins as a SQLite database.
func isDatabase(f *os.File) bool {
	head := make([]byte, len(sqlite.Magic))
	_, err := f.ReadAt(head, 0)
	return err == nil && string(head) == sqlite.Magic
}

// readExport reads an Nsight Systems export. Nothing is written, so that what SQLite keeps beside a database that is being
// written, and would first put in order, must not be there.
func readExport(name string, f *os.File) (*evidence.Trace, error) {
	for _, beside := range []struct{ suffix, meaning string }{
		{"-journal", "holds what an unfinished write of it replaced"},
		{"-wal", "holds rows that are not in it yet"},
	} {
		if info, err := os.Stat(name + beside.suffix); err == nil && info.Size() > 0 {
			return nil, fmt.Errorf("%s%s %s: wait for nsys export to end, or export again", name, beside.suffix, beside.meaning)
		}
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return evidence.ReadExport(name, f, info.Size())
}
