package evidence

import (
	"fmt"
	"slices"
)

// Strength is what evidence can carry.
type Strength string

const (
	NoStrength Strength = "none"
	Screen     Strength = "screen"     // may only reject
	Validation Strength = "validation" // may accept
)

// Judgement is what a run says about its contract's claim.
type Judgement string

const (
	Supported    Judgement = "supported"
	Rejected     Judgement = "rejected"
	NotRejected  Judgement = "not-rejected"  // a screen that found nothing; it accepts nothing
	NotSupported Judgement = "not-supported" // nothing is wrong, and too little is shown
)

// Losses are those of the steady window.
type Losses struct {
	First Value `json:"first"` // in its first logged iteration; a string ("NaN", "Infinity") for what JSON has no number for
	Last  Value `json:"last"`  // in its last logged iteration; a string for what JSON has no number for
	// NotFinite counts lines with a loss or gradient norm that is no number, or with no loss though a step was taken.
	NotFinite int `json:"not_finite"`
}

// Assessment is what one run shows under its contract.
type Assessment struct {
	Log      string    `json:"log"` // the file, as it was named
	Contract *Contract `json:"-"`
	// Candidate is the contract's: training-equivalent, or benchmark-only where the run leaves something out that training
	// does.
	Candidate Candidate `json:"candidate"`
	Reasons   []string  `json:"reasons"` // why it is benchmark-only; [] if it is not
	// Judgement is supported, rejected (problems say why), not-rejected (a screen that found nothing, which accepts nothing)
	// or not-supported (nothing is wrong, and gaps say what is not shown).
	Judgement Judgement `json:"judgement"`
	Asked     Strength  `json:"strength_asked"`   // the evidence that was asked for: screen or validation
	Reached   Strength  `json:"strength_reached"` // none, screen (6 steady steps on) or validation (50 in a declared window)
	Runs      int       `json:"runs_in_log"`      // how many the log holds; the last one counts
	Window    Window    `json:"window"`           // the steady iterations that the figures are of; empty where times mean nothing
	Time      StepTimes `json:"step_time"`        // null figures where times mean nothing: a profiled run, or a fake process group

	TFLOPS       Value `json:"tflops_per_gpu"`            // median of the window, 1e12 FLOP/s, as the log prints it; null if it does not
	MFU          Value `json:"mfu"`                       // model FLOPs utilisation, 0 to 1 of the peak of the contract's precision; null if one is unknown
	Tokens       Value `json:"tokens_per_second"`         // of all GPUs; null where time, batch or seq_length is unknown
	TokensPerGPU Value `json:"tokens_per_second_per_gpu"` // null where tokens_per_second is, or the number of GPUs is unknown

	Loss    Losses `json:"loss"`               // null figures where the log shows none
	Skipped int    `json:"skipped_iterations"` // in the whole last run, as the framework counts them
	NaN     int    `json:"nan_iterations"`     // in the whole last run, as the framework counts them

	PeakAllocated Bytes   `json:"peak_allocated"` // bytes, of the fullest rank that reported; null if none did
	PeakReserved  Bytes   `json:"peak_reserved"`  // bytes, of the rank that reserved most; null if none reported it
	PeakIteration Ordinal `json:"peak_iteration"` // after which peak_allocated was reported; null if it is, and for a line around a checkpoint
	MemoryRanks   int     `json:"memory_ranks"`   // ranks that reported memory; 0: the peaks are null
	OutOfMemory   int     `json:"out_of_memory"`  // errors of that kind in the log

	Features   []FeatureCheck `json:"features"`   // what the contract asks for, proven or not
	Checkpoint Checkpoint     `json:"checkpoint"` // whether saving and loading was seen to work
	// Problems reject; Gaps are what the claim still needs; Notes neither.
	Problems []string `json:"problems"`
	Gaps     []string `json:"gaps"`
	Notes    []string `json:"notes"`

	run *Log
}

