package plan

import (
	"context"
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout"
)

// Workflow is the field's way from a plan to a result that can be reported, filled in for one layout: freeze the contract,
// fit, scale, profile, retune, validate (NVIDIA-NeMo/Megatron-Bridge@067f987df docs/training/moe-optimization.md has the
// same order).
type Workflow struct {
	Key string `json:"key"` // the layout in its text form, complete
	// AttentionMesh and MoEMesh are the two foldings of the same GPUs; MoEMesh is "" for a dense model.
	AttentionMesh string  `json:"attention_mesh"`
	MoEMesh       string  `json:"moe_mesh"`
	Platform      string  `json:"platform"` // the catalogue's id, or that of a file
	GPUs          int     `json:"gpus"`     // how many the layout takes
	Phases        []Phase `json:"phases"`   // in the order of the work
}

// Phase is one part of the workflow.
type Phase struct {
	Name string `json:"name"` // contract, fit, scale, profile, retune, validate
	Todo []Todo `json:"todo"` // in the order to do it
}

// Todo is one line of the checklist.
type Todo struct {
	Text string `json:"text"` // one sentence, filled in for the layout
	// Part says that it belongs to the line above.
	Part   bool   `json:"part,omitempty"`
	Source string `json:"source"` // who recommends it, or what the figures come from
}

const (
	ownPrice    = "moeplan's own price"
	naturalPair = "recipes.md: the published pair of one run with forced balance and with natural routing"
)

// WorkflowOf fills the workflow in for a layout. Errors are those of Describe and Next.
func WorkflowOf(ctx context.Context, r Request, l layout.Layout) (*Workflow, error) {
	next, err := Next(ctx, r, l)
	if err != nil {
		return nil, err
	}
	described, _, err := Describe(ctx, r, l)
	if err != nil {
		return nil, err
	}
	r, _ = r.filled()
	p, err := newPricer(&r)
	if err != nil {
		return nil, err
	}
	s := &described.Sizes
	w := &Workflow{Key: described.Key, Platform: r.Platform.ID, GPUs: r.GPUs,
		AttentionMesh: fmt.Sprintf("TP %d x CP %d x DP %d x PP %d", s.TP, s.CP, s.DP, s.PP)}
	if r.Model.MoE != nil {
		w.MoEMesh = fmt.Sprintf("ETP %d x EP %d x EDP %d x PP %d", s.ETP, s.EP, s.EDP, s.PP)
	}
	scale, err := p.scaleTodo(ctx, &r, described)
	if err != nil {
		return nil, err
	}
	w.Phases = []Phase{
		{"contract", contractTodo(&r, described)},
		{"fit", p.fitTodo(&r, described)},
		{"scale", scale},
		{"profile", []Todo{{Text: fmt.Sprintf("first run (%s), %s s a step expected; expected wall: %s. Profile a steady step and look for that wall (moeplan overlap)",
			described.StepSoftware, short(described.StepTimeMS), described.Wall), Source: ownPrice}}},
		{"retune", retuneTodo(described, next)},
		{"validate", validateTodo(&r)},
	}
	return w, nil
}

func contractTodo(r *Request, pl *Plan) []Todo {
	run := &pl.Layout
	todo := []Todo{
		{Text: "freeze what is measured before anything is tuned: model, data, precision, batch, versions, topology (moeplan contract)", Source: docsOptimization},
		{Text: fmt.Sprintf("sequence %d, MBS %d, GBS %d, %s, %s gradients, %s moments", run.SeqLength, run.MicroBatchSize, run.GlobalBatchSize,
			run.Precision, narrow(r.BF16Gradients), narrow(r.LowPrecisionMoments)), Source: "the question"},
	}
	return append(todo, Todo{Text: "label the candidate: training-equivalent, or benchmark-only (forced balance, mock data)", Source: docsOptimization})
}

