package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/moeplan/moeplan/cmd/internal/config"
	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
	"github.com/moeplan/moeplan/topology/steptime/calibrate"
)

type calibrateCmd struct {
	From string `required:"" placeholder:"RUNS.jsonl" help:"Measured runs, one JSON object a line: id, gpu, gpus, step_ms, and either args (Megatron-LM's argv) or model, layout, seq_length and global_batch_size. - is standard input."`
	Save string `default:"calibration.yaml" help:"File to write, for --calibration."`

	Output string `short:"o" enum:"table,json" default:"table" help:"Format of what is printed: table or json."`
}

// measuredRun is one line of the runs.
type measuredRun struct {
	ID          string            `json:"id"`
	GPU         string            `json:"gpu"`
	GPUs        int               `json:"gpus"`
	StepMS      float64           `json:"step_ms"`
	Args        []string          `json:"args"`
	Env         map[string]string `json:"env"`
	Model       string            `json:"model"`
	Layout      string            `json:"layout"`
	Seq         int               `json:"seq_length"`
	GlobalBatch int               `json:"global_batch_size"`
	Imbalance   float64           `json:"imbalance"`
}

func (c *calibrateCmd) Run(ctx context.Context, s streams) error {
	runs, gpu, err := c.read()
	if err != nil {
		return &coded{exitUsage, err}
	}
	fit, err := calibrate.Fit(runs)
	if err != nil {
		return &coded{exitUsage, fmt.Errorf("%s: %w", c.From, err)}
	}
	if c.Output != "json" {
		if err := writeFit(s.out, gpu, fit); err != nil {
			return err
		}
	}
	if !fit.Better() {
		if c.Output == "json" {
			if err := writeJSON(s.out, calibratedAsJSON(gpu, fit, nil)); err != nil {
				return err
			}
		}
		return fmt.Errorf("runs that were left out are predicted no better with the fit (%s) than without (%s): %s is not written",
			percent(fit.LeftOut.Mean), percent(fit.Before.Mean), c.Save)
	}
	f := fit.Factors
	memory, err := memoryOf(c.Save, gpu)
	if err != nil {
		return err
	}
	err = save(c.Save, func(w io.Writer) error {
		return config.WriteCalibration(w, &config.Calibration{GPU: gpu, Runs: len(runs), Before: fit.Before.Mean, LeftOut: fit.LeftOut.Mean, Memory: memory,
			Factors: config.CalibrationFactors{Compute: f.Compute, NVLink: f.NVLink, NIC: f.NIC, Host: f.Host}})
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(s.out, calibratedAsJSON(gpu, fit, &c.Save))
	}
	_, err = fmt.Fprintf(s.out, "\nwritten to %s\n", c.Save)
	return err
}

// save writes a file as a whole or not at all.
func save(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return writeWhole(name, b.Bytes())
}

// read reads the runs, all of one GPU kind.
func (c *calibrateCmd) read() (runs []calibrate.Measured, gpu string, err error) {
	in := os.Stdin
	if c.From != "-" {
		if in, err = os.Open(c.From); err != nil {
			return nil, "", err
		}
		defer in.Close()
	}
	const most = 64 << 20
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, "", err
	}
	if len(data) > most {
		return nil, "", fmt.Errorf("%s: more than %d MiB of runs", c.From, most>>20)
	}
	var problems []error
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		number++
		if strings.TrimSpace(line) == "" {
			continue
		}
		m, err := readRun(line)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: %w", c.From, number, err))
			continue
		}
		if m.ID == "" {
			m.ID = fmt.Sprintf("line %d", number)
		}
		switch id := m.Platform.ID; {
		case gpu == "":
			gpu = id
		case gpu != id:
			problems = append(problems, fmt.Errorf("%s:%d: a run on %s after runs on %s: a calibration holds for one kind of GPU", c.From, number, id, gpu))
		}
		runs = append(runs, *m)
	}
	return runs, gpu, errors.Join(problems...)
}

// readRun reads one line.
func readRun(line string) (*calibrate.Measured, error) {
	var q measuredRun
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return nil, fmt.Errorf("not a run: %w", jsonProblem(err))
	}
	switch {
	case q.GPU == "":
		return nil, errors.New("gpu is missing")
	case q.GPUs < 1 || q.GPUs > layout.MaxSize:
		return nil, fmt.Errorf("gpus %d does not lie between 1 and %d", q.GPUs, layout.MaxSize)
	case !(q.StepMS > 0 && q.StepMS < 1e8):
		return nil, fmt.Errorf("step_ms %g is no step time", q.StepMS)
	case (len(q.Args) > 0) == (q.Layout != ""):
		return nil, errors.New("either args, or model and layout: one of the two says what ran")
	case q.Imbalance != 0 && !(q.Imbalance >= 1 && q.Imbalance <= 1e6):
		return nil, fmt.Errorf("imbalance %g: balanced is 1", q.Imbalance)
	}
	p, err := topology.LookupPlatform(q.GPU)
	if err != nil {
		return nil, err
	}
	m := &calibrate.Measured{ID: q.ID, Platform: p, Run: steptime.DefaultRun(), Seconds: q.StepMS / 1e3}
	if q.Layout == "" {
		err = q.launched(m)
	} else {
		err = q.written(m)
	}
	m.Run.Imbalance = max(m.Run.Imbalance, q.Imbalance)
	return m, err
}

