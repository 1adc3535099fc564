package evidence

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Effect is what an A/B came to.
type Effect string

const (
	Faster      Effect = "faster"
	Slower      Effect = "slower"
	InsideNoise Effect = "inside-noise"
	NoVerdict   Effect = "no-verdict"
)

// Comparison is a run against its base.
type Comparison struct {
	Variable string `json:"variable"` // the one field that differs; "" without a match
	From     string `json:"from"`     // the variable's value in the base run; "" if it is blank
	To       string `json:"to"`       // the variable's value in the run; "" if it is blank
	Matched  bool   `json:"matched"`  // whether nothing but the variable differs; without that there is no verdict
	Effect   Effect `json:"effect"`   // faster, slower, inside-noise, or no-verdict (why says why)
	// Change is the run's step time over the base's, less 1: 0.01 is 1 % slower; null without a match or times.
	Change Value `json:"step_time_change"`
	// Noise is how large a change must be to count: the larger of the contract's and twice the standard error of the difference.
	Noise Value `json:"noise"`
	// TokensChange is that of tokens per second and GPU, run over base, less 1, which a change of precision needs beside the
	// time; null if one is unknown.
	TokensChange Value `json:"tokens_change"`
	MFUChange    Value `json:"mfu_change"` // of the model FLOPs utilisation, run over base, less 1; null if one is unknown
	// Others are fields and arguments that differ beside the variable.
	Others []string `json:"others"`
	// Unknown are fields that one contract leaves blank.
	Unknown []string `json:"unknown"`
	Why     string   `json:"why"` // what keeps from a verdict, or decides it; "" where the figures say all
}

// BaseOf is the contract of the base run that a contract declares: its variable at the value base. nil if it declares none.
func BaseOf(c *Contract) (*Contract, error) {
	if c.Variable == "" || c.Base == "" {
		return nil, nil
	}
	base := *c
	base.Variable, base.Base = "", ""
	if err := base.Set(c.Variable, c.Base); err != nil {
		return nil, err
	}
	base.Judge()
	return &base, nil
}

// Compare is a matched A/B: a verdict on time only where exactly one variable differs, between the contracts and between the
// configurations that the two logs show. Otherwise it names what differs. Both runs need as much evidence as was asked for.
func Compare(run, base *Assessment) *Comparison {
	c := &Comparison{Effect: NoVerdict}
	differing := Differing(base.Contract, run.Contract)
	c.Unknown = Blank(base.Contract, run.Contract)
	c.Variable = run.Contract.Variable
	if c.Variable == "" && len(differing) == 1 {
		c.Variable = differing[0]
	}
	for _, path := range differing {
		if path != c.Variable {
			e := fieldAt(path)
			c.Others = append(c.Others, fmt.Sprintf("%s: %s, then %s", path, e.text(base.Contract), e.text(run.Contract)))
		}
	}
	expressed := argumentsOf(c.Variable, base.Contract, run.Contract)
	for _, name := range differingArguments(base.run, run.run) {
		if !slices.Contains(expressed, name) {
			c.Others = append(c.Others, fmt.Sprintf("argument %s: %s, then %s", name, shown(base.run, name), shown(run.run, name)))
		}
	}
	if e := fieldAt(c.Variable); e != nil {
		c.From, c.To = e.text(base.Contract), e.text(run.Contract)
	}
	switch {
	case len(c.Others) > 0:
		c.Why = counted(len(c.Others), "more setting") + " than the variable changed; the gain of several changes is credited to none"
	case !slices.Contains(differing, c.Variable):
		c.Why = "the contracts do not differ: nothing is under test"
	default:
		c.Matched = true
		c.times(run, base)
	}
	return c
}

func shown(log *Log, name string) string {
	if v, ok := log.Arguments[name]; ok {
		return clipped(v)
	}
	return "not given"
}

// times compares the medians.
func (c *Comparison) times(run, base *Assessment) {
	a, b := &run.Time, &base.Time
	if !a.Median.Known || !b.Median.Known {
		c.Why = "one of the runs has no steady step times"
		return
	}
	c.Change = known(a.Median.V/b.Median.V - 1)
	floor := max(run.Contract.Measure.Tolerance, base.Contract.Measure.Tolerance) / 100
	c.Noise = known(max(floor, 2*math.Hypot(a.Error.V/a.Median.V, b.Error.V/b.Median.V)))
	change := func(x, y Value) Value {
		if !x.Finite() || !y.Finite() || y.V == 0 {
			return Value{}
		}
		return known(x.V/y.V - 1)
	}
	c.TokensChange, c.MFUChange = change(run.TokensPerGPU, base.TokensPerGPU), change(run.MFU, base.MFU)
	switch {
	case len(run.Problems) > 0 || len(base.Problems) > 0:
		c.Why = "one of the runs is rejected by itself"
	case weakest(run, base) == NoStrength:
		c.Why = fmt.Sprintf("one of the runs has fewer than %d steady iterations", ScreenSteps)
	case math.Abs(c.Change.V) <= c.Noise.V:
		c.Effect = InsideNoise
		c.Why = "the difference is inside the noise"
	case c.Change.V > 0:
		c.Effect = Slower
	case weakest(run, base) == Screen:
		c.Why = "a screen can only reject: it does not show that the run is faster"
	default:
		c.Effect = Faster
	}
}

