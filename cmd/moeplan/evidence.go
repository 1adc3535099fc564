package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/evidence"
	"github.com/moeplan/moeplan/topology"
)

type evidenceCmd struct {
	Contract     string `placeholder:"FILE" help:"Contract of the run (moeplan contract writes one)."`
	BaseContract string `placeholder:"FILE" help:"Contract of the base run, or of the old one. Without it the base is the contract with its variable at base."`
	Trace        string `placeholder:"FILE" help:"Profiler trace of a run under the same contract, which can prove features."`
	Strength     string `enum:"screen,validation,contract" default:"contract" help:"Evidence to ask for: screen, validation, or what the contract says."`
	Sources      bool   `help:"Add the source of each claim."`
	Regression   bool   `help:"Rank what differs between an OLD log and a NEW one; contracts are optional."`
	Logs         words  `arg:"" name:"log" help:"RUN.log, and BASE.log for an A/B; with --regression OLD.log NEW.log."`
	More         words  `arg:"" optional:"" hidden:""`
	Output       string `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

// Help is the part of the usage below the summary.
func (evidenceCmd) Help() string {
	return `Says what a run's log proves under its contract: steady step time, throughput, losses, memory, each requested feature proven,
contradicted or unproven, checkpoints. A screen of 6 to 12 steady iterations can only reject; a validation needs 50 steps and a
window that the contract declares. With a base run it is a matched A/B: exactly one variable may differ. A configuration that
Megatron-Bridge saved as YAML counts where it stands before the log.

  moeplan evidence --contract C.yaml run.log base.log
  moeplan evidence --regression old.log new.log
  cat run_config.yaml run.log | moeplan evidence --contract C.yaml -

Exit codes: 0 the evidence supports the claim; 1 a file cannot be read; 4 it does not; 80 usage.`
}

// evidenceJSON is what a run proves under its contract; base and comparison are null without a second log.
type evidenceJSON struct {
	Contract   *evidence.Contract   `json:"contract"`   // the contract as read; in it null is what it leaves blank
	Run        *evidence.Assessment `json:"run"`        // what RUN.log shows
	Base       *evidence.Assessment `json:"base"`       // what BASE.log shows; null without one
	Comparison *evidence.Comparison `json:"comparison"` // the matched A/B of the two; null without BASE.log
}

// regressionJSON is an old run beside a new one.
type regressionJSON struct {
	Old        *evidence.Assessment `json:"old"`        // what OLD.log shows
	New        *evidence.Assessment `json:"new"`        // what NEW.log shows
	Regression *evidence.Regression `json:"regression"` // how the new run differs from the old one
}

func (c *evidenceCmd) Run(s streams) error {
	files := append(c.Logs.list, c.More.list...)
	if c.Regression {
		return c.regress(s, files)
	}
	switch {
	case c.Contract == "":
		return usage("no --contract: moeplan contract LAYOUT > C.yaml writes one")
	case len(files) > 2:
		return usage("%d logs: want RUN.log and at most one BASE.log", len(files))
	}
	contract, err := readContract(c.Contract)
	if err != nil {
		return err
	}
	run, err := c.assess(contract, files[0], c.Trace)
	if err != nil {
		return err
	}
	var base *evidence.Assessment
	var ab *evidence.Comparison
	if len(files) == 2 {
		baseContract, err := c.baseContract(contract)
		if err != nil {
			return err
		}
		if base, err = c.assess(baseContract, files[1], ""); err != nil {
			return err
		}
		ab = evidence.Compare(run, base)
	}
	if c.Output == "json" {
		err = writeJSON(s.out, evidenceJSON{contract, run, base, ab})
	} else {
		err = report.Evidence(s.out, run, base, ab, c.Sources)
	}
	if err != nil {
		return err
	}
	switch {
	case run.Judgement == evidence.Rejected:
		return deviates("rejected: %s", run.Problems[0])
	case ab != nil && !ab.Holds(run.Asked):
		return deviates("no gain is shown: %s", why(ab))
	case run.Judgement == evidence.NotSupported:
		return deviates("not supported: %s", run.Gaps[0])
	}
	return nil
}

func why(ab *evidence.Comparison) string {
	if ab.Effect == evidence.Slower {
		return fmt.Sprintf("the run is slower by %.1f %%", 100*ab.Change.V)
	}
	return ab.Why
}

func deviates(format string, args ...any) error {
	return &coded{exitDeviates, fmt.Errorf(format, args...)}
}

// baseContract is the one given, or the run's with its variable at base.
func (c *evidenceCmd) baseContract(run *evidence.Contract) (*evidence.Contract, error) {
	if c.BaseContract != "" {
		return readContract(c.BaseContract)
	}
	base, err := evidence.BaseOf(run)
	if err == nil && base == nil {
		return nil, usage("a base log needs its conditions: --base-contract, or variable and base in %s", c.Contract)
	}
	return base, err
}

func readContract(name string) (contract *evidence.Contract, err error) {
	err = withFile(name, func(r io.Reader) error {
		contract, err = evidence.ReadContract(name, r)
		if err != nil {
			return &coded{exitUsage, err}
		}
		return nil
	})
	return contract, err
}

func (c *evidenceCmd) assess(contract *evidence.Contract, name, traceName string) (*evidence.Assessment, error) {
	logs, err := readLogs([]string{name})
	if err != nil {
		return nil, err
	}
	in := evidence.Inputs{PeakTFLOPS: peakOf(contract)}
	if c.Strength != "contract" {
		in.Strength = evidence.Strength(c.Strength)
	}
	if traceName != "" {
		if in.Trace, err = readTrace(traceName); err != nil {
			return nil, err
		}
	}
	return evidence.Assess(contract, logs[0], in), nil
}

// peakOf is the dense peak of the contract's GPU in its precision, for MFU; unknown for a GPU that is not in the catalogue. A
// contract names no file: it may be a stranger's.
func peakOf(c *evidence.Contract) evidence.Value {
	p, err := topology.LookupPlatform(c.Hardware.SKU)
	if err != nil {
		return evidence.Value{}
	}
	f := p.BF16TFLOPS
	switch precision, err := layout.ParsePrecision(c.Workload.Precision); {
	case err != nil:
		return evidence.Value{}
	case precision == layout.NVFP4:
		f = p.FP4TFLOPS
	case precision != layout.BF16 && precision != layout.FP16:
		f = p.FP8TFLOPS
	}
	return evidence.Value{V: f.Value, Known: f.Known}
}

// regress compares an old and a new log; what contracts do not say is taken from the logs' own configuration.
func (c *evidenceCmd) regress(s streams, files []string) error {
	if len(files) != 2 {
		return usage("--regression compares two logs, OLD.log and NEW.log; %d were given", len(files))
	}
	var sides [2]*evidence.Assessment
	for i, name := range []string{c.BaseContract, c.Contract} {
		contract := &evidence.Contract{}
		contract.Measure.WarmUp, contract.Measure.Strength = evidence.DefaultWarmUp, string(evidence.Screen)
		var err error
		if name != "" {
			if contract, err = readContract(name); err != nil {
				return err
			}
		}
		logs, err := readLogs(files[i : i+1])
		if err != nil {
			return err
		}
		if name == "" {
			contract.Workload.SeqLength, _ = strconv.Atoi(logs[0].Arguments["seq_length"])
			contract.Hardware.GPUs, _ = strconv.Atoi(logs[0].Arguments["world_size"])
		}
		sides[i] = evidence.Assess(contract, logs[0], evidence.Inputs{PeakTFLOPS: peakOf(contract)})
	}
	r := evidence.Regress(sides[0], sides[1])
	var err error
	if c.Output == "json" {
		err = writeJSON(s.out, regressionJSON{sides[0], sides[1], r})
	} else {
		err = report.Regression(s.out, sides[0], sides[1], r)
	}
	if err == nil && r.Worse {
		return deviates("%s", r.Conclusion)
	}
	return err
}
