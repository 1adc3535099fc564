package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"

	"github.com/moeplan/moeplan/cmd/internal/config"
	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/evidence"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
)

type verifyCmd struct {
	Words     words   `arg:"" name:"log" help:"Logs ('-' is standard input, .gz is unpacked) and, before or after the flags, the layout in its text form."`
	More      words   `arg:"" optional:"" name:"layout" help:"The layout, unless --plan brings it."`
	Rest      words   `arg:"" optional:"" hidden:""`
	Plan      string  `placeholder:"FILE#N" help:"Plan N (default 1) of a file that moeplan -o json wrote, instead of --model, --gpus and a layout."`
	Tolerance float64 `default:"5" help:"Deviation of a peak, in percent of the prediction, up to which it holds."`
	Calibrate string  `placeholder:"FILE" help:"Write how far the measured peaks lie off into a calibration file, new or old, for --calibration."`

	machine  `embed:""`
	runFlags `embed:""`
	Output   string `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

// Help is the part of the usage below the flags' own.
func (verifyCmd) Help() string {
	return `Reads logs of Megatron-LM or Megatron-Bridge and holds the memory that each rank reported against the prediction for its
pipeline stage. The last report of a rank counts: the first lacks optimizer state. The configuration that a run printed, or that
Bridge saved as YAML and stands among the logs, must be of this layout.

  moeplan verify check.log --model qwen3-235b --gpus 256 'tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm'

Exit codes: 0 every peak within the tolerance; 2 the layout breaks a rule; 4 a peak deviates, or the logs hold nothing to
compare or another run; 80 usage.`
}

// layoutWord is what a word of a layout looks like; anything else names a file.
var layoutWord = regexp.MustCompile(`^(tp|cp|pp|vpp|ep|etp|mbs)[0-9]+$|=|\s`)

func splitWords(words []string) (files, layout []string) {
	for _, w := range words {
		if layoutWord.MatchString(w) {
			layout = append(layout, w)
		} else {
			files = append(files, w)
		}
	}
	return files, layout
}

func (c *verifyCmd) Run(ctx context.Context, s streams) error {
	if !(c.Tolerance > 0 && c.Tolerance <= 100) {
		return usage("--tolerance %g lies between 0 and 100 percent", c.Tolerance)
	}
	files, words := splitWords(append(append(c.Words.list, c.More.list...), c.Rest.list...))
	switch {
	case len(files) == 0:
		return usage("no log: moeplan verify check.log ...; a layout's words look like tp2 or recompute=none")
	case c.Plan == "" && len(words) == 0:
		return usage("no layout: which one ran? (or --plan plan.json#1)")
	}
	r, l, err := (&chosen{Layout: words, Plan: c.Plan, machine: c.machine, runFlags: c.runFlags}).take(ctx, s.err)
	if err != nil {
		return err
	}
	claim, err := claimOf(ctx, r, l, c.Tolerance/100)
	if err != nil {
		return err
	}
	logs, err := readLogs(files)
	if err != nil {
		return err
	}
	v, err := evidence.Verify(claim, logs)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		err = writeJSON(s.out, v)
	} else {
		err = report.Verification(s.out, &l, v)
	}
	if err == nil && c.Calibrate != "" {
		err = calibrateMemory(c.Calibrate, r.Platform, v)
	}
	if err != nil || v.Outcome == evidence.Agrees {
		return err
	}
	return &coded{exitDeviates, verdict(v)}
}

// calibrateMemory puts what a verification found into a calibration file. A run that shows nothing changes nothing.
func calibrateMemory(name string, p *topology.Platform, v *evidence.Verification) error {
	if v.Outcome != evidence.Agrees && v.Outcome != evidence.Deviates {
		return nil
	}
	found := config.CalibrationMemory{OffsetGiB: math.Inf(-1)}
	for i := range v.Ranks {
		if r := &v.Ranks[i]; r.Steady && r.Measured.Known {
			found.Ranks++
			found.OffsetGiB = max(found.OffsetGiB, math.Round(1e3*float64(r.Measured.N-r.Predicted.N)/(1<<30))/1e3)
		}
	}
	if found.Ranks == 0 {
		return nil
	}
	c := &config.Calibration{GPU: p.ID, Factors: config.CalibrationFactors{Compute: 1, NVLink: 1, NIC: 1, Host: 1}}
	if _, err := os.Stat(name); err == nil {
		if c, err = calibration(name, p); err != nil {
			return err
		}
	}
	c.Memory = &found
	return save(name, func(w io.Writer) error { return config.WriteCalibration(w, c) })
}

// claimOf prices a layout and puts it into the terms of a measurement.
func claimOf(ctx context.Context, r plan.Request, l layout.Layout, tolerance float64) (*evidence.Claim, error) {
	p, _, err := plan.Describe(ctx, r, l)
	if err != nil {
		return nil, err
	}
	grade, err := plan.Grader(r)
	if err != nil {
		return nil, err
	}
	c := &evidence.Claim{Model: r.Model, Layout: &l, Fits: p.Grade == plan.Fits, Tolerance: tolerance,
		Grade: func(n int64) string { return string(grade(n)) }}
	c.Stages = expectations(p)
	balanced, run := plan.CheckRun(r, l)
	if p, _, err = plan.Describe(ctx, balanced, run); err != nil {
		return nil, err
	}
	c.FakeStages = expectations(p)
	return c, nil
}

func expectations(p *plan.Plan) (out []evidence.Expectation) {
	for i := range p.Stages {
		m := &p.Stages[i].Memory
		out = append(out, evidence.Expectation{Stage: i, PeakAllocated: m.PeakAllocated, AfterStep: m.AllocatedAfterStep,
			PeakDevice: m.PeakDevice, Parameters: p.Stages[i].Parameters.Total})
	}
	return out
}

func readLogs(files []string) ([]*evidence.Log, error) {
	var logs []*evidence.Log
	for _, name := range files {
		err := withFile(name, func(r io.Reader) error {
			log, err := evidence.ReadLog(name, r)
			logs = append(logs, log)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return logs, nil
}

// withFile opens a file, or standard input for "-", for the time of one call.
func withFile(name string, read func(io.Reader) error) error {
	if name == "-" {
		return read(os.Stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := read(f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// verdict says in one line why a verification did not hold.
func verdict(v *evidence.Verification) error {
	switch v.Outcome {
	case evidence.AnotherRun:
		return fmt.Errorf("the log is of another run: %s", strings.Join(v.Mismatches[:min(3, len(v.Mismatches))], "; "))
	case evidence.Inconclusive:
		return fmt.Errorf("nothing could be verified: no rank reported a peak after its second iteration")
	}
	for i := range v.Parameters {
		if p := &v.Parameters[i]; p.Predicted != p.Printed {
			return fmt.Errorf("stage %d holds %d parameters on a rank, predicted were %d", p.Stage, p.Printed, p.Predicted)
		}
	}
	for i := range v.Ranks {
		if r := &v.Ranks[i]; r.OfOutOfMem && r.Outcome == evidence.Deviates {
			return fmt.Errorf("%s ran out of memory, the prediction was that it fits", report.RankName(r.Rank))
		}
	}
	w := v.Worst()
	return fmt.Errorf("rank %d deviates by %+.1f %% from the predicted peak, the tolerance is %g %%", w.Rank, 100*w.Deviation.V, 100*v.Tolerance)
}
