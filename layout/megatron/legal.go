package megatron

import (
	"github.com/moeplan/moeplan/layout"
)

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

// parserRules are what the argument parser refuses, one for each kind of Problem.
var parserRules = func() []layout.Rule {
	var rules []layout.Rule
	for _, k := range []struct {
		kind       ProblemKind
		title, why string
	}{
		{UnknownFlag, "every flag is known to some release", "A name is written out in full; Megatron-LM switches abbreviations off."},
		{NotYet, "every flag exists in the release already", "Flags come with the release that brings the feature."},
		{Gone, "every flag still exists in the release", "Flags are renamed and removed."},
		{BadType, "values have the type of their flag", "Python converts each value when it reads it."},
		{BadChoice, "values are among those that their flag takes", "Some flags take only listed texts."},
		{MissingValue, "flags have as many values as they take", "A flag without its value takes none from the next one."},
		{UnexpectedValue, "switches have no value", "They are on by being there."},
		{Stray, "every word belongs to a flag", "Megatron-LM takes no positional arguments."},
		{HelpAsked, "nobody asks for help", "The program prints its help and ends."},
		{TooLong, "a command line has at most 16,384 words", "moeplan reads no more."},
	} {
		rules = append(rules, headAt(parserRule(k.kind), "", layout.Error, layout.AtArguments, inArguments+"132", k.title, k.why))
	}
	return rules
}()

func parserRule(k ProblemKind) layout.RuleID { return layout.RuleID("argparse-" + string(k)) }

// Violations are the problems as violations of the moment "arguments", in their order.
func (ps Problems) Violations() layout.Violations {
	vs := make(layout.Violations, 0, len(ps))
	for i := range ps {
		vs = append(vs, ps[i].violation())
	}
	return vs
}

func (p *Problem) violation() layout.Violation {
	v := layout.Violation{Rule: parserRule(p.Kind), Severity: layout.Error, NoticedAt: layout.AtArguments, Message: p.Message, Repairs: []string{}, Source: inArguments + "132"}
	switch p.Flag {
	case "--moe-token-dispatcher-type", "--moe-flex-dispatcher-backend":
		v.Constraint = "93"
	case "--sharp-enabled-group":
		v.Constraint = "11"
	}
	if p.Repair != "" {
		v.Repairs = []string{p.Repair}
	}
	return v
}
