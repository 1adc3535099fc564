package evidence

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// Expectation is what was predicted for the worst rank of one pipeline stage, in bytes and elements.
type Expectation struct {
	Stage         int
	PeakAllocated int64
	AfterStep     int64 // torch.cuda.memory_allocated between steps
	PeakDevice    int64 // what the card sees, upper figure
	Parameters    int64
}

// Claim is a prediction that logs are held against.
type Claim struct {
	Model  *arch.Model
	Layout *layout.Layout
	Stages []Expectation // one a pipeline rank
	// FakeStages are likewise for a run under the fake process group, which balances tokens by force and dispatches by
	// alltoall. Nil: the same.
	FakeStages []Expectation
	// Fits is what the prediction says of the whole layout.
	Fits bool
	// Grade says of an allocated peak whether it fits the GPU.
	Grade func(allocated int64) string
	// Tolerance is the deviation of a peak, as a part of the prediction, up to which it holds.
	Tolerance float64
}

// Outcome is what a comparison came to.
type Outcome string

const (
	Agrees       Outcome = "agrees"
	Deviates     Outcome = "deviates"
	Inconclusive Outcome = "inconclusive" // the log holds no peak that can be compared
	AnotherRun   Outcome = "another-run"  // the log is of another layout or model
)

// RankCheck is one rank, predicted and measured.
type RankCheck struct {
	Rank      Index `json:"rank"`                     // global rank; null where an out-of-memory error does not say
	Stage     Index `json:"pipeline_rank"`            // by the layout; null where rank is
	Predicted Bytes `json:"predicted_peak_allocated"` // bytes of the stage's fullest rank; null where rank is
	// Measured is bytes, max_memory_allocated(); for a rank that ran out of memory what its tensors took and what was asked for
	// besides, which is a lower bound, or null if the error does not say.
	Measured Bytes `json:"measured_peak_allocated"`
	// Deviation is measured over predicted, less 1; null where one of them is, and where a lower bound lies below the prediction.
	Deviation    Value        `json:"deviation"`
	AfterStep    Bytes        `json:"predicted_allocated_after_step"` // bytes, memory_allocated() between steps; null where rank is
	Report       MemoryReport `json:"report"`                         // the last one of the rank; of an out-of-memory error its place in the log alone
	Reports      int          `json:"reports"`                        // how many the log has of it
	Steady       bool         `json:"steady"`                         // whether report is of its second iteration or later, with optimizer state
	Grade        string       `json:"grade"`                          // of the measured peak on the GPU: fits, tight or no
	Outcome      Outcome      `json:"outcome"`                        // agrees, deviates, or inconclusive: a peak without optimizer state
	OfOutOfMem   bool         `json:"out_of_memory"`                  // whether it ran out of memory instead of reporting
	Log          string       `json:"log"`                            // the file, as it was named
	OutsideAlloc bool         `json:"outside_allocator"`              // whether it ran out outside the caching allocator, as in NCCL
}

// Coverage says how much of the predicted memory the logs could show.
type Coverage struct {
	Covered Bytes `json:"covered"`            // bytes, measured allocated peak of the fullest rank seen; null if none was
	Of      int64 `json:"of"`                 // bytes, what the card is predicted to see on the fullest stage
	Fake    bool  `json:"fake_process_group"` // whether a log is of Megatron-LM's fake process group, which allocates nothing for NCCL
	// Missing are what it did not see, in words.
	Missing []string `json:"missing"`
}

// Verification is the outcome of Verify.
type Verification struct {
	// Outcome is agrees, deviates, inconclusive (no peak that can be compared) or another-run (the logs are of another
	// layout or model).
	Outcome    Outcome          `json:"outcome"`
	Tolerance  float64          `json:"tolerance"`   // share of the prediction up to which a peak holds: 0.05 is 5 %, which --tolerance calls 5
	Ranks      []RankCheck      `json:"ranks"`       // those that reported memory or ran out of it, ascending
	Parameters []ParameterCheck `json:"parameters"`  // printed counts; any difference deviates
	Coverage   Coverage         `json:"coverage"`    // how much of the predicted memory the logs could show
	Theory     []TheoryCheck    `json:"theoretical"` // the framework's own estimates in the logs
	// Mismatches are arguments in the log that belong to another layout or model.
	Mismatches []string `json:"mismatches"`
	Notes      []string `json:"notes"` // what limits the outcome, one sentence each
}

