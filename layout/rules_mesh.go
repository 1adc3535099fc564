package layout

import (
	"fmt"
	"math"
	"strings"

	"github.com/moeplan/moeplan/folding"
)

const (
	sizesPositive RuleID = folding.RuleDegreePositive
	anyMeshAxis          = axisTP | axisCP | axisPP | axisETP | axisEP
	parallelState        = "megatron/core/parallel_state.py:"
)

// meshRules are about the two meshes over one set of ranks. What they demand is what package folding refuses; the rules on
// divisibility are repeated here because the enumerator asks them for every mesh, without building one.
var meshRules = []Rule{
	{
		ID: sizesPositive, Severity: Error, NoticedAt: AtArguments,
		Title:  "world, degrees, VPP and sequence length are at least 1",
		Why:    "A mesh has no axis of size zero; upstream fails with a Python division error.",
		Source: "megatron/training/arguments.py:432",
		axes:   anyMeshAxis | axisVPP | axisMBS,
		broken: func(s *subject) bool {
			l := s.l
			return min(l.World, l.TP, l.CP, l.PP, l.EP, l.ETP, l.VPP, l.SeqLength) < 1 ||
				max(l.World, l.TP, l.CP, l.PP, l.EP, l.ETP, l.VPP, l.MicroBatchSize) > MaxSize ||
				max(l.SeqLength, l.GlobalBatchSize) > MaxSequence
		},
		explain: func(s *subject) finding {
			l := s.l
			var small, large []string
			for _, v := range []struct {
				name         string
				value, least int
				most         int
			}{{"world", l.World, 1, MaxSize}, {"tp", l.TP, 1, MaxSize}, {"cp", l.CP, 1, MaxSize}, {"pp", l.PP, 1, MaxSize},
				{"ep", l.EP, 1, MaxSize}, {"etp", l.ETP, 1, MaxSize}, {"vpp", l.VPP, 1, MaxSize}, {"seq", l.SeqLength, 1, MaxSequence},
				// A batch below 1 is a rule of its own.
				{"mbs", l.MicroBatchSize, math.MinInt, MaxSize}, {"gbs", l.GlobalBatchSize, math.MinInt, MaxSequence}} {
				switch {
				case v.value < v.least:
					small = append(small, fmt.Sprintf("%s = %d", v.name, v.value))
				case v.value > v.most:
					large = append(large, fmt.Sprintf("%s = %d is larger than %d", v.name, v.value, v.most))
				}
			}
			if len(small) > 0 {
				large = append([]string{strings.Join(small, ", ") + ": must be at least 1"}, large...)
			}
			return found(nil, "%s", strings.Join(large, "; "))
		},
	},
	{
		ID: folding.RuleWorldDivisible, Constraint: "1", Severity: Error, NoticedAt: AtArguments,
		Title:   "TP * CP * PP divides the world",
		Why:     "Attention layers run on the mesh TP x CP x DP x PP over all GPUs, so DP must be a whole number.",
		Source:  "megatron/training/arguments.py:432",
		axes:    axisTP | axisCP | axisPP,
		broken:  func(s *subject) bool { return !divides(s.l.World, s.l.TP, s.l.CP, s.l.PP) },
		explain: explainMesh(folding.RuleWorldDivisible),
	},
	{
		ID: folding.RuleExpertWorldDivisible, Constraint: "2", Severity: Error, NoticedAt: AtProcessGroups,
		Title:   "ETP * EP * PP divides the world",
		Why:     "MoE layers run on the mesh ETP x EP x EDP x PP over the same GPUs, so EDP must be a whole number. It holds for dense models too.",
		Source:  parallelState + "882",
		axes:    axisETP | axisEP | axisPP,
		broken:  func(s *subject) bool { return !divides(s.l.World, s.l.ETP, s.l.EP, s.l.PP) },
		explain: explainMesh(folding.RuleExpertWorldDivisible),
	},
	orderRule(folding.RuleOrderUnknownAxis, "", "515", "the rank order names only tp, cp, ep, dp and pp",
		"Another name has no size. Megatron's command line offers two orders, tp-cp-ep-dp-pp and tp-cp-ep-pp-dp."),
	orderRule(folding.RuleOrderMissingAxis, "", "504", "the rank order names every axis larger than 1",
		"Ranks along an axis that the order leaves out would have no place."),
	orderRule(folding.RuleEDPEqualsDP, "4", "899", "in an order that does not end in pp, EDP = DP when PP > 1",
		"Pipelines of the two meshes coincide then only if attention and MoE replicas have the same size, TP * CP = ETP * EP. This holds for dense models too, whose ETP follows TP."),
	orderRule(folding.RulePPGroupsEqual, "3", "904", "both meshes have the same pipelines",
		"Attention and MoE layers of one stage must sit on the same ranks."),
}

