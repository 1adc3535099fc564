package plan

import (
	"fmt"
	"math"
	"strings"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/recipes"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

// Pairs counts measured runs of one question that differ in their layout or software, and how many of them the step
// time puts in the measured order.
type Pairs struct {
	Set   string   `json:"set"`   // where the measurements are from, in words
	Pairs int      `json:"pairs"` // how many were compared
	Right int      `json:"right"` // of them, in the measured order
	Wrong []string `json:"wrong"` // the pairs out of order, with their measured and predicted figures
}

// apartBy is the difference from which two measurements count as a pair: below, containers and clusters decide.
const apartBy = 0.05

// measuredRun is one measured run with its price. Runs with equal questions are comparable.
type measuredRun struct {
	question, name     string
	measured, estimate float64 // throughput, in any unit
}

// count compares every two runs of a question whose measurements differ by more than least.
func count(set string, runs []measuredRun, least float64) Pairs {
	out := Pairs{Set: set, Wrong: []string{}}
	for i := range runs {
		for j := range runs[:i] {
			a, b := &runs[i], &runs[j]
			if a.question != b.question || math.Abs(math.Log(a.measured/b.measured)) <= math.Log1p(least) {
				continue
			}
			out.Pairs++
			if (a.measured > b.measured) == (a.estimate > b.estimate) {
				out.Right++
				continue
			}
			out.Wrong = append(out.Wrong, fmt.Sprintf("%s measured %.4g, %s %.4g; predicted %.4g and %.4g",
				a.name, a.measured, b.name, b.measured, a.estimate, b.estimate))
		}
	}
	return out
}

// anchorPairs are the pairs among the runs that the step time is fitted to: in-sample, but for the order.
func anchorPairs() (Pairs, error) {
	var runs []measuredRun
	for _, a := range steptime.Anchors() {
		if !a.Fitted {
			continue
		}
		est, err := steptime.New(a.Model, a.Platform, steptime.DefaultRun())
		if err != nil {
			return Pairs{}, err
		}
		price := est.Price(&a.Layout, a.Software)
		if !price.Known {
			return Pairs{}, fmt.Errorf("%s: %v", a.ID, price.Notes.Texts())
		}
		runs = append(runs, measuredRun{
			question: fmt.Sprint(a.Name, a.Platform.ID, a.Layout.Precision, a.Software.Since2606, a.Layout.SeqLength),
			name:     a.ID, measured: a.Tokens, estimate: price.Tokens,
		})
	}
	return count("anchors of the step time", runs, apartBy), nil
}

// foldingPairs are the pairs of the Parallel Folding paper (arXiv:2504.14960, appendix tables 3 to 5): the same model,
// GPUs, batch and sequence under coupled meshes, folded ones and no pipeline. None is among the fitted runs. All count,
// however small the difference, as in ranking-findings section 6.
//
// The paper leaves open VPP (the best is taken), micro-batch (1), recompute (the first rung that fits) and ETP where
// it is not stated: TP for coupled meshes, 1 for folded ones. Its FSDP rows are not modelled.
func foldingPairs() (Pairs, error) {
	h100, err := topology.LookupPlatform("h100")
	if err != nil {
		return Pairs{}, err
	}
	var runs []measuredRun
	for _, r := range recipes.All() {
		if r.Kind != recipes.PaperMapping && r.Kind != recipes.PaperScaling && r.Kind != recipes.PaperContext || r.FSDP || r.MFU == 0 {
			continue
		}
		m, err := paperModel(r.Model)
		if err != nil {
			return Pairs{}, fmt.Errorf("record %s: %w", r.ID, err)
		}
		step, err := paperStep(m, h100, r)
		if err != nil {
			return Pairs{}, fmt.Errorf("record %s: %w", r.ID, err)
		}
		runs = append(runs, measuredRun{
			question: fmt.Sprint(r.Model, r.GPUs, r.GlobalBatch, r.Sequence),
			name:     r.ID + " " + r.Model + " " + r.Mesh(), measured: r.MFU, estimate: 1 / step,
		})
	}
	return count("Parallel Folding paper", runs, 0), nil
}

// paperModel is a model of the paper. Two are upcycled: Mixtral-8x22B-G8T8 splits each of the 8 experts into 8 and
// routes to 8 of the 64; Llama3-8x70B has 8 experts of the dense model's width, of which 2 are used.
func paperModel(name string) (*arch.Model, error) {
	switch name {
	case "Mixtral-8x22B":
		return arch.Lookup("mixtral-8x22b")
	case "Qwen2-57B-A14B":
		return arch.Lookup("qwen2-57b-a14b")
	case "Mixtral-8x22B-G8T8":
		base, err := arch.Lookup("mixtral-8x22b")
		if err != nil {
			return nil, err
		}
		m, moe := *base, *base.MoE
		m.ID, moe.NumExperts, moe.TopK, moe.FFNHiddenSize = name, 8*moe.NumExperts, 8, moe.FFNHiddenSize/8
		m.MoE = &moe
		return &m, nil
	case "Llama3-8x70B":
		base, err := arch.Lookup("llama3.1-70b")
		if err != nil {
			return nil, err
		}
		mixtral, err := arch.Lookup("mixtral-8x22b")
		if err != nil {
			return nil, err
		}
		m, moe := *base, *mixtral.MoE
		m.ID, moe.FFNHiddenSize = name, base.FFNHiddenSize
		m.MoE = &moe
		return &m, nil
	}
	return nil, fmt.Errorf("no model %q", name)
}

// maxPaperVPP covers the divisors of a stage's layers of all the paper's models.
const maxPaperVPP = 12

// paperStep is the predicted step time of a row of the paper, s, at its best VPP.
func paperStep(m *arch.Model, p *topology.Platform, r *recipes.Recipe) (float64, error) {
	run := memmodel.DefaultRun(90)
	mem, err := memmodel.New(m, run)
	if err != nil {
		return 0, err
	}
	est, err := steptime.New(m, p, steptime.DefaultRun())
	if err != nil {
		return 0, err
	}
	limit := newBudget(p, p.MemoryGiB.Value, -1, 0).limit()
	l := layout.Layout{
		Degrees:        folding.Degrees{World: r.GPUs, TP: r.TP, CP: r.CP, PP: r.PP, EP: max(1, r.EP), ETP: r.ETP},
		MicroBatchSize: 1, GlobalBatchSize: r.GlobalBatch, SeqLength: r.Sequence, SequenceParallel: r.TP > 1,
	}
	switch {
	case l.ETP > 0:
	case strings.Contains(r.Method, "Folding"):
		l.ETP = 1
	default:
		l.ETP = l.TP
	}
	best := math.Inf(1)
	for vpp := 1; vpp <= maxPaperVPP; vpp++ {
		if l.PP == 1 && vpp > 1 {
			break
		}
		l.VPP, l.Split = vpp, layout.BalancedSplit(m, l.PP, vpp)
		if l.Split == nil || vpp > 1 && l.NumMicrobatches()%l.PP != 0 {
			continue
		}
		for _, rung := range layout.RecomputeLadder(m) {
			l.Recompute = rung
			if peak, _ := mem.Peak(&l); peak <= limit {
				break
			}
		}
		if price := est.Price(&l, steptime.BringUp()); price.Known {
			best = min(best, price.Step)
		}
	}
	if math.IsInf(best, 1) {
		return 0, fmt.Errorf("%s has no step time", r.Mesh())
	}
	return best, nil
}