// ParameterCheck compares the parameters of one pipeline rank, exactly.
type ParameterCheck struct {
	Stage     int   `json:"pipeline_rank"` // that the line names, from 0
	Tensor    int   `json:"tensor_rank"`   // that the line names, from 0
	Predicted int64 `json:"predicted"`     // elements on one rank
	Printed   int64 `json:"printed"`       // elements, as the log says
}

// Worst is the rank that deviates most of those that were compared, so that it explains the outcome; nil if none was.
func (v *Verification) Worst() *RankCheck {
	var worst *RankCheck
	for i := range v.Ranks {
		r := &v.Ranks[i]
		if r.Outcome != Inconclusive && (worst == nil || math.Abs(r.Deviation.V) > math.Abs(worst.Deviation.V)) {
			worst = r
		}
	}
	return worst
}

// Verify holds the memory in logs against a prediction, rank by rank. Each rank's stage follows from the layout and its
// rank order, and its last report counts. A rank that the layout does not have, or arguments of another layout, make the
// outcome AnotherRun. The error is that of folding.New.
func Verify(c *Claim, logs []*Log) (*Verification, error) {
	f, err := folding.New(c.Layout.Degrees, c.Layout.Order, 1)
	if err != nil {
		return nil, err
	}
	v := &Verification{Tolerance: c.Tolerance, Outcome: Inconclusive}
	foreign := false
	for _, log := range logs {
		v.Coverage.Fake = v.Coverage.Fake || log.Fake()
		v.Mismatches = append(v.Mismatches, mismatches(c, log)...)
		for i := range log.Memory {
			r := &log.Memory[i]
			at, err := f.Coordinates(r.Rank)
			if err != nil {
				foreign = true
				v.Mismatches = append(v.Mismatches, fmt.Sprintf("%s: rank %d reports memory, and the layout has %d ranks", log.Name, r.Rank, c.Layout.World))
				continue
			}
			v.Ranks = append(v.Ranks, c.check(log, r, at.PP))
		}
		for i := range log.OutOfMemory {
			v.Ranks = append(v.Ranks, c.checkOOM(log, &log.OutOfMemory[i], f)...)
		}
		v.Parameters = append(v.Parameters, c.checkParameters(log)...)
		v.Theory = append(v.Theory, theories(c, log)...)
		v.note(log)
	}
	v.cover(c)
	v.conclude(foreign)
	return v, nil
}

// expected is what a log's run was to take on a stage.
func (c *Claim) expected(log *Log, stage int) *Expectation {
	if log.Fake() && c.FakeStages != nil {
		return &c.FakeStages[stage]
	}
	return &c.Stages[stage]
}

func (c *Claim) check(log *Log, r *RankMemory, stage int) RankCheck {
	e := c.expected(log, stage)
	out := RankCheck{Rank: Index(r.Rank), Stage: Index(stage), Predicted: Bytes{e.PeakAllocated, true}, Measured: r.Last.MaxAllocated, AfterStep: Bytes{e.AfterStep, true},
		Report: r.Last, Reports: r.Reports, Steady: log.Steady(r), Grade: c.Grade(r.Last.MaxAllocated.N), Log: log.Name, Outcome: Agrees}
	out.Deviation = known(float64(out.Measured.N)/float64(out.Predicted.N) - 1)
	switch {
	case out.Deviation.V > c.Tolerance || out.Steady && out.Deviation.V < -c.Tolerance:
		out.Outcome = Deviates
	case !out.Steady: // a peak without optimizer state is a lower bound only
		out.Outcome = Inconclusive
	}
	return out
}

// checkOOM: a rank that ran out of memory contradicts a prediction that it fits. Its need at that moment is a lower bound.
func (c *Claim) checkOOM(log *Log, o *OutOfMemory, f *folding.Folding) []RankCheck {
	out := RankCheck{Rank: Index(o.Rank), Stage: -1, OfOutOfMem: true, OutsideAlloc: o.Outside, Grade: "no", Outcome: Agrees, Log: log.Name}
	out.Report.Line, out.Report.Rank, out.Report.Iteration = o.Line, Index(o.Rank), -1
	if o.Iteration > 0 {
		out.Report.Iteration = Index(o.Iteration)
	}
	if c.Fits {
		out.Outcome = Deviates
	}
	at, err := f.Coordinates(o.Rank)
	if o.Rank < 0 || err != nil {
		return []RankCheck{out}
	}
	out.Stage = Index(at.PP)
	e := c.expected(log, at.PP)
	out.Predicted, out.AfterStep = Bytes{e.PeakAllocated, true}, Bytes{e.AfterStep, true}
	if out.Measured = o.Needed(); out.Measured.N > out.Predicted.N { // below the prediction it says nothing
		out.Deviation = known(float64(out.Measured.N)/float64(out.Predicted.N) - 1)
		if out.Deviation.V > c.Tolerance {
			out.Outcome = Deviates
		}
	}
	return []RankCheck{out}
}

