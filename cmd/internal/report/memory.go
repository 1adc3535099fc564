package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout/plan"
)

// Memory writes where the bytes of a layout go: every stage, then the worst one in parts, what one layer keeps, and what
// each choice would save. why adds formula and source to each line.
func Memory(w io.Writer, a *plan.Account, why bool) error {
	p := printerTo(w)
	p.section("LAYOUT", p.wrapLayout(a.Key)...)
	worst := &a.Stages[a.Worst]
	p.prose("FIT", fmt.Sprintf("%s: the allocated peak is %s GiB on stage %d of %d, %s; %s",
		strings.ToUpper(string(a.Fit.Grade)), gibs(a.Fit.PeakBytes), a.Worst, len(a.Stages), moment(worst), limits(a.Fit, "this GPU")))
	p.prose("KNOWN", knownShares(a.Shares)+" of that peak")
	p.blank()

	t := Table{Head: []string{"stage GiB", "layers", "weights", "gradients", "optimizer", "activations", "other", "peak", "after step", "card"}, Text: []int{0}}
	for i := range a.Stages {
		s := &a.Stages[i].Stage
		m := &s.Memory
		layers := 0
		for _, chunk := range s.Layers {
			layers += len(chunk)
		}
		name := fmt.Sprintf("pp%d", s.PipelineRank)
		if i == a.Worst {
			name += " <"
		}
		state := m.Weights + m.Gradients + partOf(&a.Stages[i], "optimizer")
		t.Add(name, fmt.Sprint(layers), gibs(m.Weights), gibs(m.Gradients), gibs(partOf(&a.Stages[i], "optimizer")),
			gibs(partOf(&a.Stages[i], "saved activations")), gibs(m.PeakAllocated-state-partOf(&a.Stages[i], "saved activations")),
			gibs(m.PeakAllocated), gibs(m.AllocatedAfterStep), fmt.Sprintf("%.1f-%.1f", float64(m.PeakDeviceLow)/gib, float64(m.PeakDevice)/gib))
	}
	if err := t.Write(w, Text); err != nil {
		return err
	}
	p.blank()
	if err := stageParts(w, worst, why); err != nil {
		return err
	}
	for i := range a.Kinds {
		k := &a.Kinds[i]
		if k.Layers[a.Worst] > 0 {
			p.blank()
			if err := layerKind(w, k, k.Layers[a.Worst]); err != nil {
				return err
			}
		}
	}
	p.blank()
	if err := choices(w, a); err != nil {
		return err
	}
	if len(a.Excluded) > 0 {
		p.blank()
		p.prose("NOT HERE", a.Excluded...)
	}
	return nil
}

func partOf(s *plan.StageAccount, name string) int64 {
	for _, part := range s.Parts {
		if part.Name == name {
			return part.Bytes
		}
	}
	return 0
}

// moment says when the peak comes.
func moment(s *plan.StageAccount) string {
	if s.AtStep {
		return "at the optimizer's step"
	}
	way := "forward"
	if s.Backward {
		way = "backward"
	}
	return fmt.Sprintf("in a %s pass with %s in flight", way, plural(s.InFlight, "chunk activation"))
}

func knownShares(shares map[plan.Basis]float64) string {
	var parts []string
	for _, b := range []plan.Basis{plan.Exact, plan.Derived, plan.Fitted, plan.Assumed} {
		if x := shares[b]; x > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f %%", b, 100*x))
		}
	}
	return strings.Join(parts, ", ")
}

// stageParts lists the components of one stage, largest first, and what the card sees besides.
func stageParts(w io.Writer, s *plan.StageAccount, why bool) error {
	head := []string{fmt.Sprintf("pp%d", s.Stage.PipelineRank), "GiB", "share", "known"}
	text := []int{0, 3}
	if why {
		head, text = append(head, "how", "source"), append(text, 4, 5)
	}
	t := Table{Head: head, Text: text}
	add := func(name, size, share string, basis plan.Basis, how, source string) {
		row := []string{name, size, share, string(basis)}
		if why {
			row = append(row, how, source)
		}
		t.Add(row...)
	}
	peak := float64(s.Stage.Memory.PeakAllocated)
	for _, part := range s.Parts {
		add(part.Name, gibs(part.Bytes), fmt.Sprintf("%.1f %%", 100*float64(part.Bytes)/peak), part.Basis, part.Formula, part.Source)
	}
	for _, o := range s.Outside {
		add("outside: "+o.Name, gibs(o.Low)+"-"+gibs(o.High), "", o.Basis, "", o.Source)
	}
	if s.Host.Total() > 0 {
		add("host memory", gibs(s.Host.Total()), "", plan.Derived, fmt.Sprintf("%s GiB cross the host link each step", gibs(s.Host.TrafficPerStep)), "memory-model.md 2.5, 5.1")
	}
	return t.Write(w, Text)
}

// layerKind lists what one layer saves for one micro-batch.
func layerKind(w io.Writer, k *plan.KindAccount, layers int) error {
	head := fmt.Sprintf("%s: %s on this stage; one keeps %.1f MiB of one micro-batch", k.Name, plural(layers, "layer"), mibs(k.Kept))
	if k.Dropped > 0 {
		head += fmt.Sprintf(", %.1f MiB are recomputed", mibs(k.Dropped))
	}
	printerTo(w).flush(head)
	t := Table{Head: []string{"tensor", "MiB", ""}, Text: []int{0, 2}}
	small := int64(0)
	for _, tensor := range k.Tensors {
		if tensor.Bytes < 1<<19 && len(k.Tensors) > 8 {
			small += tensor.Bytes
			continue
		}
		fate := ""
		switch {
		case tensor.Recomputed:
			fate = "recomputed"
		case tensor.Offloaded:
			fate = "on the host"
		}
		t.Add(tensor.Name, fmt.Sprintf("%.1f", mibs(tensor.Bytes)), fate)
	}
	if small > 0 {
		t.Add("all smaller ones", fmt.Sprintf("%.1f", mibs(small)), "")
	}
	return t.Write(w, Text)
}

// choices lists what else could be done, the largest saving first.
func choices(w io.Writer, a *plan.Account) error {
	t := Table{Head: []string{"one choice alone", "saves GiB", "peak", "", "step", "host GiB", ""}, Text: []int{0, 3, 6}}
	for i := range a.Choices {
		c := &a.Choices[i]
		step, host := "?", ""
		if c.TimeMS != nil {
			step = signed(*c.TimeMS/1e3, 2) + " s"
		}
		if c.HostBytes > 0 {
			host = gibs(c.HostBytes)
		}
		t.Add(c.Name, signed(float64(c.SavedBytes)/gib, 2), gibs(c.PeakBytes), string(c.Grade), step, host, c.Note)
	}
	if err := t.Write(w, Text); err != nil {
		return err
	}
	if slices.ContainsFunc(a.Choices, func(c plan.Choice) bool { return c.TimeMS == nil }) {
		printerTo(w).flush("step: change of the step as written, eager; ? is not priced. Flags of each: -o json")
	}
	return nil
}
