package megatron

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// Training returns the flags that decide how a model is trained: both meshes, the pipeline split, the architecture, the
// batch, recomputation, precision, token dispatch and the distributed optimizer. Data, schedule of the learning rate,
// logging and checkpoints are left to the caller.
//
// ETP is always written, because a command line without it sets ETP to TP. It fails for a layout whose split does not
// fit the model, for a rank order that no command line can produce, and for a model without Megatron flags. It does not
// check legality; layout.Check does.
func Training(l *layout.Layout, m *arch.Model) (Args, error) {
	if err := checkSplit(l, m); err != nil {
		return nil, err
	}
	var args Args
	args.number("--tensor-model-parallel-size", l.TP)
	args.number("--context-parallel-size", l.CP)
	args.number("--pipeline-model-parallel-size", l.PP)
	args.number("--expert-model-parallel-size", l.EP)
	args.number("--expert-tensor-parallel-size", l.ETP)
	if l.SequenceParallel && l.TP > 1 {
		args.Set("--sequence-parallel")
	}
	if l.CP > 1 {
		args.Set("--cp-comm-type", layout.CPCommType(m, l.TP, l.CP))
	}
	mapping, err := tpPPDPMapping(l)
	if err != nil {
		return nil, err
	}
	if mapping {
		args.Set("--use-tp-pp-dp-mapping")
	}
	args.Set("--use-distributed-optimizer")
	args.Set("--overlap-grad-reduce")
	args.Set("--overlap-param-gather")

	architecture, err := SplitArgs(m.MegatronFlags)
	if err != nil {
		return nil, err
	}
	if len(architecture) == 0 {
		return nil, fmt.Errorf("megatron: model %s has no Megatron flags", m.ID)
	}
	for _, f := range architecture {
		args.Set(f.Name, f.Values...)
	}
	if m.Kind == arch.Hybrid {
		args.Set("--hybrid-layer-pattern", hybridPattern(l.Split, m))
	} else {
		args.split(l.Split, m)
	}

	args.number("--seq-length", l.SeqLength)
	args.number("--max-position-embeddings", max(l.SeqLength, m.MaxPositionEmbeddings)) // a shorter one is refused
	args.number("--micro-batch-size", l.MicroBatchSize)
	args.number("--global-batch-size", l.GlobalBatchSize)
	args.recompute(l.Recompute)
	args.precision(l.Precision)
	args.Set("--transformer-impl", "transformer_engine")
	args.Set("--attention-dropout", "0.0")
	args.Set("--hidden-dropout", "0.0")
	args.Set("--cross-entropy-loss-fusion")
	args.Set("--cross-entropy-fusion-impl", "native") // te is refused
	if m.MoE != nil {
		args.dispatcher(l.Dispatcher)
		args.Set("--moe-grouped-gemm")
		args.Set("--moe-permute-fusion")
		args.Set("--moe-router-fusion")
		if l.EPOverlap {
			args.Set("--overlap-moe-expert-parallel-comm")
		}
	}
	return args, nil
}

// tpPPDPMapping reports whether the layout's rank order is the one that --use-tp-pp-dp-mapping makes. There is no flag for
// any other than that and the default.
func tpPPDPMapping(l *layout.Layout) (bool, error) {
	switch order := l.RankOrder(); order {
	case folding.DefaultOrder:
		return false, nil
	case folding.TPPPDPOrder:
		return true, nil
	default:
		return false, fmt.Errorf("megatron: no flag produces the rank order %q; there is %q, and %q with --use-tp-pp-dp-mapping",
			order, folding.DefaultOrder, folding.TPPPDPOrder)
	}
}

func (a *Args) number(name string, n int) { a.Set(name, strconv.Itoa(n)) }

