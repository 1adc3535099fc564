package memmodel

// Offload moves tensors to host memory.
type Offload struct {
	// Modules are those of --offload-modules under --fine-grained-activation-offloading. MinimumElements is
	// --min-offloaded-tensor-size, 0 for upstream's 1 Mi.
	Modules         OffloadModules
	MinimumElements int64
	// Layers is --cpu-offloading-num-layers: TE moves everything that so many layers save (PP 1 only).
	Layers int
	// OptimizerFraction is --optimizer-offload-fraction under --optimizer-cpu-offload, 0 without.
	OptimizerFraction float64
}

// OffloadModules is a set of --offload-modules.
type OffloadModules uint8

const (
	OffloadAttnNorm OffloadModules = 1 << iota
	OffloadQKVLinear
	OffloadCoreAttn
	OffloadAttnProj
	OffloadMLPNorm
	OffloadExpertFC1
	OffloadMoEAct
)

// offloadNames are upstream's names, in the order of the bits.
var offloadNames = [...]string{"attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"}

// ParseOffloadModule returns the module with upstream's name, and false for one that is not priced.
func ParseOffloadModule(name string) (OffloadModules, bool) {
	for i, n := range offloadNames {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// minimumBytes is the smallest tensor that moves
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/pipeline_parallel/fine_grained_activation_offload.py: numel).
func (o *Offload) minimumBytes(elementBytes int64) int64 {
	n := o.MinimumElements
	if n == 0 {
		n = 1 << 20
	}
	return n * elementBytes
}

// offloadResidentGroups is how many layers' offloaded tensors are on the GPU all the same: one on its way out, one
// kept or fetched ahead (memory-findings.md C18).
const offloadResidentGroups = 2

// HostBytes is the host memory of one rank: pinned activations in flight, and for offloaded optimizer state a pinned
// fp32 parameter, its gradient and both moments, 16 bytes an element (memory-model.md 2.5 and 5.1).
type HostBytes struct {
	Activations int64 `json:"activations"` // bytes of offloaded activations in flight; 0 without offload
	Optimizer   int64 `json:"optimizer"`   // bytes of offloaded optimizer state; 0 without offload
	// TrafficPerStep is the bytes moved in both directions in one step.
	TrafficPerStep int64 `json:"traffic_per_step"`
}

// Total is what the rank pins.
func (h HostBytes) Total() int64 { return h.Activations + h.Optimizer }

// hostBytes: every offloaded tensor crosses twice a step; of optimizer state the gradients go out in fp32 and the
// parameters come back, in bf16 (memory-model.md 2.5).
func (s *shape) hostBytes(f *figures) HostBytes {
	h := HostBytes{Activations: f.at.host, Optimizer: f.state.host}
	h.TrafficPerStep = 2*f.at.moved*int64(s.l.NumMicrobatches()) + f.state.host/hostBytesPerElement*(4+s.w)
	return h
}