func weakest(a, b *Assessment) Strength {
	for _, s := range []Strength{NoStrength, Screen} {
		if a.Reached == s || b.Reached == s {
			return s
		}
	}
	return Validation
}

// Holds reports whether an A/B supports its claim, that the variable makes the run faster: shown by a validation, or not
// rejected by a screen where no more was asked for.
func (c *Comparison) Holds(asked Strength) bool {
	return c.Effect == Faster || asked == Screen && c.Matched && c.Effect == NoVerdict && c.Change.Known && c.Change.V < 0 && strings.HasPrefix(c.Why, "a screen")
}

// Changed is one thing that differs between an old and a new run.
type Changed struct {
	What   string `json:"what"`   // the path of a contract's field, the name of an argument or a package, or a figure in words
	Kind   string `json:"kind"`   // contract, argument, software, time or memory
	Old    string `json:"old"`    // in the old run, a figure with its unit; "" or "not given" where nothing was set
	New    string `json:"new"`    // in the new run, a figure with its unit; "" or "not given" where nothing was set
	Change Value  `json:"change"` // new over old, less 1; null for what is no figure
	// Beyond says that a change of time or memory is larger than its noise.
	Beyond bool `json:"beyond_noise"`
}

// Regression is what differs between two runs, and whether one thing alone does.
type Regression struct {
	// Effects are times and memory, the largest change first; Differences are what was set otherwise, in the order of the
	// contract.
	Effects     []Changed `json:"effects"`
	Differences []Changed `json:"differences"`
	Worse       bool      `json:"worse"`      // some effect is, beyond its noise
	Conclusion  string    `json:"conclusion"` // one sentence; it names no cause, which takes an A/B of one variable
}

// memoryNoise is the change of a peak that says nothing: allocations repeat to well below a percent.
const memoryNoise = 0.005

// Regress ranks what differs between an old run and a new one. It claims no cause: that takes an A/B of one variable.
func Regress(old, new *Assessment) *Regression {
	r := &Regression{}
	effect := func(what, kind string, a, b Value, format func(float64) string, noise float64, lessIsWorse bool) {
		if !a.Finite() || !b.Finite() || a.V == 0 {
			return
		}
		change := b.V/a.V - 1
		beyond := math.Abs(change) > noise
		r.Effects = append(r.Effects, Changed{what, kind, format(a.V), format(b.V), known(change), beyond})
		if beyond && change > 0 != lessIsWorse {
			r.Worse = true
		}
	}
	noise := DefaultNoise / 100
	if a, b := &old.Time, &new.Time; a.Median.Known && b.Median.Known {
		noise = max(noise, 2*math.Hypot(a.Error.V/a.Median.V, b.Error.V/b.Median.V))
	}
	seconds := func(v float64) string { return fmt.Sprintf("%.3f s", v) }
	gibs := func(v float64) string { return fmt.Sprintf("%.2f GiB", v) }
	effect("median step", "time", old.Time.Median, new.Time.Median, seconds, noise, false)
	effect("TFLOPS per GPU", "time", old.TFLOPS, new.TFLOPS, func(v float64) string { return fmt.Sprintf("%.1f", v) }, noise, true)
	effect("peak allocated", "memory", asGiB(old.PeakAllocated), asGiB(new.PeakAllocated), gibs, memoryNoise, false)
	effect("peak reserved", "memory", asGiB(old.PeakReserved), asGiB(new.PeakReserved), gibs, 2*memoryNoise, false)
	slices.SortStableFunc(r.Effects, func(a, b Changed) int {
		x, y := math.Abs(a.Change.V), math.Abs(b.Change.V)
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	r.settings(old, new)
	switch n := len(r.Differences); {
	case !r.Worse:
		r.Conclusion = "nothing is worse beyond its noise"
	case n == 0:
		r.Conclusion = "worse, and nothing that was set differs: look at nodes, network and clocks, and repeat both runs"
	case n == 1:
		r.Conclusion = "worse, and one thing differs: repeat both runs as a matched A/B before it is called the cause"
	default:
		r.Conclusion = fmt.Sprintf("worse, and %d things differ: none is called the cause before an A/B varies it alone", n)
	}
	return r
}

func asGiB(b Bytes) Value { return Value{b.GiB(), b.Known} }

// settings lists what was set otherwise: contract fields, then arguments that no such field expresses, then versions.
func (r *Regression) settings(old, new *Assessment) {
	var expressed []string
	for _, path := range Differing(old.Contract, new.Contract) {
		e := fieldAt(path)
		r.Differences = append(r.Differences, Changed{What: path, Kind: "contract", Old: e.text(old.Contract), New: e.text(new.Contract)})
		expressed = append(expressed, argumentsOf(path, old.Contract, new.Contract)...)
	}
	for _, name := range differingArguments(old.run, new.run) {
		if !slices.Contains(expressed, name) {
			r.Differences = append(r.Differences, Changed{What: name, Kind: "argument", Old: shown(old.run, name), New: shown(new.run, name)})
		}
	}
	for _, v := range versionNames {
		if a, b := old.run.Versions[v.name], new.run.Versions[v.name]; a != b && a != "" && b != "" {
			r.Differences = append(r.Differences, Changed{What: v.name, Kind: "software", Old: a, New: b})
		}
	}
}
