package folding

import (
	"fmt"
	"slices"
)

// Rule IDs of the refusals. They are stable and never reused.
const (
	RuleDegreePositive          = "degree-positive"
	RuleWorldDivisible          = "world-divisible"
	RuleExpertWorldDivisible    = "expert-world-divisible"
	RuleOrderUnknownAxis        = "order-unknown-axis"
	RuleOrderMissingAxis        = "order-missing-axis"
	RuleEDPEqualsDP             = "edp-equals-dp"
	RulePPGroupsEqual           = "pp-groups-equal"
	RuleOptimizerInstances      = "optimizer-instances-divide-dp"
	RuleOptimizerInstancesOfEDP = "optimizer-instances-divide-edp"
)

// Refusal is one reason why the framework does not build the two meshes.
type Refusal struct {
	Rule       string // kebab-case ID
	Constraint string // number in the reference list of layout rules; "" where it has none
	Message    string // the condition with its numbers
	Source     string // upstream path:line
}

// Error returns "rule: message".
func (r *Refusal) Error() string { return r.Rule + ": " + r.Message }

// Upstream is what the source of every refusal begins with: the repository and the commit.
const Upstream = "NVIDIA/Megatron-LM@d98e8a64dd "

const parallelState = Upstream + "megatron/core/parallel_state.py:"

// Validate reports the first degree below 1, or the first mesh that does not divide the world, as a *Refusal. It says
// nothing about the order. It does not allocate when the degrees are valid.
func (d Degrees) Validate() error {
	if r := d.checkPositive(); r != nil {
		return r
	}
	if r := d.checkWorld(); r != nil {
		return r
	}
	if r := d.checkExpertWorld(); r != nil {
		return r
	}
	return nil
}

// Check returns every reason for which the framework refuses the degrees in this order, in the order in which it would
// stop; nil if it accepts them. Conditions on DP or EDP are left out where a mesh does not divide the world. An empty
// order is the default one. optimizerInstances is --num-distributed-optimizer-instances, 1 by default.
func Check(d Degrees, order Order, optimizerInstances int) []*Refusal {
	refusals, _, _ := check(d, order, optimizerInstances)
	return refusals
}

// check also hands out the two meshes, which are whole when there is no refusal.
func check(d Degrees, order Order, instances int) (refusals []*Refusal, attention, expert mesh) {
	add := func(r *Refusal) bool {
		if r != nil {
			refusals = append(refusals, r)
		}
		return r == nil
	}
	if !add(d.checkPositive()) {
		return
	}
	if instances < 1 {
		add(&Refusal{RuleDegreePositive, "", fmt.Sprintf("optimizer instances = %d, must be at least 1", instances),
			parallelState + "923"})
		return
	}
	if order == "" {
		order = DefaultOrder
	}
	axes, unknown, known := order.parse()
	dense := add(d.checkWorld())
	if !known {
		add(&Refusal{RuleOrderUnknownAxis, "", fmt.Sprintf(
			"order %q names %q, which is none of tp, cp, ep, dp, pp", order, unknown), parallelState + "515"})
	}
	moe := add(d.checkExpertWorld())
	if known {
		add(checkMissing(d, order, axes, dense, moe))
	}
	if !dense || !moe {
		return
	}
	dp, edp := d.DP(), d.EDP()
	if !order.ppLast() && d.PP > 1 && dp != edp {
		add(&Refusal{RuleEDPEqualsDP, "4", fmt.Sprintf(
			"order %q does not end in pp, so with PP %d both meshes need the same data parallel size: DP = %d/(TP %d * CP %d * PP %d) = %d, EDP = %d/(ETP %d * EP %d * PP %d) = %d",
			order, d.PP, d.World, d.TP, d.CP, d.PP, dp, d.World, d.ETP, d.EP, d.PP, edp), parallelState + "898"})
	}
	if known {
		attention = newMesh(d.World, axes, attentionSizes(d))
		expert = newMesh(d.World, axes, expertSizes(d))
		add(checkPP(d, order, attention, expert))
	}
	if dp*d.CP%instances != 0 {
		add(&Refusal{RuleOptimizerInstances, "5", fmt.Sprintf("DP %d * CP %d = %d is not divisible by %d optimizer instances",
			dp, d.CP, dp*d.CP, instances), parallelState + "923"})
	}
	if edp%instances != 0 {
		add(&Refusal{RuleOptimizerInstancesOfEDP, "5", fmt.Sprintf("EDP %d is not divisible by %d optimizer instances",
			edp, instances), parallelState + "1447"})
	}
	return refusals, attention, expert
}