// orderRule is a rule that can break only in an order other than the default one.
func orderRule(id RuleID, constraint, line, title, why string) Rule {
	return Rule{
		ID: id, Constraint: constraint, Severity: Error, NoticedAt: AtProcessGroups, Title: title, Why: why,
		Source: parallelState + line,
		axes:   anyMeshAxis,
		broken: func(s *subject) bool {
			return s.l.RankOrder() != folding.DefaultOrder && meshRefusal(s.l, id) != nil
		},
		explain: explainMesh(id),
	}
}

func meshRefusal(l *Layout, id RuleID) *folding.Refusal {
	for _, r := range folding.Check(l.Degrees, l.RankOrder(), 1) {
		if r.Rule == string(id) {
			return r
		}
	}
	return nil
}

func explainMesh(id RuleID) func(s *subject) finding {
	return func(s *subject) finding {
		l := s.l
		var f finding
		switch id {
		case folding.RuleWorldDivisible:
			f = found(meshRepairs(l.World, "tp", l.TP, "cp", l.CP, "pp", l.PP),
				"%s not divisible by TP %d * CP %d * PP %d = %d", Are(l.World, "GPU"), l.TP, l.CP, l.PP, l.TP*l.CP*l.PP)
		case folding.RuleExpertWorldDivisible:
			f = found(meshRepairs(l.World, "etp", l.ETP, "ep", l.EP, "pp", l.PP),
				"%s not divisible by ETP %d * EP %d * PP %d = %d", Are(l.World, "GPU"), l.ETP, l.EP, l.PP, l.ETP*l.EP*l.PP)
		default:
			if r := meshRefusal(l, id); r != nil {
				f.message = r.Message
			}
			f.repairs = []string{"order=" + string(folding.DefaultOrder)}
			if id == folding.RuleEDPEqualsDP {
				f.repairs = append(f.repairs, fmt.Sprintf("etp and ep with ETP * EP = TP * CP = %d", l.TP*l.CP))
			}
		}
		return f
	}
}

// CheckMeshes returns what the framework refuses of the degrees in this order, as folding.Check does and in its words, with
// the moment and the repairs of each rule. instances is --num-distributed-optimizer-instances.
func CheckMeshes(d folding.Degrees, order folding.Order, instances int) Violations {
	var out Violations
	for _, r := range folding.Check(d, order, instances) {
		v := Violation{Rule: RuleID(r.Rule), Constraint: r.Constraint, Severity: Error, NoticedAt: AtProcessGroups,
			Message: r.Message, Repairs: []string{}, Source: strings.TrimPrefix(r.Source, folding.Upstream)}
		if i, ok := ruleIndex[v.Rule]; ok { // the rules on optimizer instances are not a layout's
			v.NoticedAt, v.Source = table[i].NoticedAt, table[i].Source
			if repairs := table[i].explain(&subject{l: &Layout{Degrees: d, Order: order}}).repairs; repairs != nil {
				v.Repairs = repairs
			}
		}
		out = append(out, v)
	}
	return out
}

// divides reports whether a*b*c divides world, without forming the product.
func divides(world, a, b, c int) bool {
	return world%a == 0 && world/a%b == 0 && world/a/b%c == 0
}

// meshRepairs names, for each of three degrees, the nearest value with which their product divides the world, then the
// nearest worlds.
func meshRepairs(world int, aName string, a int, bName string, b int, cName string, c int) []string {
	var repairs []string
	for _, d := range []struct {
		name  string
		value int
		rest  int
	}{{aName, a, b * c}, {bName, b, a * c}, {cName, c, a * b}} {
		if world%d.rest != 0 {
			continue
		}
		for _, v := range NearestDivisors(world/d.rest, d.value) {
			repairs = append(repairs, fmt.Sprintf("%s%d", d.name, v))
		}
	}
	return append(repairs, orList(NearestMultiples(a*b*c, world))+" GPUs")
}
