package plan

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
)

// Offload says what waits in host memory: the last rungs of the field's ladder, after recompute.
type Offload string

const (
	OffloadNothing     Offload = ""
	OffloadActivations Offload = "activations" // --fine-grained-activation-offloading of every module that can move
	OffloadOptimizer   Offload = "optimizer"   // --optimizer-cpu-offload of all its state
	OffloadBoth        Offload = "both"
)

// Activations reports whether saved tensors are moved.
func (o Offload) Activations() bool { return o == OffloadActivations || o == OffloadBoth }

// Optimizer reports whether the optimizer's state is moved.
func (o Offload) Optimizer() bool { return o == OffloadOptimizer || o == OffloadBoth }

// offloadModules are what --offload-modules takes and memmodel prices.
var offloadModules = [...]string{"attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"}

// modulesOf are those of them that a model has.
func modulesOf(moe bool) []string {
	if moe {
		return offloadModules[:]
	}
	return offloadModules[:5]
}

// moved changes a run's memory to what stays on the GPU.
func (o Offload) moved(run *memmodel.Run, moe bool) {
	if o.Activations() {
		for _, name := range modulesOf(moe) {
			module, ok := memmodel.ParseOffloadModule(name)
			if !ok {
				panic("bug: memmodel does not price the offload of " + name)
			}
			run.Offload.Modules |= module
		}
	}
	if o.Optimizer() { // which Megatron-LM has with the precision-aware optimizer only
		run.Offload.OptimizerFraction, run.PrecisionAware = 1, true
		run.MasterBytes = (&Request{LowPrecisionMoments: true}).masterBytes()
	}
}

// Modules are the names for --offload-modules, none if activations stay.
func (o Offload) Modules(moe bool) []string {
	if !o.Activations() {
		return nil
	}
	return append([]string(nil), modulesOf(moe)...)
}

// offloadNotes says what offload takes of the host, which no time here includes.
func (p *pricer) offloadNotes(r *Request, l *layout.Layout) []string {
	if r.Offload == OffloadNothing {
		return nil
	}
	stages, err := p.memory.Estimate(l)
	if err != nil {
		return nil
	}
	var host, traffic int64
	for i := range stages {
		host, traffic = max(host, stages[i].Host.Total()), max(traffic, stages[i].Host.TrafficPerStep)
	}
	text := fmt.Sprintf("offload keeps %.1f GiB a GPU on the host and moves %.1f GiB over its link each step, which no time here includes",
		float64(host)/float64(gib), float64(traffic)/float64(gib))
	if link := p.platform.Figure(topology.FigureHostLink); link.Known && link.Value > 0 {
		text += fmt.Sprintf(": %.2f s of the link, hidden or not", float64(traffic)/(link.Value*1e9))
	}
	if !p.platform.Figure(topology.FigureHostMemory).Known {
		text += "; whether the host has that much is not known (host_memory_gb_per_gpu of a platform file)"
	}
	return []string{text}
}