// Inputs of an assessment beside contract and log.
type Inputs struct {
	// Strength that is asked for; "" is the contract's.
	Strength Strength
	// Trace is of a profiled run under the same contract; nil: none.
	Trace *Trace
	// PeakTFLOPS is the GPU's dense peak in the contract's precision; unknown: no MFU.
	PeakTFLOPS Value
}

// Assess says what a log shows under a contract: times of the steady window, throughput, losses, memory, features and
// checkpoints, and what of that rejects the claim or leaves it open.
func Assess(c *Contract, log *Log, in Inputs) *Assessment {
	a := &Assessment{Log: log.Name, Contract: c, Candidate: c.Candidate, Reasons: c.Reasons, Asked: in.Strength, Reached: NoStrength, run: log}
	if a.Asked == "" {
		a.Asked = Strength(c.Measure.Strength)
	}
	its, runs := log.LastRun()
	if a.Runs = runs; len(its) == 0 {
		its = a.fromStepTimes(log)
	}
	if runs > 1 {
		a.note("%d runs in the log, the last one counts", runs)
	}
	a.time(c, log, its, in)
	a.numerics(its)
	a.memory(log)
	a.Features = features(c, log, in.Trace)
	a.Checkpoint = checkpoint(log)
	for _, d := range contradictions(c, log) {
		a.problem("%s", d)
	}
	a.judge(c)
	return a
}

func (a *Assessment) problem(format string, args ...any) {
	a.Problems = append(a.Problems, fmt.Sprintf(format, args...))
}

func (a *Assessment) gap(format string, args ...any) {
	a.Gaps = append(a.Gaps, fmt.Sprintf(format, args...))
}

func (a *Assessment) note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}

// fromStepTimes numbers Bridge's lines of rank 0 from 1, where the log has no iteration line.
func (a *Assessment) fromStepTimes(log *Log) []Iteration {
	var its []Iteration
	for i, s := range log.StepTimes {
		its = append(its, Iteration{Number: i + 1, Seconds: s.Seconds, TFLOPS: s.TFLOPS, Line: s.Line, GlobalBatch: a.Contract.Workload.GBS})
	}
	if len(its) > 0 {
		a.Runs = 1
		a.note("no iteration line: times are of rank 0's Step Time lines, counted from 1; losses are not known")
	}
	return its
}

// time fills in the window, its times and what follows from them, unless the run's times mean nothing.
func (a *Assessment) time(c *Contract, log *Log, its []Iteration, in Inputs) {
	if log.Fake() {
		a.gap("times mean nothing under the fake process group")
		return
	}
	if why, profiled := log.IsProfiled(); profiled || c.Measure.Profiled {
		if why == "" {
			why = "measure.profiled"
		}
		a.gap("times are not taken from a profiled run (%s)", why)
		return
	}
	steady, w := window(c, log, its)
	a.Window = w
	switch {
	case w.Steps >= ValidationSteps && w.Complete:
		a.Reached = Validation
	case w.Steps >= ScreenSteps:
		a.Reached = Screen
	}
	a.Time = timesOf(steady)
	a.TFLOPS = medianOf(steady, func(it *Iteration) Value { return it.TFLOPS })
	if a.TFLOPS.Known && in.PeakTFLOPS.Known && in.PeakTFLOPS.V > 0 {
		a.MFU = known(a.TFLOPS.V / in.PeakTFLOPS.V)
	}
	if batch := medianOf(steady, func(it *Iteration) Value { return Value{float64(it.GlobalBatch), it.GlobalBatch > 0} }); batch.Known && a.Time.Median.Known && c.Workload.SeqLength > 0 {
		a.Tokens = known(batch.V * float64(c.Workload.SeqLength) / a.Time.Median.V)
		if c.Hardware.GPUs > 0 {
			a.TokensPerGPU = known(a.Tokens.V / float64(c.Hardware.GPUs))
		}
	}
	if n := len(steady); n > 0 {
		a.Loss.First, a.Loss.Last = steady[0].Loss, steady[n-1].Loss
	}
	a.short(c)
}

