package plan

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/topology/steptime"
)

// host lists what lightens the host's side of a step.
func (n *nextList) host() {
	if n.moe() && !n.base.FusedPermute {
		n.add(Experiment{Variable: "fused permutation and router", Why: "fewer kernels to launch per MoE layer",
			Flags: []string{"--moe-permute-fusion", "--moe-router-fusion"}, Requires: []string{"Transformer Engine 2.7"},
			Expected: n.software(func(s *steptime.Software) { s.FusedPermute = true }), Accept: steady, Source: docsOptimization})
	}
	n.add(Experiment{Variable: "manual garbage collection", Why: "Python's collector stops ranks at different moments, and all wait for the last",
		Flags: []string{"--manual-gc"}, Accept: steady, Source: docsOptimization})
	n.add(Experiment{Variable: "CPU affinity", Why: "a host far from its GPU launches late; worth 70 TFLOPS in one published history",
		Flags: []string{"(numactl or the launcher's binding, no Megatron flag)"}, Accept: steady,
		Source: "NVIDIA DeepSeek-V3 on GB200 guide, Megatron-LM dev docs/discussions"})
}

// precision comes after a stable BF16 baseline.
func (n *nextList) precision() {
	if n.l.Precision != layout.BF16 {
		return
	}
	type format struct {
		to    layout.Precision
		flags []string
	}
	formats := []format{
		{layout.FP8Tensorwise, []string{"--fp8-format hybrid", "--fp8-recipe tensorwise"}},
		{layout.FP8Blockwise, []string{"--fp8-format e4m3", "--fp8-recipe blockwise"}},
	}
	if n.blackwell() {
		formats = []format{{layout.MXFP8, []string{"--fp8-format e4m3", "--fp8-recipe mxfp8"}}}
	}
	for _, f := range formats {
		if precisionRuns(f.to, n.p.platform, n.p.platform.SM.Int()) != nil {
			n.exclude("%s: the GPU has no such format", f.to)
			continue
		}
		changed := *n.l
		changed.Precision = f.to
		time, memory, why := n.layout(changed)
		if why != "" {
			n.exclude("%s: %s", f.to, why)
			continue
		}
		n.add(Experiment{Variable: "precision " + f.to.String(), Why: "after a stable BF16 baseline; the router stays fp32. Small experts may lose on Hopper",
			Flags: f.flags, Requires: []string{"loss curve of the BF16 run to compare with"}, Expected: time, Memory: memory,
			Accept: "absolute tokens/s as well as MFU, and the loss curve; " + steady, Source: docsOptimization})
	}
}

// graphs start with the narrowest scope.
func (n *nextList) graphs() {
	if n.l.Recompute.Granularity == layout.Full {
		n.exclude("CUDA graphs: full recompute allows them for the full iteration only (%s)", coreConfig)
		return
	}
	scopes := []struct {
		graph   steptime.Graph
		modules string
	}{{steptime.RouterGraph, "moe_router moe_preprocess"}, {steptime.AttnGraph, "attn moe_router moe_preprocess"}}
	for _, s := range scopes {
		if !n.moe() {
			s.modules = "attn"
			if s.graph == steptime.RouterGraph {
				continue
			}
		}
		n.add(Experiment{Variable: "CUDA graphs, " + s.graph.String() + " scope", Why: "replays launches; narrowest scope first. Recompute may have to be chosen again afterwards",
			Flags:    []string{"--cuda-graph-impl transformer_engine", "--cuda-graph-modules " + s.modules},
			Requires: []string{"static shapes inside the scope", "memory for static buffers: a few GB, above 10 GB with PP > 1"},
			Expected: n.software(func(sw *steptime.Software) { sw.Graph = s.graph }),
			Accept:   "the profile shows graph replay, and only steps after capture are timed; " + steady, Source: docsOptimization})
	}
}

// pipeline varies interleaving and the micro-batch.
func (n *nextList) pipeline() {
	if n.l.PP > 1 {
		for _, vpp := range []int{n.l.VPP * 2, n.l.VPP / 2} {
			if vpp < 1 {
				continue
			}
			changed := *n.l
			changed.VPP, changed.Split = vpp, layout.BalancedSplit(n.p.model, n.l.PP, vpp)
			if changed.Split == nil {
				n.exclude("VPP %d: the layers do not fill so many chunks", vpp)
				continue
			}
			time, memory, why := n.layout(changed)
			if why != "" {
				n.exclude("VPP %d: %s", vpp, why)
				continue
			}
			n.add(Experiment{Variable: fmt.Sprintf("VPP %d", vpp), Why: "a shorter bubble against more hops and more memory in flight",
				Flags: []string{fmt.Sprintf("--pipeline-model-parallel-layout '%s'", changed.Split)}, Expected: time, Memory: memory,
				Accept: steady, Source: "moeplan's own price"})
		}
	}
	changed := *n.l
	changed.MicroBatchSize *= 2
	time, memory, why := n.layout(changed)
	if why != "" {
		n.exclude("MBS %d: %s", changed.MicroBatchSize, why)
		return
	}
	n.add(Experiment{Variable: fmt.Sprintf("MBS %d", changed.MicroBatchSize), Why: "larger GEMMs and fewer launches against memory and bubble",
		Flags: []string{fmt.Sprintf("--micro-batch-size %d", changed.MicroBatchSize)}, Expected: time, Memory: memory,
		Accept: steady, Source: "moeplan's own price"})
}
