package page

import (
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout/plan"
)

// planView is everything shown of one plan.
type planView struct {
	ID    string // of the section: "plan-1"
	Label string // "1", or a letter for plans that only the front holds
	Key   string
	Short string
	Split string
	First bool
	Equal bool

	Verdict string // with its limits, in words
	Grade   string
	Facts   []fact
	Twin    string
	Why     []string
	Notes   []string

	Row      []cell
	Memory   memoryChart
	Whence   *whence
	Meshes   []meshView
	Times    timeChart
	Schedule *schedule
	Commands []command

	ms, headroom float64
}

// fact is a figure with what it says.
type fact struct{ Name, Value, Unit, Note string }

// cell is one figure of the table; Sort is what it is ordered by.
type cell struct {
	Text, Sort string
	Left       bool
}

// column is the head of one; Key names it in the filter.
type column struct {
	Key, Name, Title string
	Left             bool
}

var columns = []column{
	{"tp", "TP", "tensor parallel", false}, {"cp", "CP", "context parallel", false},
	{"dp", "DP", "data parallel", false}, {"pp", "PP", "pipeline parallel, both meshes", false},
	{"etp", "ETP", "expert tensor parallel", false},
	{"ep", "EP", "expert parallel", false}, {"edp", "EDP", "expert data parallel", false},
	{"vpp", "VPP", "chunks per pipeline rank", false}, {"mbs", "MBS", "micro-batch size", false},
	{"recompute", "recompute", "modules recomputed", true},
	{"peak", "peak GiB", "what the card sees of the worst stage, low to high", false},
	{"free", "free GiB", "headroom above the allocated peak", false},
	{"imbalance", "max I", "routing imbalance of one layer up to which it fits", false},
	{"nvlink", "in NVLink", "share of TP, CP and EP bytes that stay inside NVLink", false},
	{"exposed", "exposed s", "communication that nothing hides, first run", false},
	{"now", "now s", "step time of a first run: alltoall, eager", false},
	{"tuned", "tuned s", "step time with the usual switches", false},
}

// planOf prepares one plan; machines collects what its pictures stand on.
func planOf(a *Answer, p *plan.Plan, label string, machines *[]*machine) (planView, error) {
	v := planView{ID: "plan-" + label, Label: label, Key: p.Key, Equal: p.EqualToBest, Grade: string(p.Grade),
		Why: p.Why, Notes: p.Notes,
		Memory: memoryOf(a.Result, p), Whence: whenceOf(a.Stages[p.Key], p.WorstStage), Times: timesOf(p), ms: p.TunedTimeMS, headroom: p.HeadroomGiB}
	v.Short, v.Split = splitKey(p.Key)
	v.Verdict = verdict(a, p)
	v.Twin = p.PublishedTwin.Text()
	v.Facts = facts(a, p)
	v.Row = row(a, p)
	var err error
	if v.Meshes, err = meshesOf(a, p, machines); err != nil {
		return v, err
	}
	v.Schedule = scheduleOf(a, p)
	v.Commands = commandsOf(a, p, a.Result.Plans[0].Key)
	return v, nil
}

// evenRouting is the imbalance below which a plan has no room for the routing of real data (memory-model.md 3.6).
const evenRouting = 1.2

func verdict(a *Answer, p *plan.Plan) string {
	text := ""
	switch i := p.MaxImbalance; {
	case i == nil:
	case *i >= plan.MostImbalance(a.Model, p.Sizes.EP):
		text = "whatever the routing"
	case *i < evenRouting:
		text = fmt.Sprintf("with even routing only (imbalance up to %.2f in one layer)", *i)
	default:
		text = fmt.Sprintf("up to a routing imbalance of %.1f in one layer", *i)
	}
	if p.TunedGrade != p.Grade {
		text += fmt.Sprintf("; tuned: %s, the card sees %.0f to %.0f GiB", p.TunedGrade,
			float64(p.TunedCard[0])/gib, float64(p.TunedCard[1])/gib)
	}
	return text
}

// facts are the figures above the fold.
func facts(a *Answer, p *plan.Plan) []fact {
	m := &p.Stages[p.WorstStage].Memory
	list := []fact{
		{"step, tuned", seconds(p.TunedTimeMS), "s", "±15 %; " + p.TunedSoftware},
		{"step, first run", seconds(p.StepTimeMS), "s", "±15 %; " + p.StepSoftware},
		{"peak, first run", fmt.Sprintf("%.0f–%.0f", float64(m.PeakDeviceLow)/gib, float64(m.PeakDevice)/gib), "GiB",
			fmt.Sprintf("of the card's %.4g; stage %d", a.Result.Request.MemoryGiB, p.WorstStage)},
		{"peak, tuned", fmt.Sprintf("%.0f–%.0f", float64(p.TunedCard[0])/gib, float64(p.TunedCard[1])/gib), "GiB",
			string(p.TunedGrade)},
		{"tokens", fmt.Sprintf("%.0f", p.TokensPerGPU), "/s", "per GPU, first run"},
		{"model FLOPS", fmt.Sprintf("%.0f", p.TFLOPSPerGPU), "TFLOPS", "per GPU, first run; wall: " + p.Wall},
	}
	if p.NVLinkFraction != nil {
		list = append(list, fact{"hot bytes in NVLink", fmt.Sprintf("%.0f", 100**p.NVLinkFraction), "%", "of TP, CP and EP"})
	}
	return list
}

func row(a *Answer, p *plan.Plan) []cell {
	s, m := &p.Sizes, &p.Stages[p.WorstStage].Memory
	whole := func(n int) cell { return cell{Text: fmt.Sprint(n), Sort: fmt.Sprint(n)} }
	number := func(x float64, text string) cell { return cell{Text: text, Sort: fmt.Sprintf("%.4f", x)} }
	expert := func(n int) cell {
		if a.Model.MoE == nil {
			return cell{Text: "–", Sort: "-1"}
		}
		return whole(n)
	}
	imbalance, hot := cell{Text: "–", Sort: "-1"}, cell{Text: "–", Sort: "-1"}
	if i := p.MaxImbalance; i != nil {
		imbalance = number(*i, fmt.Sprintf("%.1f", *i))
		if *i >= plan.MostImbalance(a.Model, s.EP) {
			imbalance.Text = "any"
		}
	}
	if p.NVLinkFraction != nil {
		hot = number(100**p.NVLinkFraction, percent(*p.NVLinkFraction))
	}
	return []cell{
		whole(s.TP), whole(s.CP), whole(s.DP), whole(s.PP), expert(s.ETP), expert(s.EP), expert(s.EDP),
		whole(s.VPP), whole(s.MicroBatchSize), {strings.ReplaceAll(s.Recompute, ",", ", "), s.Recompute, true},
		number(float64(m.PeakDevice)/gib, fmt.Sprintf("%.0f–%.0f", float64(m.PeakDeviceLow)/gib, float64(m.PeakDevice)/gib)),
		number(p.HeadroomGiB, fmt.Sprintf("%.1f", p.HeadroomGiB)), imbalance, hot,
		number(p.ExposedMS/1e3, seconds(p.ExposedMS)),
		number(p.StepTimeMS/1e3, seconds(p.StepTimeMS)), number(p.TunedTimeMS/1e3, seconds(p.TunedTimeMS)),
	}
}
