package plan

import (
	"cmp"
	"context"
	"slices"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/memmodel"
)

// Basis says how well a number of bytes is known.
type Basis string

const (
	Exact   Basis = "exact"   // arithmetic of the framework itself, byte for byte where there is a recording
	Derived Basis = "derived" // follows from sources or reports, within bounds
	Fitted  Basis = "fitted"  // rests on a constant chosen with measured peaks in view
	Assumed Basis = "assumed" // nobody has measured it
)

// Account is where the memory of one layout goes.
type Account struct {
	Key    string         `json:"key"`                 // the layout in its text form, complete
	Stages []StageAccount `json:"stages"`              // one a pipeline rank, in their order
	Worst  int            `json:"worst_pipeline_rank"` // the stage with the largest allocated peak
	// Kinds are the kinds of layers, with the tensors that one layer saves for one micro-batch on one rank.
	Kinds []KindAccount `json:"layer_kinds"`
	// Shares of the worst stage's allocated peak, 0 to 1, by basis: exact, derived, fitted, assumed.
	Shares map[Basis]float64 `json:"shares"`
	// Choices are what the layout or the run could do differently, one at a time, the largest saving first.
	Choices []Choice `json:"choices"`
	Fit     *Fit     `json:"fit"` // whether the whole layout fits the GPU
	// Excluded are choices that a rule forbids here, with the rule.
	Excluded []string `json:"excluded"`
}

// StageAccount is one pipeline rank.
type StageAccount struct {
	Stage Stage `json:"stage"` // what the stage holds, and its bytes by moment
	// Parts add up to the allocated peak when it falls into a pass, largest first.
	Parts []Part `json:"parts"`
	// AtStep says that the optimizer's step needs more than any pass; Parts are then what it holds.
	AtStep bool `json:"peak_at_optimizer_step"`
	// Moment is the pass of the peak: InFlight chunk activations are live, Backward says which way it goes.
	InFlight int  `json:"chunks_in_flight"`
	Backward bool `json:"in_backward"`
	// Outside are what the card sees beyond the allocated bytes, as ranges.
	Outside []Range `json:"outside"`
	// Host is what the rank keeps in host memory.
	Host memmodel.HostBytes `json:"host"`
}

// Part is one component of a stage's allocated bytes.
type Part struct {
	Name    string `json:"name"`    // in words
	Bytes   int64  `json:"bytes"`   // on the stage's fullest rank
	Basis   Basis  `json:"basis"`   // exact (arithmetic), derived (within bounds), fitted (to measured peaks) or assumed
	Formula string `json:"formula"` // what it is made of, in words
	Source  string `json:"source"`  // where that comes from: documents of this project and files of its source
}

// Range is a part that is known within bounds only.
type Range struct {
	Name   string `json:"name"`   // in words
	Low    int64  `json:"low"`    // bytes, lower bound
	High   int64  `json:"high"`   // bytes, upper bound
	Basis  Basis  `json:"basis"`  // how well it is known: derived or assumed, as in parts
	Source string `json:"source"` // where the bounds come from, as in parts
}

// KindAccount is one kind of layer.
type KindAccount struct {
	Name   string `json:"name"`                    // what such a layer is made of, in words
	Layers []int  `json:"layers_by_pipeline_rank"` // how many each pipeline rank has
	// Kept is the bytes that stay from the forward to the backward pass, Dropped those made again, of one layer and micro-batch.
	Kept    int64             `json:"kept"`
	Dropped int64             `json:"recomputed"`
	Tensors []memmodel.Tensor `json:"tensors"` // largest first
}

// AccountOf accounts for the memory of a layout.
func AccountOf(ctx context.Context, r Request, l layout.Layout) (*Account, error) {
	r, _ = r.filled()
	p, err := newPricer(&r)
	if err != nil {
		return nil, err
	}
	stages, err := p.memory.Estimate(&l)
	if err != nil {
		return nil, err
	}
	out := &Account{Key: l.String(), Kinds: kindsIn(p, &l), Excluded: []string{}}
	var plain []Stage
	var host int64
	for i := range stages {
		s := &stages[i]
		plain = append(plain, stageOf(p.model, &l, s))
		out.Stages = append(out.Stages, accountStage(plain[i], s))
		host = max(host, s.Host.Total())
		if s.PeakAllocated > stages[out.Worst].PeakAllocated {
			out.Worst = i
		}
	}
	out.Shares = sharesOf(&stages[out.Worst])
	if out.Fit, err = judged(r, plain, host); err != nil {
		return nil, err
	}
	out.choices(ctx, p, &r, &l)
	return out, ctx.Err()
}

// StagesOf is the part of AccountOf that says where the bytes of each stage come from.
func StagesOf(r Request, l layout.Layout) ([]StageAccount, error) {
	r, _ = r.filled()
	p, err := newPricer(&r)
	if err != nil {
		return nil, err
	}
	stages, err := p.memory.Estimate(&l)
	if err != nil {
		return nil, err
	}
	out := make([]StageAccount, len(stages))
	for i := range stages {
		out[i] = accountStage(stageOf(p.model, &l, &stages[i]), &stages[i])
	}
	return out, nil
}