// gradeWords say a grade as part of a sentence.
var gradeWords = map[Grade]string{Fits: "fits", Tight: "only the lower figure fits", No: "does not fit"}

func narrow(bf16 bool) string {
	if bf16 {
		return "bf16"
	}
	return "fp32"
}

func (p *pricer) fitTodo(r *Request, pl *Plan) []Todo {
	m := &pl.Stages[pl.WorstStage].Memory
	verdict := fmt.Sprintf("stage %d is the fullest: %.1f GiB allocated, %.0f-%.0f on the card of %.2f: %s", pl.WorstStage, float64(m.PeakAllocated)/float64(gib),
		float64(m.PeakDeviceLow)/float64(gib), float64(m.PeakDevice)/float64(gib), r.Platform.MemoryGiB.Value, gradeWords[pl.Grade])
	todo := []Todo{{Text: verdict, Source: ownPrice}}
	if pl.Grade == No {
		todo[0].Text += "; moeplan mem says what each choice would save"
	} else {
		todo = append(todo, Todo{Text: p.whyRecompute(r, &pl.Layout), Source: ownPrice})
	}
	return append(todo, Todo{Text: "check on one GPU (moeplan emit --for check), and hold its logs against this (moeplan verify)", Source: "layout-rules.md 4.3: Megatron-LM's fake process group"})
}

func (p *pricer) scaleTodo(ctx context.Context, r *Request, pl *Plan) ([]Todo, error) {
	s := &pl.Sizes
	todo := []Todo{{Text: fmt.Sprintf("DP %d on top of model parallelism TP %d x CP %d x PP %d", s.DP, s.TP, s.CP, s.PP), Source: "the layout"}}
	for _, why := range whyPlacement(pl) {
		todo = append(todo, Todo{Text: why, Source: ownPrice})
	}
	folding, err := unfolded(ctx, r, pl)
	if err != nil {
		return nil, err
	}
	if folding != nil {
		todo = append(todo, Todo{Text: whyFolding(folding, &pl.Layout), Source: ownPrice})
	}
	narrower, err := withBF16Gradients(ctx, r, pl)
	if err != nil {
		return nil, err
	}
	if narrower != "" {
		todo = append(todo, Todo{Text: narrower, Source: ownPrice})
	}
	return todo, nil
}

func retuneTodo(pl *Plan, next *Experiments) []Todo {
	towards := Todo{Text: fmt.Sprintf("from %s towards %s, %s s a step by our model", pl.StepSoftware, pl.TunedSoftware, short(pl.TunedTimeMS)), Source: ownPrice}
	if strings.TrimSuffix(pl.StepSoftware, ", eager") == pl.TunedSoftware {
		towards.Text = "the usual switches do not pay by our model: " + pl.StepSoftware + " stays"
	}
	todo := []Todo{towards,
		{Text: "one variable at a time (moeplan next):", Source: docsOptimization},
	}
	for i := range next.List {
		x := &next.List[i]
		expected := "not priced"
		if x.Expected != nil {
			expected = fmt.Sprintf("%+.0f %%", 100**x.Expected)
		}
		todo = append(todo, Todo{Text: fmt.Sprintf("%s (%s)", x.Variable, expected), Part: true, Source: x.Source})
	}
	return todo
}

func validateTodo(r *Request) []Todo {
	todo := []Todo{
		{Text: "at least 50 steady steps in a declared window against the matched baseline (moeplan evidence)", Source: docsOptimization},
		{Text: "report: step time with spread, tokens/s per GPU, TFLOPS per GPU in Megatron's convention, peak memory of every stage, loss finite, skipped and NaN steps, versions and commits", Source: docsOptimization},
	}
	if r.Model.MoE != nil {
		todo = append(todo, Todo{Text: "natural routing costs 8 to 20 % against forced balance on the published pair: say which was measured", Source: naturalPair})
	}
	return todo
}

// Title is the phase's name for a heading.
func (p *Phase) Title() string { return strings.ToUpper(p.Name) }
