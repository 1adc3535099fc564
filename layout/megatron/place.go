package megatron

import (
	"errors"
	"fmt"
	"slices"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
)

// ErrSplit is wrapped by the error for layers that cannot be placed on the stages.
var ErrSplit = errors.New("megatron: the layers cannot be placed")

// Layout returns the layout that a command line describes, as the framework would build it, legal or not. The split is
// always filled in.
//
// Beside an *UnmodelledError (a number format, a dispatcher, a recompute module that layouts do not hold) the layout is
// returned too, with what comes closest. The error is layout.ErrSize for a degree below 1, ErrSplit where the layers do
// not divide, and Violations for a layout string that breaks its own rules.
func Layout(r *Resolved) (layout.Layout, error) {
	d := r.Degrees
	l := layout.Layout{
		Degrees:          d,
		VPP:              max(1, r.Pipeline.VPP),
		MicroBatchSize:   r.Batch.MicroBatchSize,
		GlobalBatchSize:  r.Batch.GlobalBatchSize,
		SeqLength:        r.Batch.SeqLength,
		SequenceParallel: r.SequenceParallel,
		EPOverlap:        r.Settings.Bool("overlap_moe_expert_parallel_comm"),
		Order:            r.Order,
	}
	for _, size := range []struct {
		what  string
		value int
	}{{"--tensor-model-parallel-size", d.TP}, {"--context-parallel-size", d.CP}, {"--pipeline-model-parallel-size", d.PP},
		{"--expert-model-parallel-size", d.EP}, {"--expert-tensor-parallel-size", d.ETP}} {
		if size.value < 1 || size.value > layout.MaxSize {
			return layout.Layout{}, &layout.SizeError{What: size.what, Value: fmt.Sprint(size.value), Problem: fmt.Sprintf("is not between 1 and %d", layout.MaxSize)}
		}
	}
	split, err := r.split()
	if err != nil {
		return layout.Layout{}, err
	}
	l.Split, l.VPP = split, split.VPP

	var parts []string
	l.Precision, parts = r.layoutPrecision(parts)
	l.Dispatcher, parts = r.layoutDispatcher(parts)
	l.Recompute, parts = r.layoutRecompute(parts)
	if l.Order == folding.DefaultOrder {
		l.Order = ""
	}
	if len(parts) > 0 {
		return l, &UnmodelledError{parts}
	}
	return l, nil
}

func (r *Resolved) layoutPrecision(parts []string) (layout.Precision, []string) {
	switch p := r.Precision; {
	case p.FP4 != "":
		return layout.NVFP4, parts
	case p.FP8 != "":
		switch p.Recipe {
		case "tensorwise":
			return layout.FP8Tensorwise, parts
		case "blockwise":
			return layout.FP8Blockwise, parts
		case "mxfp8":
			return layout.MXFP8, parts
		}
		return layout.FP8Tensorwise, append(parts, "--fp8-recipe "+p.Recipe)
	case p.Params == "fp16":
		return layout.FP16, parts
	case p.Params == "fp32":
		return layout.BF16, append(parts, "fp32 (neither --bf16 nor --fp16)")
	}
	return layout.BF16, parts
}

// layoutDispatcher: a dense model has none, which layouts write as the default.
func (r *Resolved) layoutDispatcher(parts []string) (layout.Dispatcher, []string) {
	if r.Shape.NumExperts < 1 {
		return layout.AllToAll, parts
	}
	switch r.Dispatcher {
	case "allgather":
		return layout.AllGather, parts
	case "flex":
		switch r.FlexBackend {
		case "deepep":
			return layout.DeepEP, parts
		case "hybridep":
			return layout.HybridEP, parts
		}
		return layout.DeepEP, append(parts, "--moe-flex-dispatcher-backend "+r.FlexBackend)
	case "alltoall":
		return layout.AllToAll, parts
	}
	return layout.AllToAll, append(parts, "--moe-token-dispatcher-type "+r.Dispatcher)
}

func (r *Resolved) layoutRecompute(parts []string) (layout.Recompute, []string) {
	c := r.Recompute
	switch c.Granularity {
	case "full":
		return layout.Recompute{Granularity: layout.Full, Block: c.Method == "block", NumLayers: c.NumLayers}, parts
	case "selective":
		out := layout.Recompute{Granularity: layout.Selective}
		for _, name := range c.Modules {
			one, err := layout.ParseRecompute(name)
			if err != nil || one.Granularity != layout.Selective || name == "selective" {
				if part := "--recompute-modules " + clipped(name); !slices.Contains(parts, part) {
					parts = append(parts, part)
				}
				continue
			}
			out.Modules |= one.Modules
		}
		return out, parts
	}
	return layout.Recompute{}, parts
}
