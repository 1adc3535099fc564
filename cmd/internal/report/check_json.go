package report

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/layout/script"
)

// checkedJSON is what moeplan check found, for a program.
type checkedJSON struct {
	File string `json:"file"` // the script, as it was named; "argv" for a bare command line
	// Command is the launch that was judged, of several the one that most looks like training with Megatron.
	Command    *script.Command   `json:"command"`
	Warnings   []script.Warning  `json:"warnings"`   // what the reading depends on and did not know
	World      int               `json:"world_size"` // number of GPUs, as given or as the launch says
	Violations layout.Violations `json:"violations"` // in the order in which the framework would hit them; [] if none
	// Changes are the values that the framework silently replaces by others; [] where the parser refuses the command line.
	Changes    []megatron.Change `json:"silent_changes"`
	Layout     *plan.Sizes       `json:"layout"`     // degrees and batch; null where no layout is defined
	Key        *string           `json:"key"`        // the layout in its text form, complete; null where none is defined
	Parameters *parametersJSON   `json:"parameters"` // elements of the model; null where none is defined
	Stages     *[]plan.Stage     `json:"stages"`     // one a pipeline rank; null where memory is not defined
	Unmodelled []string          `json:"unmodelled"` // what the launch asks for and memory does not price
	Missing    *string           `json:"missing"`    // why layout, parameters or stages are null; null if none is
	Fit        *plan.Fit         `json:"fit"`        // whether it fits the GPU; null where stages or the GPU's memory are not known
	Base       *plan.Base        `json:"base"`       // where the layout stands among our plans; null where it has no place
	NotPlaced  *string           `json:"not_placed"` // why fit or base are null; null if neither is
	Times      *timesJSON        `json:"times"`      // what a step takes; null where it has no price
	Untimed    *string           `json:"untimed"`    // why times is null; null if it is not
}

// parametersJSON are elements of the whole model, not of one rank.
type parametersJSON struct {
	Total  int64 `json:"total"`  // all of them
	Active int64 `json:"active"` // those that one token uses: of the experts its top-k and the shared ones
}

// timesJSON is the estimate of one step as the launch is written.
type timesJSON struct {
	StepTimeMS float64 `json:"step_time_ms"`   // of one step, as estimated, ms
	TFLOPS     float64 `json:"tflops_per_gpu"` // model TFLOPS, 1e12 FLOP/s
}

// JSON is what -o json prints.
func (c *Checked) JSON() any {
	j := c.Judgement
	out := checkedJSON{File: c.Script.Name, Command: c.Command, Warnings: c.Script.Warnings, World: c.World, Violations: j.Violations,
		Unmodelled: j.Unmodelled, Missing: OrNull(j.Missing), Fit: c.Fit, Base: c.Base, NotPlaced: OrNull(c.whyNotPlaced())}
	if j.Resolved != nil {
		out.Changes = j.Resolved.Changes
	}
	if j.Layout != nil {
		sizes := plan.SizesOf(j.Model, j.Layout)
		out.Layout, out.Key = &sizes, OrNull(j.Layout.String())
	}
	if j.Total > 0 {
		out.Parameters = &parametersJSON{j.Total, j.Active}
	}
	if j.StepTimeMS != nil {
		out.Times = &timesJSON{*j.StepTimeMS, *j.TFLOPS}
	} else {
		out.Untimed = OrNull(firstWord(j.Untimed, j.Missing))
	}
	if j.Stages != nil {
		out.Stages = &j.Stages
	}
	return out
}

// whyNotPlaced says why fit or base are not known; "" if both are.
func (c *Checked) whyNotPlaced() string {
	j := c.Judgement
	switch {
	case c.Fit != nil && c.Base != nil:
		return ""
	case c.NotPlaced != "":
		return c.NotPlaced
	case j.Missing != "":
		return j.Missing
	case !j.Violations.Legal():
		return "it breaks rules, and only what runs is placed among our plans"
	}
	return "moeplan searches no such layout, or none that it searches fits"
}
