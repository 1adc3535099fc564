package plan

import (
	"context"
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout"
)

// Story is what there is to say of one plan of a result: itself, how it stands to the field's rules, and to number 1.
type Story struct {
	Plan Plan `json:"plan"` // the plan itself, as in the result
	// Why says what the numbers come from: the recompute rung taken, and where hot traffic travels.
	Why []string `json:"why"`
	// Rules are the field's workflow rules, each followed or overruled.
	Rules []RuleFollowed `json:"rules"`
	// Against is the rank of the plan that it is compared with: number 1, or number 2 for number 1 itself; 0 if there is no
	// other. Comparison says how it differs, Flags in which flags of Megatron-LM.
	Against    int          `json:"against"`
	Comparison string       `json:"comparison"`
	Flags      []FlagChange `json:"flags"`
}

// RuleFollowed is one rule of the field's workflow and how a plan stands to it.
type RuleFollowed struct {
	Rule    string `json:"rule"`    // in words
	Follows bool   `json:"follows"` // false: the step time overrules it, and how says by how much
	// How says in numbers why.
	How string `json:"how"`
}

// Explain tells the story of plan number n (from 1) of a result that Search gave for the request.
func Explain(ctx context.Context, r Request, result *Result, n int) (*Story, error) {
	if n < 1 || n > len(result.Plans) {
		return nil, fmt.Errorf("there is no plan %d: the result lists %d", n, len(result.Plans))
	}
	r, _ = r.filled()
	p, err := newPricer(&r)
	if err != nil {
		return nil, err
	}
	pl := &result.Plans[n-1]
	out := &Story{Plan: *pl, Flags: []FlagChange{}}
	if out.Why = pl.Why; len(pl.Why) == 0 {
		out.Why = append([]string{p.whyRecompute(&r, &pl.Layout)}, whyPlacement(pl)...)
	}
	out.Plan.Why = out.Why
	out.Rules = p.workflowRules(&r, result, pl)
	switch {
	case n > 1:
		out.Against = 1
	case len(result.Plans) > 1:
		out.Against = 2
	default:
		return out, ctx.Err()
	}
	d, err := Diff(ctx, r, result.Plans[out.Against-1].Layout, pl.Layout)
	if err != nil {
		return nil, err
	}
	out.Flags = append(out.Flags, d.Flags...)
	out.Comparison = named(d.Closing, out.Against, n)
	return out, nil
}

// named puts the plans' numbers into the sentence of a comparison, which speaks of A and B.
func named(closing string, a, b int) string {
	words := strings.Split(closing, " ")
	for i, w := range words {
		switch strings.TrimRight(w, ",;.") {
		case "A":
			words[i] = fmt.Sprintf("plan %d", a) + strings.TrimPrefix(w, "A")
		case "B":
			words[i] = fmt.Sprintf("plan %d", b) + strings.TrimPrefix(w, "B")
		}
	}
	return strings.Join(words, " ")
}

// longContext is the sequence length below which context parallelism is not what the field reaches for
// (recipes.md: CP above 1 begins with sequences of 16 Ki and more).
const longContext = 16384

// workflowRules holds a plan against the field's workflow as DESIGN.md section 1 states it.
func (p *pricer) workflowRules(r *Request, result *Result, pl *Plan) []RuleFollowed {
	l := &pl.Layout
	least := l
	for i := range result.Plans {
		if o := &result.Plans[i].Layout; modelParallelism(o) < modelParallelism(least) {
			least = o
		}
	}
	smallest := RuleFollowed{Rule: "smallest model parallelism that fits, so the largest DP", Follows: least == l,
		How: fmt.Sprintf("TP x CP x PP is %d, DP %d", modelParallelism(l), l.DP())}
	if least != l {
		smallest.How += fmt.Sprintf("; %d fits too (%s)", modelParallelism(least), least.Degrees)
	}
	rules := []RuleFollowed{smallest, p.ruleRecompute(r, l)}
	var leaving []string
	for _, t := range pl.Communication {
		if t.GroupSize > 1 && t.Domains > 1 && (t.Axis == "tp" || t.Axis == "cp" || t.Axis == "ep" || t.Axis == "etp") {
			leaving = append(leaving, fmt.Sprintf("%s %d spans %d domains", strings.ToUpper(t.Axis), t.GroupSize, t.Domains))
		}
	}
	hot := RuleFollowed{Rule: "hot communication inside the NVLink domain", Follows: len(leaving) == 0, How: strings.Join(leaving, ", ")}
	switch {
	case hot.Follows && pl.NVLinkFraction == nil:
		hot.How = "there is none"
	case hot.Follows:
		hot.How = "TP, CP and token dispatch stay inside"
	}
	rules = append(rules, hot)
	if l.PP > 1 {
		rules = append(rules, RuleFollowed{Rule: "a pipeline is interleaved", Follows: l.VPP > 1, How: fmt.Sprintf("PP %d, VPP %d", l.PP, l.VPP)})
	}
	if p.model.MoE != nil {
		rules = append(rules, RuleFollowed{Rule: "EP before ETP", Follows: l.ETP == 1, How: fmt.Sprintf("EP %d, ETP %d", l.EP, l.ETP)})
	}
	rules = append(rules, RuleFollowed{Rule: "CP for long context only", Follows: l.CP == 1 || l.SeqLength >= longContext,
		How: fmt.Sprintf("CP %d at a sequence of %d", l.CP, l.SeqLength)})
	return rules
}

func modelParallelism(l *layout.Layout) int { return l.TP * l.CP * l.PP }

// ruleRecompute is the rule of the ladder: the first rung that fits, selective before full.
func (p *pricer) ruleRecompute(r *Request, l *layout.Layout) RuleFollowed {
	out := RuleFollowed{Rule: "the first rung of recompute that fits, selective before full", Follows: true, How: l.Recompute.String()}
	if r.Recompute != nil {
		out.How += ", as given"
		return out
	}
	for _, rung := range layout.RecomputeLadder(p.model) {
		if rung == l.Recompute {
			return out
		}
		before := *l
		before.Recompute = rung
		if over := p.budget.over(p.memory.Need(&before)); over <= 0 {
			out.Follows = false
			out.How += fmt.Sprintf("; %s fits too, with %.1f GiB to spare", rung, float64(-over)/float64(gib))
			return out
		}
	}
	return out
}