// launched takes model, layout and software from an argv.
func (q *measuredRun) launched(m *calibrate.Measured) error {
	j, err := plan.Judge(context.Background(), plan.Launch{Argv: q.Args, World: q.GPUs, Env: q.Env, Platform: m.Platform, Imbalance: q.Imbalance, Release: megatron.Main})
	if err != nil {
		return err
	}
	if j.Timed == nil {
		if broken := j.Violations.Errors(); len(broken) > 0 {
			return broken
		}
		return fmt.Errorf("the step of this argv has no price: %s", cmp.Or(j.Missing, "its layout is not complete"))
	}
	m.Model, m.Layout, m.Software, m.Run = j.Model, *j.Layout, j.Timed.Software, j.Timed.Run
	return nil
}

// written takes them from a layout's text form.
func (q *measuredRun) written(m *calibrate.Measured) error {
	if q.Seq < 1 || q.Seq > layout.MaxSequence || q.GlobalBatch < 1 || q.GlobalBatch > layout.MaxSequence {
		return fmt.Errorf("seq_length %d and global_batch_size %d: both belong to a measured run, 1 to %d", q.Seq, q.GlobalBatch, layout.MaxSequence)
	}
	var err error
	if m.Model, err = arch.Lookup(q.Model); err != nil {
		return err
	}
	m.Layout, err = parseLayout(q.Layout, &plan.Request{Model: m.Model, Platform: m.Platform, GPUs: q.GPUs, SeqLength: q.Seq, GlobalBatchSize: q.GlobalBatch})
	if err != nil {
		return err
	}
	m.Model = plan.Stretched(m.Model, m.Layout.SeqLength)
	m.Software = steptime.AsWritten(&m.Layout)
	return nil
}

// writeFit prints what changed, and the errors.
func writeFit(w io.Writer, gpu string, f *calibrate.Fitted) error {
	fmt.Fprintf(w, "%d runs on %s\n\n", len(f.Rows), gpu)
	t := report.Table{Head: []string{"part of a step", "factor", ""}, Text: []int{0, 2}}
	factors := [4]float64{f.Factors.Compute, f.Factors.NVLink, f.Factors.NIC, f.Factors.Host}
	for i, name := range [4]string{"compute", "nvlink", "nic", "host"} {
		note := ""
		if !f.Seen[i] {
			note = "unchanged: no run depends on it"
		}
		t.Add(name, fmt.Sprintf("%.4f", factors[i]), note)
	}
	if err := t.Write(w, report.Text); err != nil {
		return err
	}
	fmt.Fprint(w, "\nPredicted over measured step time, less one; left out: fitted to the other runs only.\n\n")
	t = report.Table{Head: []string{"run", "measured", "before", "after", "left out"}, Text: []int{0}}
	for _, r := range f.Rows {
		of := func(s float64) string { return fmt.Sprintf("%+.1f %%", 100*(s/r.Measured-1)) }
		t.Add(r.ID, fmt.Sprintf("%.3f s", r.Measured), of(r.Before), of(r.After), of(r.LeftOut))
	}
	for _, e := range []struct {
		name string
		of   func(calibrate.Errors) float64
	}{
		{"mean size", func(e calibrate.Errors) float64 { return e.Mean }},
		{"median size", func(e calibrate.Errors) float64 { return e.Median }},
		{"worst size", func(e calibrate.Errors) float64 { return e.Worst }},
	} {
		t.Add(e.name, "", percent(e.of(f.Before)), percent(e.of(f.After)), percent(e.of(f.LeftOut)))
	}
	return t.Write(w, report.Text)
}

// calibration reads the file of --calibration and holds it against the platform.
func calibration(name string, p *topology.Platform) (*config.Calibration, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &coded{exitUsage, err}
	}
	defer f.Close()
	c, err := config.ReadCalibration(name, f)
	if err != nil {
		return nil, &coded{exitUsage, err}
	}
	if c.GPU != p.ID {
		return nil, usage("--calibration %s is of %s, not of %s", name, c.GPU, p.ID)
	}
	return c, nil
}

// memoryOf is what a calibration file that is about to be replaced holds about memory, nil if there is none.
func memoryOf(name, gpu string) (*config.CalibrationMemory, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	old, err := config.ReadCalibration(name, f)
	if err != nil {
		return nil, err
	}
	if old.GPU != gpu {
		return nil, usage("--save %s is of %s, not of %s", name, old.GPU, gpu)
	}
	return old.Memory, nil
}
