package plan

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

// ranked orders candidates and describes the first of them.
//
// The rule is that of ranking-findings.md 5.2: by estimated time; meshes within 5 % of the fastest cannot be told
// apart and are ordered by what the field's practice prefers, simplest first (compareSimplicity). The time that ranks
// is that of the tuned run, because that is the state in which the layout will be used; the bring-up time is
// printed beside it.
func (p *pricer) ranked(all []candidate, top int) ([]Plan, error) {
	band := p.order(all)
	plans := make([]Plan, 0, min(top, len(all)))
	for i := range all[:min(top, len(all))] {
		pl, err := p.describe(&all[i].layout)
		if err != nil {
			return nil, err
		}
		pl.Rank, pl.EqualToBest = i+1, i < band
		plans = append(plans, pl)
	}
	return plans, nil
}

// order sorts candidates by the request's objective and returns how many of the first are equal to the best.
func (p *pricer) order(all []candidate) (band int) {
	if p.objective != ByTime {
		slices.SortFunc(all, func(a, b candidate) int { return p.compareBy(p.objective, &a, &b) })
		return min(1, len(all))
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.tuned, b.tuned), compareKeys(&a.layout, &b.layout))
	})
	for band < len(all) && !steptime.Distinguishable(all[band].tuned, all[0].tuned) {
		band++
	}
	slices.SortStableFunc(all[:band], func(a, b candidate) int { return p.compareSimplicity(&a, &b) })
	return band
}

// sameMeshTime is how much slower than the fastest of a mesh a simpler layout of it may be. VPP and micro-batch
// neighbours differ by less than the model's error (comm-model 5.3), so ties break towards less recompute and
// fewer chunks.
const sameMeshTime = 1.02

// comfortable is the share of the limit above which a layout has little room for uneven routing.
const comfortable = 0.97

// edge is how much less than the budget a layout takes that is not at the edge of memory, bytes.
func (b budget) edge() int64 { return int64((1 - comfortable) * float64(b.limit())) }

// ragged is 1 for a split whose chunks, the first and the last aside, differ in their number of layers.
func ragged(s *layout.Split) int {
	for i := 2; i < len(s.Cells)-1; i++ {
		if s.Cells[i].Decoders != s.Cells[1].Decoders {
			return 1
		}
	}
	return 0
}

// simplestOf picks one of a mesh's layouts: nearly the fastest, not at the edge of memory, with the least recompute
// (uneven chunks count as one module more), then the fewest chunks per rank, then the smallest micro-batch.
func (p *pricer) simplestOf(all []candidate) candidate {
	if p.objective == ByMemory {
		for i := range all {
			p.settle(&all[i])
		}
		return slices.MinFunc(all, func(a, b candidate) int { return p.compareBy(ByMemory, &a, &b) })
	}
	atEdge := func(c *candidate) int {
		if c.over > -p.budget.edge() {
			return 1
		}
		return 0
	}
	weight := func(c *candidate) int { return recomputeWeight(c.layout.Recompute) + ragged(c.layout.Split) }
	fastest := p.fastestOf(all).tuned
	var best *candidate
	for i := range all {
		c := &all[i]
		if c.tuned <= fastest*sameMeshTime {
			p.settle(c)
		}
		if c.tuned > fastest*sameMeshTime {
			continue
		}
		if best == nil || cmp.Or(
			cmp.Compare(atEdge(c), atEdge(best)),
			cmp.Compare(weight(c), weight(best)),
			cmp.Compare(c.layout.VPP, best.layout.VPP),
			cmp.Compare(c.layout.MicroBatchSize, best.layout.MicroBatchSize)) < 0 {
			best = c
		}
	}
	return *best
}

// fastestOf returns the fastest of all. Of those with bounds it prices only the ones that may be it.
func (p *pricer) fastestOf(all []candidate) *candidate {
	for {
		best := &all[0]
		for i := range all {
			if all[i].tuned < best.tuned {
				best = &all[i]
			}
		}
		if !best.bound {
			return best
		}
		p.settle(best)
	}
}

// compareSimplicity orders layouts that the model cannot tell apart: less ETP, CP and TP; less recompute; token
// dispatch inside the NVLink domain; larger EP*PP, which leaves more memory; smaller PP; time. That order was found
// on tuned MoE layouts. Dense models follow the field's rule: the smallest model parallelism, so the largest DP.
func (p *pricer) compareSimplicity(a, b *candidate) int {
	x, y := &a.layout, &b.layout
	if p.model.MoE == nil {
		return cmp.Or(
			cmp.Compare(x.TP*x.CP*x.PP, y.TP*y.CP*y.PP), cmp.Compare(x.CP, y.CP),
			cmp.Compare(recomputeWeight(x.Recompute), recomputeWeight(y.Recompute)),
			cmp.Compare(a.tuned, b.tuned), compareKeys(x, y),
		)
	}
	pipeline := 0
	if p.model.Kind == arch.Hybrid { // no published hybrid has a pipeline (ranking-findings.md 5.1, S4)
		pipeline = cmp.Compare(x.PP, y.PP)
	}
	return cmp.Or(pipeline,
		cmp.Compare(x.ETP, y.ETP), cmp.Compare(x.CP, y.CP), cmp.Compare(x.TP, y.TP),
		cmp.Compare(costlyRecompute(x.Recompute), costlyRecompute(y.Recompute)),
		cmp.Compare(p.leavesDomain(x), p.leavesDomain(y)),
		-cmp.Compare(x.EP*x.PP, y.EP*y.PP), cmp.Compare(x.PP, y.PP),
		cmp.Compare(a.tuned, b.tuned), compareKeys(x, y),
	)
}

// costlyRecompute is recomputeWeight without layernorm: computing norms again is priced at a thousandth of a step (Qwen3-235B on
// 256 H100: 26 ms of 29.9 s; moe_act is five times that), which must not decide between meshes. Here we depart from
// ranking-findings.md 5.2.
func costlyRecompute(r layout.Recompute) int {
	r.Modules &^= layout.LayerNorm
	return recomputeWeight(r)
}

// recomputeWeight counts modules; the whole MoE layer counts 4 and full recompute 10 (ranking-findings.md 5.2).
func recomputeWeight(r layout.Recompute) int {
	if r.Granularity == layout.Full {
		return 10
	}
	if r.Granularity == layout.NoRecompute {
		return 0
	}
	n := bits.OnesCount16(uint16(r.Modules))
	if r.Modules.Has(layout.MoE) {
		n += 3
	}
	return n
}

// leavesDomain is 1 when token dispatch crosses NVLink domains.
func (p *pricer) leavesDomain(l *layout.Layout) int {
	domain, err := p.platform.UsableDomain(l.Degrees)
	if err != nil {
		return 1
	}
	spans, ok := topology.SpansOf(l.Degrees, l.RankOrder(), domain)
	if !ok || !spans.ETPEP.Local() {
		return 1
	}
	return 0
}

// compareKeys is the last resort: any fixed order.
func compareKeys(a, b *layout.Layout) int {
	return cmp.Or(cmp.Compare(a.TP, b.TP), cmp.Compare(a.CP, b.CP), cmp.Compare(a.PP, b.PP), cmp.Compare(a.ETP, b.ETP),
		cmp.Compare(a.EP, b.EP), cmp.Compare(a.VPP, b.VPP), cmp.Compare(a.MicroBatchSize, b.MicroBatchSize))
}
