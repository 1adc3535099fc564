package evidence

import (
	"math"
	"slices"
)

// Lengths of evidence in steady iterations: a screen can only reject, a validation can accept (issue 6, item 4;
// recipes.md, workflow: validate over 50 steps).
const (
	ScreenSteps     = 6
	ScreenMostSteps = 12 // what a screen needs; more is a longer screen
	ValidationSteps = 50
)

// Sources of what an assessment goes by.
const (
	StrengthSource = "screens of 6 to 12 steady iterations that only reject, validations over 50 steps: recipes.md, workflow; issue 6, item 4"
	NoiseSource    = "noise: the larger of the contract's noise_percent (1 % is assumed) and twice the standard error of the two medians"
	LossSource     = "a loss that is no number is not printed: NVIDIA/Megatron-LM@d98e8a64dd megatron/training/training.py, training_log (if avg >= 0.0)"
)

// Window is the steady part of a run.
type Window struct {
	First Ordinal `json:"first"` // its first iteration, included; null: there is none
	Last  Ordinal `json:"last"`  // its last iteration, included; null: there is none
	// Steps are the iterations in it, Lines the log lines that time them: fewer with --log-interval above 1.
	Steps int `json:"steps"`
	Lines int `json:"lines"`
	// Declared windows were fixed in the contract; Complete says that the log has all of it.
	Declared bool `json:"declared"`
	Complete bool `json:"complete"`
	// Left are the iterations before it: warm-up, and up to the capture of CUDA graphs.
	Left int `json:"left_out"`
}

// window picks the steady lines of a run.
func window(c *Contract, log *Log, its []Iteration) ([]Iteration, Window) {
	w := Window{Declared: c.Measure.First > 0}
	if len(its) == 0 {
		return nil, w
	}
	start := startOf(its)
	from, to := start+c.Measure.WarmUp+1, math.MaxInt
	if w.Declared {
		from, to = c.Measure.First, c.Measure.Last
	}
	for i := range log.Events {
		if e := &log.Events[i]; e.Kind == GraphCaptured && e.Iteration < its[len(its)-1].Number {
			from = max(from, e.Iteration+2) // the iteration that captures is not steady
		}
	}
	w.Left = max(0, from-1-start) // a run may have begun behind a declared window
	var steady []Iteration
	before := start
	for _, it := range its {
		if before+1 >= from && it.Number <= to {
			steady = append(steady, it)
			w.Steps += it.Number - before
			if w.First == 0 {
				w.First = Ordinal(before + 1)
			}
			w.Last = Ordinal(it.Number)
		}
		before = it.Number
	}
	w.Lines = len(steady)
	w.Complete = w.Declared && int(w.First) == c.Measure.First && int(w.Last) == c.Measure.Last
	return steady, w
}

// startOf is the iteration after which a run began. Its first line is that of its first iteration (Core 0.16 on, or
// --log-interval 1), or ends the first of several intervals of one length, which begin at multiples of it.
func startOf(its []Iteration) int {
	if len(its) > 2 {
		interval := its[2].Number - its[1].Number
		if its[1].Number-its[0].Number == interval && its[0].Number%interval == 0 {
			return its[0].Number - interval
		}
	}
	return its[0].Number - 1
}

// StepTimes are the statistics of steady step times, in seconds. Median and quartiles stand against the odd slow step.
type StepTimes struct {
	Median Value `json:"median_s"`         // of the window's steps, s; null without any, as are the others
	Low    Value `json:"lower_quartile_s"` // a quarter of the steps is faster, s
	High   Value `json:"upper_quartile_s"` // a quarter of the steps is slower, s
	Min    Value `json:"min_s"`            // the fastest step, s
	Max    Value `json:"max_s"`            // the slowest step, s
	// Error is the standard error of the median, as far as one run shows it: 1.2533 * 1.4826 * MAD / sqrt(n), that of normal
	// noise estimated through the median absolute deviation.
	Error Value `json:"median_error_s"`
}

func timesOf(its []Iteration) StepTimes {
	var list []float64
	for i := range its {
		if its[i].Seconds.Finite() {
			list = append(list, its[i].Seconds.V)
		}
	}
	if len(list) == 0 {
		return StepTimes{}
	}
	slices.Sort(list)
	m := quantile(list, 0.5)
	away := make([]float64, len(list))
	for i, v := range list {
		away[i] = math.Abs(v - m)
	}
	slices.Sort(away)
	const normal = 1.2533 * 1.4826 // sqrt(pi/2) for a median's error, 1/0.6745 for a normal MAD
	return StepTimes{known(m), known(quantile(list, 0.25)), known(quantile(list, 0.75)), known(list[0]), known(list[len(list)-1]),
		known(normal * quantile(away, 0.5) / math.Sqrt(float64(len(list))))}
}

// quantile interpolates between the two nearest of a sorted list.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// medianOf is the median of what a line holds, as far as it does.
func medianOf(its []Iteration, of func(*Iteration) Value) Value {
	var list []float64
	for i := range its {
		if v := of(&its[i]); v.Finite() {
			list = append(list, v.V)
		}
	}
	if len(list) == 0 {
		return Value{}
	}
	slices.Sort(list)
	return known(quantile(list, 0.5))
}