func (d Degrees) checkPositive() *Refusal {
	if d.World > 0 && d.TP > 0 && d.CP > 0 && d.PP > 0 && d.EP > 0 && d.ETP > 0 {
		return nil
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"world", d.World}, {"TP", d.TP}, {"CP", d.CP}, {"PP", d.PP}, {"EP", d.EP}, {"ETP", d.ETP}} {
		if f.value < 1 {
			return &Refusal{RuleDegreePositive, "", fmt.Sprintf("%s = %d, must be at least 1", f.name, f.value), parallelState + "815"}
		}
	}
	panic("bug: no degree below 1")
}

// divides reports whether a*b*c divides world, without forming a product that may overflow.
func divides(world, a, b, c int) bool {
	return world%a == 0 && world/a%b == 0 && world/a/b%c == 0
}

func (d Degrees) checkWorld() *Refusal {
	if divides(d.World, d.TP, d.CP, d.PP) {
		return nil
	}
	return &Refusal{RuleWorldDivisible, "1", fmt.Sprintf("%d GPUs cannot be divided into attention replicas of TP %d * CP %d * PP %d = %d",
		d.World, d.TP, d.CP, d.PP, mulSaturated(mulSaturated(d.TP, d.CP), d.PP)), parallelState + "822"}
}

func (d Degrees) checkExpertWorld() *Refusal {
	if divides(d.World, d.ETP, d.EP, d.PP) {
		return nil
	}
	return &Refusal{RuleExpertWorldDivisible, "2", fmt.Sprintf("%d GPUs cannot be divided into MoE replicas of ETP %d * EP %d * PP %d = %d",
		d.World, d.ETP, d.EP, d.PP, mulSaturated(mulSaturated(d.ETP, d.EP), d.PP)), parallelState + "881"}
}

// checkMissing finds the first axis that the order leaves out although a mesh needs it. An order without tp always
// fails: the framework inserts gtp_remat into the string before it looks for "tp" by substring, so tp is never added
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/parallel_state.py:504, 595).
func checkMissing(d Degrees, order Order, axes []axis, dense, moe bool) *Refusal {
	var named axisSet
	for _, a := range axes {
		named |= setOf(a)
	}
	attention, expert := [numAxes]int{1, 1, 1, 1, 1}, [numAxes]int{1, 1, 1, 1, 1}
	if dense {
		attention = attentionSizes(d)
	}
	if moe {
		expert = expertSizes(d)
	}
	for a := range numAxes {
		if size := max(attention[a], expert[a]); !named.has(a) && (size > 1 || a == axisTP) {
			return &Refusal{RuleOrderMissingAxis, "", fmt.Sprintf("order %q leaves out %s, whose size is %d", order, axisNames[a], size),
				parallelState + "504"}
		}
	}
	return nil
}

// checkPP compares the pp groups of the two meshes, rank for rank and in order, in closed form.
func checkPP(d Degrees, order Order, attention, expert mesh) *Refusal {
	n := d.World / d.PP
	in1, out1 := attention.split(setOf(axisPP))
	in2, out2 := expert.split(setOf(axisPP))
	if slices.Equal(canonical(in1, d.PP), canonical(in2, d.PP)) && slices.Equal(canonical(out1, n), canonical(out2, n)) {
		return nil
	}
	return &Refusal{RulePPGroupsEqual, "3", fmt.Sprintf(
		"with order %q the pipelines of the two meshes are different ranks: stages are %d ranks apart for attention (TP %d, CP %d, DP %d) and %d for experts (ETP %d, EP %d, EDP %d)",
		order, attention.stride(setOf(axisPP)), d.TP, d.CP, d.DP(), expert.stride(setOf(axisPP)), d.ETP, d.EP, d.EDP()),
		parallelState + "904"}
}
