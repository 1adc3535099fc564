package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/layout/script"
)

// Checked is what a check of somebody's launch found.
type Checked struct {
	Script     *script.Script
	Command    *script.Command
	Platform   string
	World      int
	WorldGiven bool
	Judgement  *plan.Judgement
	Fit        *plan.Fit
	Base       *plan.Base
	NotPlaced  string // why fit or place are not known
}

// Check writes what a check understood, what breaks, whether it fits and where it stands.
func Check(w io.Writer, c *Checked) {
	p := printerTo(w)
	j := c.Judgement
	where := firstWord(c.Command.File, c.Script.Name)
	if c.Command.Line > 0 {
		where = fmt.Sprintf("%s:%d", where, c.Command.Line)
	}
	p.prose("READ", fmt.Sprintf("%s: %s %s (%s: %s)", where, firstWord(c.Command.Launcher, "argv"), c.Command.Program, c.Script.Dialect, c.Script.Why))
	world := fmt.Sprintf("%d GPUs, from %s", c.World, c.Command.World.From)
	if c.WorldGiven {
		world = fmt.Sprintf("%d GPUs, as given", c.World)
	}
	p.prose("", world)
	c.understood(p)
	shown := 0
	var neutral []string
	for i := range c.Script.Warnings {
		v := &c.Script.Warnings[i]
		if isNeutral(v) {
			neutral = append(neutral, v.Name)
			continue
		}
		text := v.Message
		if len(v.Affects) > 0 {
			text += " (changes " + strings.Join(v.Affects, " ") + ")"
		}
		p.prose(labelOnce(shown, "UNSURE"), text)
		shown++
	}
	if len(neutral) > 0 {
		p.prose(labelOnce(shown, "UNSURE"), "not set, without effect on layout and memory: "+strings.Join(neutral, " "))
	}
	for i, u := range c.Command.Unmapped {
		p.prose(labelOnce(i, "NOT READ"), fmt.Sprintf("%s %s: %s", u.Key, u.Value, u.Reason))
	}
	for i, u := range j.Unmodelled {
		p.prose(labelOnce(i, "NOT PRICED"), u)
	}
	c.replaced(p)
	p.blank()
	violations(p, j.Violations)
	c.verdict(p)
}

// mostReplaced is how many values that Megatron replaces are shown.
const mostReplaced = 3

// replaced says what Megatron silently makes of the arguments.
func (c *Checked) replaced(p printer) {
	if c.Judgement.Resolved == nil {
		return
	}
	all := c.Judgement.Resolved.Changes
	for i := range all[:min(mostReplaced, len(all))] {
		r := &all[i]
		p.prose(labelOnce(i, "REPLACED"), fmt.Sprintf("%s: %s becomes %s; %s", r.Flag, r.Given, r.Becomes, r.Why))
	}
	if more := len(all) - mostReplaced; more > 0 {
		p.prose("", fmt.Sprintf("and %d more (-o json lists all)", more))
	}
}

// neutralFlags change neither a layout nor its memory.
var neutralFlags = []string{"--data-path", "--data-cache-path", "--tokenizer-model", "--vocab-file", "--merge-file", "--train-iters", "--train-samples", "--lr", "--min-lr",
	"--lr-warmup-iters", "--lr-warmup-samples", "--lr-decay-iters", "--lr-decay-samples", "--lr-warmup-fraction", "--weight-decay", "--clip-grad", "--seed", "--save", "--load",
	"--save-interval", "--eval-interval", "--eval-iters", "--log-interval", "--tensorboard-dir", "--wandb-project", "--wandb-exp-name", "--wandb-save-dir", "--split"}

// isNeutral says that a variable which nobody set decides nothing that is judged here.
func isNeutral(w *script.Warning) bool {
	if w.Kind != script.UnsetVariable && w.Kind != script.ScriptDefault || len(w.Affects) == 0 {
		return false
	}
	for _, flag := range w.Affects {
		if !slices.Contains(neutralFlags, flag) {
			return false
		}
	}
	return true
}