func accountStage(plain Stage, s *memmodel.Stage) StageAccount {
	out := StageAccount{Stage: plain, InFlight: s.InFlight, Backward: s.InBackward, Host: s.Host}
	out.AtStep = s.PeakAllocated != passPeak(s)
	optimizer := s.Optimizer
	if !out.AtStep {
		optimizer -= s.StepCopies // made by the step, gone when a pass runs
	}
	parts := []Part{
		{"weights", s.Weights, Exact, "parameters of the rank x bytes of their type", "memory-model.md 2.1; memmodel/parameters.go, recorded in oracle/param_counts.json"},
		{"gradients", s.Gradients, Exact, "buffer elements, padding included, x bytes of a main gradient", "memory-model.md 2.2; memmodel/buffers.go, recorded in oracle/dist_optimizer.json"},
		{"optimizer", optimizer, Exact, "shard of the buffer x (master + two moments)", "memory-model.md 2.3; memmodel/state.go"},
		{"workspaces", s.Workspace, Exact, "cuBLAS workspaces of PyTorch and Transformer Engine, and other buffers that stay", "memory-findings.md C1; memmodel/workspace.go"},
	}
	transient := Assumed
	if s.Provenance.Fitted >= s.Transient {
		transient = Fitted
	}
	if out.AtStep {
		rest := s.PeakAllocated - s.Weights - s.Gradients - optimizer - s.Workspace
		parts = append(parts, Part{"optimizer's step", rest, Derived, "what the schedule still holds, and temporaries of the step", "memmodel/residual.go, memmodel/state.go"})
	} else {
		parts = append(parts,
			Part{"saved activations", s.Activations, Exact, "tensors kept for backward, of every chunk in flight at the peak", "memory-model.md 3; memmodel/attention.go, feedforward.go, experts.go, recorded in oracle/activations.json"},
			Part{"running layer", s.Transient, transient, "what lives only while one layer, or the loss, runs", "memory-model.md 3.5 to 3.7; memmodel/transient.go, head.go"})
	}
	parts = slices.DeleteFunc(parts, func(p Part) bool { return p.Bytes == 0 })
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Bytes, a.Bytes) })
	out.Parts = parts
	d := &s.Device
	out.Outside = []Range{}
	for _, o := range []Range{
		{"allocator slack", d.Fragmentation.Low, d.Fragmentation.High, Derived, "memory-model.md 7.4"},
		{"CUDA context", d.Context.Low, d.Context.High, Assumed, "memory-model.md 7.2"},
		{"NCCL buffers", d.Communicators.Low, d.Communicators.High, Derived, "memory-model.md 7.2; NVIDIA/nccl issues 864, 964, 1685"},
		{"dispatcher's buffers", d.ExpertBuffers.Low, d.ExpertBuffers.High, Derived, "memory-model.md 7.2"},
		{"CUDA graphs", d.Graphs.Low, d.Graphs.High, Assumed, "memory-model.md 7.3"},
	} {
		if o.High > 0 {
			out.Outside = append(out.Outside, o)
		}
	}
	return out
}

// passPeak is the peak of the passes, without the optimizer's step.
func passPeak(s *memmodel.Stage) int64 {
	return s.Weights + s.Gradients + s.Optimizer - s.StepCopies + s.Workspace + s.Activations + s.Transient
}

// kindsIn lists the layer kinds of the model as the layout runs them.
func kindsIn(p *pricer, l *layout.Layout) []KindAccount {
	layers := p.model.Layers()
	var kinds []arch.Layer
	var out []KindAccount
	at := func(kind arch.Layer) int {
		kind.Windowed = false // a window changes no saved tensor
		if i := slices.Index(kinds, kind); i >= 0 {
			return i
		}
		kinds = append(kinds, kind)
		k := KindAccount{Name: kindName(kind), Layers: make([]int, l.PP), Tensors: p.memory.LayerTensors(l, kind)}
		k.sum()
		out = append(out, k)
		return len(out) - 1
	}
	for stage := range l.PP {
		for v := range l.VPP {
			cell := l.Split.Cell(stage, v)
			for i := range cell.Decoders {
				kind := at(layers[cell.First+i]) // out grows
				out[kind].Layers[stage]++
			}
		}
	}
	slices.SortStableFunc(out, func(a, b KindAccount) int { return cmp.Compare(b.Kept, a.Kept) })
	return out
}

// sum adds the tensors up and sorts them.
func (k *KindAccount) sum() {
	for _, t := range k.Tensors {
		switch {
		case t.Recomputed:
			k.Dropped += t.Bytes
		case !t.Offloaded:
			k.Kept += t.Bytes
		}
	}
	slices.SortStableFunc(k.Tensors, func(a, b memmodel.Tensor) int { return cmp.Compare(b.Bytes, a.Bytes) })
}

func kindName(kind arch.Layer) string {
	mixer := map[arch.Mixer]string{arch.GQA: "attention", arch.MLAttention: "MLA", arch.MambaMixer: "Mamba mixer", arch.GatedDeltaNet: "gated delta net"}[kind.Mixer]
	feedforward := map[arch.Feedforward]string{arch.DenseMLP: "dense MLP", arch.MoEMLP: "experts"}[kind.Feedforward]
	switch {
	case mixer == "":
		return feedforward
	case feedforward == "":
		return mixer
	}
	return mixer + " + " + feedforward
}

// sharesOf divides a stage's peak by what its bytes rest on.
func sharesOf(s *memmodel.Stage) map[Basis]float64 {
	peak := float64(s.PeakAllocated)
	return map[Basis]float64{
		Exact: float64(s.Provenance.Exact) / peak, Fitted: float64(s.Provenance.Fitted) / peak, Assumed: float64(s.Provenance.Assumed) / peak,
	}
}
