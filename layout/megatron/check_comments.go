package megatron

import (
	"fmt"
	"slices"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// comments says how to run a check and where it departs from the real run. l is the layout, run what the commands train.
func comments(l, run *layout.Layout, m *arch.Model, c *Command) []string {
	out := []string{
		"Run it in the root of a Megatron-LM checkout (Core 0.16 or later) with Transformer Engine, on one GPU. It is plain python: torchrun would overwrite WORLD_SIZE and RANK.",
		"The flag is --fake-process-group. Documents also call it --fake-init-process-group, but no parser has ever had that one.",
		"Keep the order: RANK 0 compiles the dataset helper that the other ranks import.",
		"Read the last memory line; the first has no optimizer state at its peak. Loss and times mean nothing, and a nan norm is normal.",
	}
	if c.Launcher == "pretrain_hybrid.py" {
		out = append(out, "A hybrid model starts with pretrain_hybrid.py. Its stages are the | in --hybrid-layer-pattern; no other flag splits it.")
	}
	if m.MoE != nil && l.Dispatcher != run.Dispatcher {
		why := "is refused under a fake process group"
		if !l.Dispatcher.Flex() {
			why = "is not what this check runs"
		}
		out = append(out, fmt.Sprintf("Dispatcher %s %s: alltoall stands in for it, and the buffers of %s come on top.", l.Dispatcher, why, l.Dispatcher))
	}
	if m.MoE != nil {
		out = append(out, "Tokens are balanced by force: an untrained router would decide the memory otherwise.")
	}
	if run.GlobalBatchSize != l.GlobalBatchSize {
		out = append(out, fmt.Sprintf("Global batch %d of the run is cut to %d: %d micro-batches a pipeline instead of %d bring as many into flight at once.",
			l.GlobalBatchSize, run.GlobalBatchSize, run.NumMicrobatches(), l.NumMicrobatches()))
	}
	if m.QKNorm == arch.FullDimQKNorm || m.QKNorm == arch.FullDimQKNormPerLayer {
		out = append(out, "This model's query and key norms span all heads, for which Megatron has no spec of its own: the command builds norms of one head, a few thousand parameters less a layer.")
	}
	if unseen := unseenStages(l.PP, c.Runs); unseen != "" {
		out = append(out, fmt.Sprintf("Not seen: %s. Ranks without data skip training, so middle stages cannot be impersonated as they are; "+
			"--middle-stages adds them through a wrapper that nobody has tested.", unseen))
	}
	if slices.ContainsFunc(c.Runs, func(r Run) bool { return r.Wrapped }) {
		out = append(out, "UNTESTED: the runs of "+MiddleWrapper+" make Megatron-LM train on a stage that owns no data. The file is written by this script; middle stages never read data.")
	}
	return append(out, "Not seen either: buffers of NCCL and of other communication libraries, uneven routing across ranks, and any timing.")
}

// unseenStages names the stages without a run: "stages 1 to 6", "stages 1 to 3 and 5", "" for none.
func unseenStages(pp int, runs []Run) string {
	runs = slices.SortedFunc(slices.Values(runs), func(a, b Run) int { return a.Stage - b.Stage })
	text, next := "", 0
	add := func(to int) { // stages next to to-1
		switch {
		case to <= next:
			return
		case text != "":
			text += " and "
		}
		if to-1 == next {
			text += fmt.Sprint(next)
		} else {
			text += fmt.Sprintf("%d to %d", next, to-1)
		}
	}
	for _, r := range runs {
		add(r.Stage)
		next = r.Stage + 1
	}
	add(pp)
	if text == "" {
		return ""
	}
	return "pipeline stages " + text
}
