package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/where"
)

type explainCmd struct {
	Name   string `arg:"" optional:"" help:"Rule or term. Without one all are listed."`
	Output string `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

func (c *explainCmd) Run(s streams) error {
	if c.Name == "" {
		return c.list(s)
	}
	if t, ok := termNamed(c.Name); ok {
		if c.Output == "json" {
			return writeJSON(s.out, t)
		}
		fmt.Fprintf(s.out, "%s  %s\n", t.Name, t.Meaning)
		return nil
	}
	r, err := lookupRule(c.Name)
	if err != nil {
		return &coded{exitUsage, err}
	}
	if c.Output == "json" {
		return writeJSON(s.out, ruleOf(&r))
	}
	fmt.Fprintf(s.out, "%s  %s\n", r.ID, r.Title)
	for _, line := range [][2]string{
		{"why", r.Why}, {"severity", string(r.Severity)}, {"noticed", "at " + string(r.NoticedAt)},
		{"constraint", r.Constraint}, {"source", r.Source},
	} {
		if line[1] != "" {
			fmt.Fprintf(s.out, "%-12s%s\n", line[0], line[1])
		}
	}
	label := "example"
	for _, e := range megatron.Examples(r.ID) {
		breaks := strings.Join(e.Breaks, ", ")
		fmt.Fprintf(s.out, "%-12s%s\n%-12sbroken with %s; not with %s (%s)\n", label, e.Base, "", cmp.Or(breaks, "no flag more"), strings.Join(e.Holds, ", "), e.Reason)
		label = ""
	}
	return nil
}

func (c *explainCmd) list(s streams) error {
	rules := allRules()
	if c.Output == "json" {
		all := make([]ruleJSON, len(rules))
		for i := range rules {
			all[i] = ruleOf(&rules[i])
		}
		return writeJSON(s.out, explainedJSON{all, terms})
	}
	t := report.Table{Head: []string{"rule", "severity", "noticed at", "condition"}, Text: []int{0, 1, 2, 3}, Least: []int{2}}
	for i := range rules {
		r := &rules[i]
		t.Add(string(r.ID), string(r.Severity), string(r.NoticedAt), r.Title)
	}
	if err := t.Write(s.out, report.Text); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	t = report.Table{Head: []string{"term", "meaning"}, Text: []int{0, 1}}
	for _, term := range terms {
		t.Add(term.Name, term.Meaning)
	}
	if err := t.Write(s.out, report.Text); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	t = report.Table{Head: []string{"--where name", "meaning"}, Text: []int{0, 1}}
	for _, f := range where.Fields() {
		t.Add(f.Name, f.What)
	}
	return t.Write(s.out, report.Text)
}

// allRules are the rules of a whole command line in the order in which a launch would hit them, then those of a layout that
// no command line can break.
func allRules() []layout.Rule {
	rules := megatron.Rules()
	known := make(map[layout.RuleID]bool, len(rules))
	for i := range rules {
		known[rules[i].ID] = true
	}
	for _, r := range layout.Rules() {
		if !known[r.ID] {
			rules = append(rules, r)
		}
	}
	return rules
}

// lookupRule finds a rule; the error names the nearest ones.
func lookupRule(name string) (layout.Rule, error) {
	rules := allRules()
	names := make([]string, 0, len(rules)+len(terms))
	for i := range rules {
		if strings.EqualFold(string(rules[i].ID), name) {
			return rules[i], nil
		}
		names = append(names, string(rules[i].ID))
	}
	for _, t := range terms {
		names = append(names, t.Name)
	}
	return layout.Rule{}, fmt.Errorf("%q is neither a rule nor a term; the nearest are %s", name[:min(len(name), 80)], strings.Join(nearest(name, names), ", "))
}

// nearest are the three names the fewest edits away from a word, equals in their order.
func nearest(word string, names []string) []string {
	word = strings.ToLower(word[:min(len(word), 80)]) // no name is longer; bounds the work
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int {
		return levenshtein.ComputeDistance(word, strings.ToLower(a)) - levenshtein.ComputeDistance(word, strings.ToLower(b))
	})
	return names[:min(3, len(names))]
}

// ruleJSON is a rule, explainedJSON all that can be explained.
type ruleJSON struct {
	Rule       layout.RuleID   `json:"rule"`       // the stable name, as violations carry it
	Constraint string          `json:"constraint"` // number in the reference list of layout rules, or N1 to N7; "" for moeplan's own
	Severity   layout.Severity `json:"severity"`   // error (the framework refuses or fails), hazard (it starts but is wrong or slow) or advice
	// NoticedAt is the moment at which a broken rule shows: arguments, batch, config, process-groups, model-build,
	// first-step, schedule, transformer-engine, or moeplan for what only moeplan sees.
	NoticedAt string `json:"noticed_at"`
	Condition string `json:"condition"` // what must hold, in one line
	Why       string `json:"why"`       // what happens otherwise
	Source    string `json:"source"`    // path:line of NVIDIA/Megatron-LM@d98e8a64dd, or what else it follows from
	// Examples are a command line on either side of the rule.
	Examples []megatron.Example `json:"examples"`
}

// explainedJSON is all that moeplan explain can explain.
type explainedJSON struct {
	Rules []ruleJSON `json:"rules"` // every rule of layouts and of command lines
	Terms []meaning  `json:"terms"` // the words and abbreviations of the field
}

func ruleOf(r *layout.Rule) ruleJSON {
	return ruleJSON{r.ID, r.Constraint, r.Severity, string(r.NoticedAt), r.Title, r.Why, r.Source, megatron.Examples(r.ID)}
}

// meaning is one word of the field as this program uses it.
type meaning struct {
	Name    string `json:"term"`    // the word or abbreviation, such as EDP
	Meaning string `json:"meaning"` // one line; with the Megatron-LM flag where there is one
}

// terms are DESIGN's words, and the abbreviations of Megatron.
var terms = []meaning{
	{"degree", "a size of one kind of parallelism"},
	{"axis", "one direction of a mesh along which ranks communicate"},
	{"mesh", "the product of axes over all ranks: TP x CP x DP x PP for attention, ETP x EP x EDP x PP for experts"},
	{"folding", "both meshes over the same GPUs, so that EP may span TP and CP ranks"},
	{"group", "ranks that communicate with each other"},
	{"order", "the rank order string; the first axis varies fastest"},
	{"stage", "the part of the model on one pipeline rank"},
	{"chunk", "one virtual stage of a stage, when the pipeline is interleaved"},
	{"domain", "GPUs joined by NVLink; not the node"},
	{"layout", "the complete choice: both meshes, split, batch, recompute"},
	{"plan", "a layout with its price"},
	{"rung", "one recompute choice; the ladder tries them cheapest first and takes the first that fits"},
	{"headroom", "memory to keep free above the upper figure of what the card sees; without --headroom none, but the allocated peak then stays 14 to 30 GiB below the card, by platform, which leaves room for the estimate's error"},
	{"imbalance", "the load of the fullest expert rank over the mean"},
	{"bring-up", "the first run: alltoall dispatcher, eager, no expert overlap"},
	{"wall", "what a step mostly waits for: compute, communication or the host"},
	{"TP", "tensor parallel size, --tensor-model-parallel-size"},
	{"CP", "context parallel size, --context-parallel-size"},
	{"DP", "data parallel size, world / (TP*CP*PP)"},
	{"PP", "pipeline parallel size, --pipeline-model-parallel-size"},
	{"VPP", "chunks per pipeline rank, --num-virtual-stages-per-pipeline-rank"},
	{"EP", "expert parallel size, --expert-model-parallel-size"},
	{"ETP", "expert tensor parallel size, --expert-tensor-parallel-size; without the flag Megatron takes TP"},
	{"EDP", "expert data parallel size, world / (ETP*EP*PP)"},
	{"SP", "sequence parallel, --sequence-parallel; MoE training with TP > 1 needs it"},
	{"MBS", "micro-batch size, --micro-batch-size"},
	{"GBS", "global batch size, --global-batch-size"},
	{"MTP", "multi-token prediction layers, --mtp-num-layers"},
}

func termNamed(name string) (meaning, bool) {
	for _, t := range terms {
		if strings.EqualFold(t.Name, name) {
			return t, true
		}
	}
	return meaning{}, false
}