// checkParameters compares printed counts with predicted ones; with TP and EP the same on each rank of a stage.
func (c *Claim) checkParameters(log *Log) []ParameterCheck {
	var out []ParameterCheck
	for _, s := range log.Parameters {
		if s.Pipeline < len(c.Stages) && c.Stages[s.Pipeline].Parameters > 0 {
			out = append(out, ParameterCheck{s.Pipeline, s.Tensor, c.Stages[s.Pipeline].Parameters, s.Elements})
		}
	}
	return out
}

func (v *Verification) note(log *Log) {
	add := func(format string, args ...any) {
		v.Notes = append(v.Notes, log.Name+": "+fmt.Sprintf(format, args...))
	}
	if log.Cut {
		add("ends within a line; what stands before it was read")
	}
	switch {
	case len(log.Memory) > 0 || len(log.OutOfMemory) > 0:
	case len(log.Arguments) > 0 && len(log.Iterations) == 0:
		add("a configuration alone: what was asked for, which proves nothing")
	default:
		add("no memory line and no out-of-memory error; a run prints them with --log-interval 1 on ranks of data parallel rank 0")
	}
	if len(log.Conflicts) > 0 && !log.Fake() {
		add("several runs with different %s", strings.Join(log.Conflicts[:min(5, len(log.Conflicts))], ", "))
	}
	for i := range log.Memory {
		if !log.Steady(&log.Memory[i]) {
			add("rank %d has only the report of its first iteration, which lacks optimizer state: its peak is a lower bound", log.Memory[i].Rank)
			break
		}
	}
}

func (v *Verification) cover(c *Claim) {
	seen := make([]bool, len(c.Stages))
	for i := range v.Ranks {
		if r := &v.Ranks[i]; !r.OfOutOfMem {
			seen[r.Stage] = true
			v.Coverage.Covered = Bytes{max(v.Coverage.Covered.N, r.Measured.N), true}
		}
	}
	for i := range c.Stages {
		v.Coverage.Of = max(v.Coverage.Of, c.Stages[i].PeakDevice)
	}
	if v.Coverage.Fake {
		v.Coverage.Missing = append(v.Coverage.Missing, "NCCL and the buffers of other processes' libraries")
		if c.Layout.Dispatcher.Flex() {
			v.Coverage.Missing = append(v.Coverage.Missing, c.Layout.Dispatcher.String()+" buffers")
		} else {
			v.Coverage.Missing = append(v.Coverage.Missing, "flex dispatcher buffers")
		}
		if c.Model.MoE != nil {
			v.Coverage.Missing = append(v.Coverage.Missing, "routing imbalance between ranks")
		}
	}
	if unseen := ranges(seen); unseen != "" {
		v.Coverage.Missing = append(v.Coverage.Missing, "stages "+unseen)
	}
}

// ranges writes the indices that are false: "1-6,9".
func ranges(seen []bool) string {
	var parts []string
	for i := 0; i < len(seen); i++ {
		if seen[i] {
			continue
		}
		j := i
		for j+1 < len(seen) && !seen[j+1] {
			j++
		}
		if parts = append(parts, fmt.Sprint(i)); j > i {
			parts[len(parts)-1] = fmt.Sprintf("%d-%d", i, j)
		}
		i = j
	}
	return strings.Join(parts, ",")
}

func (v *Verification) conclude(foreign bool) {
	slices.SortStableFunc(v.Ranks, func(a, b RankCheck) int { return int(a.Rank - b.Rank) })
	any := func(o Outcome) bool {
		return slices.ContainsFunc(v.Ranks, func(r RankCheck) bool { return r.Outcome == o })
	}
	wrong := slices.ContainsFunc(v.Parameters, func(p ParameterCheck) bool { return p.Predicted != p.Printed })
	switch {
	case foreign || len(v.Mismatches) > 0:
		v.Outcome = AnotherRun
	case any(Deviates) || wrong:
		v.Outcome = Deviates
	case any(Agrees):
		v.Outcome = Agrees
	}
}