// short says why a run is no validation.
func (a *Assessment) short(c *Contract) {
	w := &a.Window
	switch {
	case a.Asked != Validation || a.Reached == Validation:
		if a.Reached == NoStrength {
			a.gap("%d steady iterations; a screen needs %d to %d", w.Steps, ScreenSteps, ScreenMostSteps)
		}
	case !w.Declared:
		a.gap("a validation needs a window that the contract declares (measure.window_first, window_last)")
	case !w.Complete:
		a.gap("the log has %d of the %d steps of the declared window %d to %d", w.Steps, c.Measure.Last-c.Measure.First+1, c.Measure.First, c.Measure.Last)
	default:
		a.gap("%d steady iterations; a validation needs %d", w.Steps, ValidationSteps)
	}
}

// numerics counts what went wrong in any iteration of the run. A step that was skipped shows no loss.
func (a *Assessment) numerics(its []Iteration) {
	lossShown := slices.ContainsFunc(its, func(it Iteration) bool { return it.Loss.Known })
	first := 0
	for i := range its {
		it := &its[i]
		a.Skipped += it.Skipped
		a.NaN += it.NaN
		missing := lossShown && !it.Loss.Known && it.Skipped == 0
		if missing || it.Loss.Known && !it.Loss.Finite() || it.GradNorm.Known && !it.GradNorm.Finite() && it.Skipped == 0 {
			a.Loss.NotFinite++
			if first == 0 {
				first = it.Number
			}
		}
	}
	if a.run.Fake() {
		return // values are garbage there
	}
	if a.Loss.NotFinite > 0 {
		a.problem("loss or gradient norm is no number in %s, first at iteration %d (the framework prints no loss that is no number)",
			counted(a.Loss.NotFinite, "line"), first)
	}
	if a.NaN > 0 {
		a.problem("%s", counted(a.NaN, "NaN iteration"))
	}
	if a.Skipped > 0 {
		a.problem("%s", counted(a.Skipped, "skipped iteration"))
	}
	if len(its) > 0 && !lossShown && len(a.run.Iterations) > 0 {
		a.problem("no iteration line shows a loss: none was a number")
	}
}

// counted writes a number of things.
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (a *Assessment) memory(log *Log) {
	for i := range log.Memory {
		r := &log.Memory[i].Last
		if r.MaxAllocated.N > a.PeakAllocated.N {
			a.PeakAllocated, a.PeakIteration = r.MaxAllocated, Ordinal(max(0, r.Iteration))
		}
		if r.MaxReserved.Known && r.MaxReserved.N > a.PeakReserved.N {
			a.PeakReserved = r.MaxReserved
		}
	}
	a.MemoryRanks = len(log.Memory)
	if a.OutOfMemory = len(log.OutOfMemory); a.OutOfMemory > 0 {
		a.problem("out of memory (line %d)", log.OutOfMemory[0].Line)
	}
	if !a.PeakAllocated.Known {
		a.note("peak memory is not known: the log has no memory line")
	}
}

// judge weighs everything up.
func (a *Assessment) judge(c *Contract) {
	for i := range a.Features {
		f := &a.Features[i]
		switch {
		case f.State == Contradicted:
			a.problem("%s is contradicted: %s", f.Name, f.By)
		case f.State == Unproven && f.Path == c.Variable:
			a.gap("%s, the variable under test, is unproven: %s", f.Name, f.By)
		}
	}
	switch {
	case len(a.Problems) > 0:
		a.Judgement = Rejected
	case a.Asked == Screen && a.Reached != NoStrength:
		a.Judgement = NotRejected
	case a.Reached == Validation && len(a.Gaps) == 0:
		a.Judgement = Supported
	default:
		a.Judgement = NotSupported
	}
}
