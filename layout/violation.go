package layout

import "strings"

// RuleID is the stable kebab-case name of a rule. It is never reused for another condition.
type RuleID string

// Severity says how bad a broken rule is.
type Severity string

const (
	Error  Severity = "error"  // the framework refuses, or fails at run time
	Hazard Severity = "hazard" // it starts but is wrong or slow
	Advice Severity = "advice" // it works; there is something to know
)

// NoticedAt is the moment at which a broken rule shows.
type NoticedAt string

const (
	AtArguments     NoticedAt = "arguments"          // argparse and validate_args
	AtBatch         NoticedAt = "batch"              // micro-batch calculator
	AtConfig        NoticedAt = "config"             // transformer and optimizer config
	AtProcessGroups NoticedAt = "process-groups"     // initialize_model_parallel
	AtModelBuild    NoticedAt = "model-build"        // build and DDP wrap
	AtFirstStep     NoticedAt = "first-step"         // leading checks of a forward
	AtSchedule      NoticedAt = "schedule"           // pipeline schedule
	AtTE            NoticedAt = "transformer-engine" // inside Transformer Engine
	AtMoeplan       NoticedAt = "moeplan"            // only here
)

// Violation is one rule that one layout breaks.
type Violation struct {
	Rule RuleID `json:"rule"` // stable kebab-case name; moeplan explain says more about it
	// Constraint is the rule's number in the reference list of layout rules (or N1 to N7); "" for moeplan's own.
	Constraint string   `json:"constraint"`
	Severity   Severity `json:"severity"` // error (the framework refuses or fails), hazard (it starts but is wrong or slow) or advice
	// NoticedAt is the moment at which it shows: arguments, batch, config, process-groups, model-build, first-step,
	// schedule, transformer-engine, or moeplan for what only moeplan sees.
	NoticedAt NoticedAt `json:"noticed_at"`
	Message   string    `json:"message"` // the condition with its numbers
	Repairs   []string  `json:"repairs"` // nearest legal choices; [] if there is none
	Source    string    `json:"source"`  // upstream path:line at NVIDIA/Megatron-LM@d98e8a64dd
}

// Error returns "rule: message".
func (v *Violation) Error() string { return string(v.Rule) + ": " + v.Message }

// Violations are all rules that a layout breaks, in the order in which the framework would hit them.
type Violations []Violation

// Error joins all violations, one a line.
func (vs Violations) Error() string {
	lines := make([]string, len(vs))
	for i := range vs {
		lines[i] = vs[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Legal reports whether no violation is of severity Error.
func (vs Violations) Legal() bool {
	for i := range vs {
		if vs[i].Severity == Error {
			return false
		}
	}
	return true
}

// Errors returns only the violations of severity Error, in order.
func (vs Violations) Errors() Violations {
	var errs Violations
	for _, v := range vs {
		if v.Severity == Error {
			errs = append(errs, v)
		}
	}
	return errs
}
