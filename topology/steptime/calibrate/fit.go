package calibrate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

// Measured is one run: what was trained, on what, and how long a step took.
type Measured struct {
	ID       string
	Model    *arch.Model
	Platform *topology.Platform
	Layout   layout.Layout
	Software steptime.Software
	Run      steptime.Run // its Factors are ignored
	Seconds  float64      // of one step, the median of a steady window
}

// Errors are the sizes of the relative errors of a set of runs: 0.1 is a step predicted 10 % too long or too short.
type Errors struct{ Mean, Median, P90, Worst float64 }

// Row is one run's predictions, s.
type Row struct {
	ID       string
	Measured float64
	Before   float64 // without factors
	After    float64 // with those fitted to all runs
	LeftOut  float64 // with those fitted to all other runs
}

// Fitted is the result.
type Fitted struct {
	Factors steptime.Factors
	// Seen says of compute, NVLink, network and host whether the runs' times depend on it; if not, its factor is 1.
	Seen                   [4]bool
	Rows                   []Row // in the order of the runs
	Before, After, LeftOut Errors
}

// Better reports whether the fit predicts runs that it has not seen better than no fit does.
// The mean decides; a median of a few runs jumps.
func (f *Fitted) Better() bool { return f.LeftOut.Mean < f.Before.Mean }

const (
	// MinRuns is the fewest runs that can be fitted: with one left out there must be another.
	MinRuns = 2
	// MaxRuns bounds the work, which grows with the square of the runs: each is left out once.
	MaxRuns = 200

	// noise is the relative error that a step time is taken to have, and priors those of the model before any run; both
	// assumed. The model's own error on published runs is 0.06 to 0.17 (comm-model 5.2); network and host differ most from
	// site to site.
	noise = 0.05
	// visible is the share of a step time that a factor's doubling must change for the run to tell anything about it.
	visible = 0.01
)

var priors = [4]float64{0.15, 0.25, 0.35, 0.35} // compute, NVLink, network, host; standard deviations of the logarithm

// Fit fits the factors to runs. Errors name the run that cannot be priced.
func Fit(runs []Measured) (*Fitted, error) {
	if len(runs) < MinRuns || len(runs) > MaxRuns {
		return nil, fmt.Errorf("%d runs: a fit takes %d to %d", len(runs), MinRuns, MaxRuns)
	}
	all := make([]subject, len(runs))
	for i := range runs {
		var err error
		if all[i], err = newSubject(&runs[i]); err != nil {
			return nil, err
		}
	}
	f := &Fitted{Seen: seen(all), Rows: make([]Row, len(all))}
	best, err := fit(all, f.Seen)
	if err != nil {
		return nil, err
	}
	f.Factors = factorsOf(best)
	rest := make([]subject, 0, len(all)-1)
	for i := range all {
		rest = append(append(rest[:0], all[:i]...), all[i+1:]...)
		without, err := fit(rest, seen(rest))
		if err != nil {
			return nil, err
		}
		f.Rows[i] = Row{all[i].run.ID, all[i].run.Seconds, all[i].predict([4]float64{}), all[i].predict(best), all[i].predict(without)}
	}
	f.Before = errorsOf(f.Rows, func(r *Row) float64 { return r.Before })
	f.After = errorsOf(f.Rows, func(r *Row) float64 { return r.After })
	f.LeftOut = errorsOf(f.Rows, func(r *Row) float64 { return r.LeftOut })
	return f, nil
}

// subject is a run that has been priced once, so that pricing it again cannot fail.
type subject struct{ run *Measured }

func newSubject(m *Measured) (subject, error) {
	if !(m.Seconds > 0) || math.IsInf(m.Seconds, 0) {
		return subject{}, fmt.Errorf("run %s: a step of %g s", m.ID, m.Seconds)
	}
	run := m.Run
	run.Factors = steptime.Factors{}
	e, err := steptime.New(m.Model, m.Platform, run)
	if err != nil {
		return subject{}, fmt.Errorf("run %s: %w", m.ID, err)
	}
	if p := e.Price(&m.Layout, m.Software); !p.Known || !(p.Step > 0) {
		return subject{}, errors.Join(fmt.Errorf("run %s: its step has no price", m.ID), e.Need(m.Layout.World))
	}
	return subject{m}, nil
}

// predict is the step time under the logarithms of the four factors, s.
func (s subject) predict(logs [4]float64) float64 {
	run := s.run.Run
	run.Factors = factorsOf(logs)
	e, err := steptime.New(s.run.Model, s.run.Platform, run)
	if err != nil {
		return math.Inf(1) // factors beyond their bounds
	}
	return e.Price(&s.run.Layout, s.run.Software).Step
}

// seen tells which factors move any run's time.
func seen(all []subject) (out [4]bool) {
	for i := range out {
		var logs [4]float64
		logs[i] = math.Ln2
		for _, s := range all {
			if s.predict(logs)/s.predict([4]float64{})-1 > visible {
				out[i] = true
			}
		}
	}
	return out
}

// fit minimises the loss over the factors that are seen.
func fit(all []subject, free [4]bool) ([4]float64, error) {
	var index []int
	for i, ok := range free {
		if ok {
			index = append(index, i)
		}
	}
	unpack := func(x []float64) (logs [4]float64) {
		for j, i := range index {
			logs[i] = x[j]
		}
		return logs
	}
	if len(index) == 0 {
		return [4]float64{}, nil
	}
	loss := func(x []float64) float64 {
		logs := unpack(x)
		var sum float64
		for i, l := range logs {
			sum += l * l / (2 * priors[i] * priors[i])
		}
		for _, s := range all {
			predicted := s.predict(logs)
			if math.IsInf(predicted, 0) {
				return math.Inf(1)
			}
			z := math.Log(predicted/s.run.Seconds) / noise
			sum += math.Sqrt(1+z*z) - 1 // soft L1: one odd run does not rule
		}
		return sum
	}
	// The optimizer's work is bounded by the count of evaluations, not by time, so that the result is the same everywhere.
	settings := &optimize.Settings{FuncEvaluations: 400, Converger: &optimize.FunctionConverge{Absolute: 1e-5, Iterations: 12}}
	r, err := optimize.Minimize(optimize.Problem{Func: loss}, make([]float64, len(index)), settings, &optimize.NelderMead{SimplexSize: 0.1})
	if err != nil && r == nil {
		return [4]float64{}, err
	}
	return unpack(r.X), nil
}

// factorsOf rounds to what a file keeps, so that a prediction from the file equals the one reported.
func factorsOf(logs [4]float64) steptime.Factors {
	at := func(i int) float64 { return math.Round(1e4*math.Exp(logs[i])) / 1e4 }
	return steptime.Factors{Compute: at(0), NVLink: at(1), NIC: at(2), Host: at(3)}
}

func errorsOf(rows []Row, of func(*Row) float64) Errors {
	list := make([]float64, len(rows))
	var sum float64
	for i := range rows {
		list[i] = math.Abs(of(&rows[i])/rows[i].Measured - 1)
		sum += list[i]
	}
	slices.SortFunc(list, cmp.Compare[float64])
	at := func(q float64) float64 { return list[int(math.Ceil(q*float64(len(list))))-1] }
	return Errors{sum / float64(len(list)), at(0.5), at(0.9), at(1)}
}
