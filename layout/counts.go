package layout

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/moeplan/moeplan/layout/arch"
)

// Counts says what an enumeration looked at. After a complete pass, Layouts = Legal + all of Illegal.
//
// A candidate is counted once, under the rule that cut it: candidates are built axis by axis (TP, CP, PP, ETP, EP, VPP,
// micro-batch, recompute), each rule is asked as soon as the axes it looks at are chosen, and when it is broken, every
// candidate below that point counts under it. A candidate that breaks several rules therefore counts under the one
// asked first.
type Counts struct {
	Layouts int64 // candidates of the space
	Legal   int64 // layouts yielded
	Meshes  int64 // pairs of meshes (TP, CP, PP, ETP, EP) with a legal layout
	Bases   int64 // mesh x VPP x micro-batch with a legal layout

	illegal []int64  // by index in the table of rules
	example []Layout // the first candidate cut by each rule; axes that were not chosen yet are 1
}

// RuleCount is how many candidates one rule cut.
type RuleCount struct {
	Rule  RuleID `json:"rule"`
	Count int64  `json:"count"`
}

// Illegal returns the rules that cut something, the most effective first, equals in the order of Rules.
func (c *Counts) Illegal() []RuleCount {
	var list []RuleCount
	for i, n := range c.illegal {
		if n > 0 {
			list = append(list, RuleCount{table[i].ID, n})
		}
	}
	slices.SortStableFunc(list, func(a, b RuleCount) int { return cmp.Compare(b.Count, a.Count) })
	return list
}

// NumIllegal is the number of candidates that were cut.
func (c *Counts) NumIllegal() int64 {
	n := int64(0)
	for _, v := range c.illegal {
		n += v
	}
	return n
}

// Err is nil if a complete pass found a legal layout; else a *NoLayoutError with the rule that cut most, its condition
// with the numbers of one candidate, and the nearest legal values.
func (c *Counts) Err(m *arch.Model, s *Space) error {
	if c.Legal > 0 {
		return nil
	}
	list := c.Illegal()
	if len(list) == 0 {
		return &NoLayoutError{Message: fmt.Sprintf("no layout to try on %d GPUs: %d layers fill at most PP * VPP = %d stages",
			s.World, m.NumLayers, s.MaxCells)}
	}
	i := ruleIndex[list[0].Rule]
	f := table[i].explain(&subject{m: m, l: &c.example[i], traits: traitsOf(m)})
	message := fmt.Sprintf("no legal layout on %d GPUs: %s", s.World, f.message)
	if len(list) > 1 {
		message += fmt.Sprintf(" (%d of %d candidates; then %s)", list[0].Count, c.Layouts, list[1].Rule)
	}
	return &NoLayoutError{Rule: list[0].Rule, Message: message, Repairs: f.repairs[:min(3, len(f.repairs))]}
}

func (c *Counts) reset() {
	*c = Counts{illegal: make([]int64, len(table)), example: make([]Layout, len(table))}
}

func (c *Counts) cut(rule int, below int64, l *Layout) {
	if c.illegal[rule] == 0 {
		c.example[rule] = *l
	}
	c.illegal[rule] += below
}
