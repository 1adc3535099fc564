package megatron

import "github.com/moeplan/moeplan/layout"

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