func checkSplit(l *layout.Layout, m *arch.Model) error {
	s := l.Split
	if s == nil {
		return fmt.Errorf("megatron: the layout has no pipeline split")
	}
	if s.PP != l.PP || s.VPP != l.VPP || len(s.Cells) != l.PP*l.VPP {
		return fmt.Errorf("megatron: the split has PP %d, VPP %d and %d cells, the layout PP %d and VPP %d", s.PP, s.VPP, len(s.Cells), l.PP, l.VPP)
	}
	if n := s.NumLayers(); n != m.NumLayers {
		return fmt.Errorf("megatron: the split places %d decoder layers, %s has %d", n, m.ID, m.NumLayers)
	}
	if main, _, _ := strings.Cut(m.HybridLayerPattern, "/"); m.Kind == arch.Hybrid && len(main) != m.NumLayers {
		return fmt.Errorf("megatron: %s has a layer pattern of %d for %d layers", m.ID, len(main), m.NumLayers)
	}
	if n := s.NumMTP(); n != m.MTPNumLayers {
		return fmt.Errorf("megatron: the split places %d MTP layers, %s has %d", n, m.ID, m.MTPNumLayers)
	}
	return nil
}

// split says where the layers sit: nothing for what the framework does by itself, the number of virtual stages for its
// even interleaving, else the whole layout string. Only one of the two flags may be given
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/arguments.py:931).
func (a *Args) split(s *layout.Split, m *arch.Model) {
	switch {
	case !s.IsEven(m):
		a.Set("--pipeline-model-parallel-layout", s.String())
	case s.VPP > 1:
		a.number("--num-virtual-stages-per-pipeline-rank", s.VPP)
	}
}

// hybridPattern cuts the main layer pattern into pipeline segments. Hybrid models take no other flag for their split, and
// VPP is the number of segments over PP (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/arguments.py:787-860). MTP
// patterns follow behind slashes, one a depth.
func hybridPattern(s *layout.Split, m *arch.Model) string {
	main, _, _ := strings.Cut(m.HybridLayerPattern, "/")
	segments := make([]string, len(s.Cells))
	for i, c := range s.Cells {
		segments[i] = main[c.First : c.First+c.Decoders]
	}
	return strings.Join(segments, "|") + strings.Repeat("/"+m.MTPHybridPattern, m.MTPNumLayers)
}

// recompute writes --recompute-*: method and number of layers belong to full recomputation only, modules to selective
// only (layout-rules.md 2.9).
func (a *Args) recompute(r layout.Recompute) {
	switch r.Granularity {
	case layout.Selective:
		a.Set("--recompute-granularity", "selective")
		if r.Modules != 0 {
			a.Set("--recompute-modules", strings.Split(r.Modules.String(), ",")...)
		}
	case layout.Full:
		a.Set("--recompute-granularity", "full")
		method := "uniform"
		if r.Block {
			method = "block"
		}
		a.Set("--recompute-method", method)
		a.number("--recompute-num-layers", max(1, r.NumLayers))
	}
}

// precision writes the compute precision. Parameters stay bf16 under FP8 and FP4 (no --fp8-param-gather), with main
// gradients in fp32, which --bf16 switches on by itself (layout-rules.md rule 134).
func (a *Args) precision(p layout.Precision) {
	if p == layout.FP16 {
		a.Set("--fp16")
		return
	}
	a.Set("--bf16")
	switch p {
	case layout.FP8Tensorwise:
		a.Set("--fp8-format", "hybrid")
		a.Set("--fp8-recipe", "tensorwise")
	case layout.FP8Blockwise:
		a.Set("--fp8-format", "e4m3")
		a.Set("--fp8-recipe", "blockwise")
	case layout.MXFP8:
		a.Set("--fp8-format", "e4m3")
		a.Set("--fp8-recipe", "mxfp8")
	case layout.NVFP4:
		a.Set("--fp4-format", "e2m1")
		a.Set("--fp4-recipe", "nvfp4")
	}
}

func (a *Args) dispatcher(d layout.Dispatcher) {
	if d.Flex() {
		a.Set("--moe-token-dispatcher-type", "flex")
		a.Set("--moe-flex-dispatcher-backend", d.String())
		return
	}
	a.Set("--moe-token-dispatcher-type", d.String())
}
