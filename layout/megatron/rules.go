package megatron

import (
	"fmt"
	"slices"
	"sync"

	"github.com/moeplan/moeplan/layout"
)

// rule is one condition on a whole command line. What package layout's table has is taken from there by shared or widened, and
// never written twice.
type rule struct {
	layout.Rule
	// since and until are the first and last release in which it holds, of those that were compared; "" without bound.
	since, until string
	first, last  int // the same as columns of the table of flags
	// run is what has to run for the framework to notice.
	run stretch
	// env: it is about a variable of the environment that has to be set, a hazard where nobody said what is set.
	env bool
	// layerwise rules are asked for each layer that a stage builds, in the order of its parts (build.go).
	layerwise bool
	// broken is arithmetic only. say is asked only where broken is true.
	broken func(c *launch) bool
	say    func(c *launch) string
	// turn are the changes that may repair it, likeliest first: a flag to be varied ("--tensor-model-parallel-size"), a flag
	// with its value ("--ckpt-format torch"), a variable ("NCCL_GRAPH_REGISTER=0"; unset where nothing follows the "=").
	turn []string
	// line is where the framework raises, if it is not Source.
	line func(c *launch) string
}

// stretch is a part of a launch that not every recording ran.
type stretch uint8

const (
	everywhere stretch = iota // what both recordings ran
	extraOnly                 // what only layout_validity_extra.json ran
	realLaunch                // Transformer Engine, the real layer spec, the rest of the first step
)

// runs reports whether the rule is judged in the mode that was asked for.
func (c *launch) runs(r *rule) bool {
	switch {
	case c.column < r.first || c.column > r.last:
		return false
	case c.checks == Normal:
		return true
	case r.Severity != layout.Error:
		return false
	}
	return r.run == everywhere || r.run == extraOnly && c.checks == RecorderExtra
}

// Where upstream keeps its checks.
const (
	inArguments = "megatron/training/arguments.py:"
	inConfig    = "megatron/core/transformer/transformer_config.py:"
	inParallel  = "megatron/core/model_parallel_config.py:"
	inUtils     = "megatron/training/argument_utils.py:"
	inGroups    = "megatron/core/parallel_state.py:"
	inLayout    = "megatron/core/transformer/pipeline_parallel_layer_layout.py:"
	inBlock     = "megatron/core/transformer/transformer_block.py:"
)

// at is the moment at which a source file's checks run.
var at = map[string]layout.NoticedAt{inArguments: layout.AtArguments, inConfig: layout.AtConfig, inParallel: layout.AtConfig,
	inUtils: layout.AtConfig, inGroups: layout.AtProcessGroups, inLayout: layout.AtConfig, inBlock: layout.AtModelBuild}

// head is a rule of severity error whose moment follows from its file.
func head(id layout.RuleID, constraint, file string, line int, title, why string) layout.Rule {
	return layout.Rule{ID: id, Constraint: constraint, Severity: layout.Error, NoticedAt: at[file], Title: title, Why: why,
		Source: fmt.Sprintf("%s%d", file, line)}
}

// headAt is head for any severity, moment and source.
func headAt(id layout.RuleID, constraint string, s layout.Severity, when layout.NoticedAt, source, title, why string) layout.Rule {
	return layout.Rule{ID: id, Constraint: constraint, Severity: s, NoticedAt: when, Title: title, Why: why, Source: source}
}

// says is a message without numbers.
func says(text string) func(*launch) string { return func(*launch) string { return text } }

// shared is a rule of package layout, condition and message included.
func shared(id layout.RuleID, turn ...string) rule {
	r := layoutRule(id)
	return rule{Rule: r, turn: turn,
		broken: func(c *launch) bool { return c.judge.Broken(&r) },
		say:    func(c *launch) string { return c.judge.Message(&r) }}
}

// widened is a rule of package layout whose condition a command line widens: texts and severity are layout's.
func widened(id layout.RuleID, broken func(c *launch) bool, say func(c *launch) string, turn ...string) rule {
	return rule{Rule: layoutRule(id), broken: broken, say: say, turn: turn}
}

// inText is a rule about the layout string.
func inText(id layout.RuleID, turn ...string) rule {
	return rule{Rule: layoutRule(id), turn: turn,
		broken: func(c *launch) bool { return c.textBroken(id) != nil },
		say:    func(c *launch) string { return c.textBroken(id).Message }}
}

func layoutRule(id layout.RuleID) layout.Rule {
	r, err := layout.LookupRule(string(id))
	if err != nil {
		panic("bug: " + err.Error())
	}
	return r
}

// ordered are all rules in the order in which a launch would hit them. They are put in order, for which the table of flags is
// read, when the first one asks: most commands of the program never do.
var ordered = sync.OnceValue(inFiringOrder)

func inFiringOrder() []*rule {
	all := slices.Concat(meshRules, shardRules, batchRules, hybridRules, pipelineRules, unevenRules, overlapRules, fsdpRules, precisionRules, quantizedRules,
		attentionRules, sequenceRules, recomputeRules, offloadRules, graphRules, moeRules, dispatchRules, routerRules, buildRules, optimizerRules,
		engineRules, shapeRules, hazardRules)
	place := make(map[layout.RuleID]int, len(firingOrder))
	for i, id := range firingOrder {
		place[id] = i
	}
	rules := make([]*rule, len(all))
	for i := range all {
		rules[i] = &all[i]
	}
	for _, r := range rules {
		r.first, r.last = 0, Main.column()
		if r.since != "" {
			r.first = mustRelease(r.since).column()
		}
		if r.until != "" {
			r.last = mustRelease(r.until).column()
		}
	}
	slices.SortStableFunc(rules, func(a, b *rule) int { return place[a.ID] - place[b.ID] })
	return rules
}

// layerwiseRules are those that the walk over the layers asks.
var layerwiseRules = sync.OnceValue(func() (rules []*rule) {
	for _, r := range ordered() {
		if r.layerwise {
			rules = append(rules, r)
		}
	}
	return rules
})

// Rules returns every rule that Check knows, in the order in which a launch would hit them, those of package layout among
// them, and the rules of the parser first. The slice is the caller's.
func Rules() []layout.Rule {
	rules := slices.Clone(parserRules)
	for _, r := range ordered() {
		rules = append(rules, r.Rule)
	}
	return rules
}

// ReleasesOf returns the first and the last release in which a rule holds, of those that were compared; "" without bound. A rule
// about a flag holds from the flag on in any case. It is false for a rule that Check does not know.
func ReleasesOf(id layout.RuleID) (since, until string, ok bool) {
	for _, r := range ordered() {
		if r.ID == id {
			return r.since, r.until, true
		}
	}
	return "", "", false
}

// LookupRule returns one rule of Rules. The error is layout.LookupRule's, whose names are fewer.
func LookupRule(id string) (layout.Rule, error) {
	for _, r := range Rules() {
		if string(r.ID) == id {
			return r, nil
		}
	}
	return layout.LookupRule(id)
}

// layerRule makes a rule layerwise, inRun says what has to run for it, since from which release on it holds.
func layerRule(r rule) rule { r.layerwise = true; return r }

func inRun(s stretch, r rule) rule { r.run = s; return r }

func since(release string, r rule) rule { r.since = release; return r }
