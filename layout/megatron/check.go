package megatron

import "github.com/moeplan/moeplan/layout"

// Checks says which of the framework's checks are judged.
type Checks uint8

const (
	// Normal is everything: what a launch refuses on any stage, what Transformer Engine refuses, hazards and advice.
	Normal Checks = iota
	// Recorder is what the recordings of data/oracle ran, and only refusals: the local layer spec; the first and the last
	// stage, which are not built from 400 experts a rank on; no forward but the MoE layer's first checks. It agrees with every
	// record of layout_validity.json, and with those of layout_validity_extra.json that this does not contradict.
	Recorder
	// RecorderExtra is what layout_validity_extra.json ran beyond that: every stage is built, weight shards count in the
	// number of micro-batches, the embedding's forward runs, and DDP looks at the optimizer instances.
	RecorderExtra
)

// CheckSettings says against what a command line is judged. The zero value judges everything for a Hopper GPU and
// software that is new enough.
type CheckSettings struct {
	Checks Checks
	// TransformerEngine is its version, "2.9.0"; "" is new enough for every rule (2.9.0 for the recorders).
	TransformerEngine string
	// PyTorch is its version; "" is new enough.
	PyTorch string
	// ComputeCapability is the major compute capability of the GPU: 8 Ampere, 9 Hopper, 10 Blackwell. 0 is Hopper.
	ComputeCapability int
	// NoRepairs leaves Repairs empty; finding them costs many times what judging does.
	NoRepairs bool
}

// Check returns every rule that a command line breaks, in the order in which a launch would hit them: validate_args, the
// micro-batch calculator, the configs, the process groups, the build stage by stage, DDP and optimizer, the first step, the
// schedule, Transformer Engine, and what only moeplan says. A command line is legal iff no violation is of severity Error.
//
// The parser's own refusals are not among them: CheckArgv puts them first. Where a size is below 1 only that is reported.
func Check(r *Resolved, o CheckSettings) layout.Violations {
	c := newLaunch(r, &o)
	found := c.broken()
	if len(found) == 0 {
		return nil
	}
	vs := make(layout.Violations, 0, len(found))
	repairs := newRepairer(c, found)
	for _, f := range found {
		v := c.violation(f)
		if !o.NoRepairs {
			v.Repairs = repairs.of(f)
		}
		vs = append(vs, v)
	}
	return vs
}

// CheckArgv parses, resolves and checks a command line. The parser's refusals are violations of the moment "arguments" and
// come first; what else can be read is checked all the same. Resolved is what Resolve makes of the readable part. The error
// is ErrWorld.
func CheckArgv(argv []string, r Release, world int, env map[string]string, o CheckSettings) (*Resolved, layout.Violations, error) {
	settings, problems := parse(argv, r)
	resolved, err := Resolve(settings, world, env)
	if err != nil {
		return nil, nil, err
	}
	if len(problems) > 0 {
		o.NoRepairs = true // the readable part is not what was meant
	}
	return resolved, append(problems.Violations(), Check(resolved, o)...), nil
}

// broken returns the rules that the launch breaks, in firing order.
func (c *launch) broken() []buildFailure {
	if !c.sane() {
		return []buildFailure{{rule: ordered()[0]}}
	}
	c.derive()
	var found []buildFailure
	walked := false
	for _, r := range ordered() {
		switch {
		case r.layerwise && !walked:
			walked = true
			found = append(found, c.walk(layerwiseRules())...)
			c.lookAtAll()
		case r.layerwise || !c.runs(r):
		case r.broken(c):
			found = append(found, buildFailure{rule: r})
		}
	}
	return found
}

// severity is the rule's own; rules about variables that must be set are hazards where nobody said what is set.
func (c *launch) severity(r *rule) layout.Severity {
	if r.env && c.Env == nil && r.Severity == layout.Error {
		return layout.Hazard
	}
	return r.Severity
}

func (c *launch) violation(f buildFailure) layout.Violation {
	r := f.rule
	if r.layerwise {
		c.look(f.layer)
		defer c.lookAtAll()
	}
	v := layout.Violation{Rule: r.ID, Constraint: r.Constraint, Severity: c.severity(r), NoticedAt: r.NoticedAt, Message: r.say(c), Repairs: []string{}, Source: r.Source}
	if r.line != nil {
		v.Source = r.line(c)
	}
	return v
}