func labelOnce(i int, label string) string {
	if i > 0 {
		return ""
	}
	return label
}

func firstWord(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// understood says what Megatron makes of the command line.
func (c *Checked) understood(p printer) {
	j := c.Judgement
	if j.Layout != nil {
		l := j.Layout
		p.section("LAYOUT", p.wrapLayout(l.String())...)
		etp := "given"
		if j.Resolved != nil && j.Resolved.ETPFromTP {
			etp = "not given, so Megatron takes TP"
		}
		p.prose("", fmt.Sprintf("DP %d, EDP %d, ETP %d (%s), %s; dispatcher %s", l.DP(), l.EDP(), l.ETP, etp,
			layout.Count(l.NumMicrobatches(), "micro-batch"), l.Dispatcher))
	}
	if j.Total > 0 {
		p.prose("", fmt.Sprintf("%.2f B parameters, %.2f B active", float64(j.Total)/1e9, float64(j.Active)/1e9))
	}
	if j.Missing != "" {
		p.prose("UNKNOWN", j.Missing)
	}
	if len(j.Stages) == 0 {
		return
	}
	var layers []string
	for i := range j.Stages {
		n := 0
		for _, chunk := range j.Stages[i].Layers {
			n += len(chunk)
		}
		layers = append(layers, fmt.Sprint(n))
	}
	p.prose("", "layers per stage: "+strings.Join(layers, " "))
}

// violations prints all rules that break, refusals first, each with its repairs.
func violations(p printer, all layout.Violations) {
	for _, s := range []layout.Severity{layout.Error, layout.Hazard, layout.Advice} {
		first := true
		for i := range all {
			v := &all[i]
			if v.Severity != s {
				continue
			}
			label := ""
			if first {
				label = map[layout.Severity]string{layout.Error: "REFUSED", layout.Hazard: "HAZARDS", layout.Advice: "ADVICE"}[s]
			}
			first = false
			p.prose(label, fmt.Sprintf("%s (at %s): %s", v.Rule, v.NoticedAt, v.Message))
			if len(v.Repairs) > 0 {
				p.prose("", "try "+strings.Join(v.Repairs, ", or "))
			}
		}
	}
	if all.Legal() {
		p.prose("RULES", "Megatron accepts it")
	}
}

func (c *Checked) verdict(p printer) {
	if c.Fit != nil {
		f := c.Fit
		p.prose("MEMORY", fmt.Sprintf("%s: stage %d allocates %.1f GiB at its peak; %s", strings.ToUpper(string(f.Grade)), f.WorstStage,
			float64(f.PeakBytes)/gib, limits(f, c.Platform)))
		if f.WorstStage < len(c.Judgement.Stages) {
			m := &c.Judgement.Stages[f.WorstStage].Memory
			p.prose("", fmt.Sprintf("dense state %.1f, expert state %.1f, activations %.1f, other %.1f", float64(m.DenseState)/gib,
				float64(m.ExpertState)/gib, float64(m.Activations)/gib, float64(m.Workspace+m.Transient)/gib))
		}
	}
	if c.NotPlaced != "" {
		p.prose("", "not placed: "+c.NotPlaced)
	}
	if b := c.Base; b != nil {
		p.prose("RANK", fmt.Sprintf("%d of %d pairs of meshes, %.0f %% longer than the best when both are tuned; best:", b.Place, b.Of, 100*b.SlowerBy))
		p.section("", p.wrapLayout(b.Best)...)
	}
}

// limits says what the fit rule holds against what.
func limits(f *plan.Fit, platform string) string {
	card := fmt.Sprintf("the card sees %.1f to %.1f of %.2f GiB", float64(f.CardLow)/gib, float64(f.CardHigh)/gib, f.MemoryGiB)
	if f.HeadroomGiven {
		return fmt.Sprintf("%s on %s, of which %.1f are to stay free", card, platform, f.HeadroomGiB)
	}
	return fmt.Sprintf("%s; for the estimate's error at most %.1f may be allocated on %s", card, float64(f.LimitBytes)/gib, platform)
}
