package evidence

import "strings"

// Kind is the axis for which ranks communicate.
type Kind uint8

const (
	KindEP Kind = iota
	KindTP
	KindCP
	KindPP
	KindDP
	KindOther
	numKinds
)

var kindNames = [numKinds]string{"EP", "TP", "CP", "PP", "DP", "other"}

// String is the axis's name; DP includes EDP, TP includes ETP, and other is what no name tells.
func (k Kind) String() string { return kindNames[k] }

// MarshalText writes the name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// class is what an event on the GPU does.
type class uint8

const (
	classCompute class = iota
	classComm
	classCopy
	classGraph // a whole CUDA graph
)

// Operation is what a communication kernel does.
type Operation uint8

const (
	OpOther Operation = iota
	OpAllGather
	OpReduceScatter
	OpAllReduce
	OpSendReceive // all-to-all too: NCCL builds it of sends and receives
	numOperations
)

var operationNames = [numOperations]string{"other", "all-gather", "reduce-scatter", "all-reduce", "send-receive"}

// String is the operation's name.
func (o Operation) String() string { return operationNames[o] }

// MarshalText writes the name.
func (o Operation) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// operationOf reads NCCL's kernel names, such as ncclDevKernel_ReduceScatter_Sum_f32_RING_LL.
func operationOf(lower string) Operation {
	for _, o := range []struct {
		part string
		op   Operation
	}{{"allgather", OpAllGather}, {"all_gather", OpAllGather}, {"reducescatter", OpReduceScatter}, {"reduce_scatter", OpReduceScatter},
		{"allreduce", OpAllReduce}, {"all_reduce", OpAllReduce}, {"sendrecv", OpSendReceive}, {"alltoall", OpSendReceive}, {"all_to_all", OpSendReceive}} {
		if strings.Contains(lower, o.part) {
			return o.op
		}
	}
	return OpOther
}

// namedKernel is what a kernel's name tells.
type namedKernel struct {
	class   class
	kind    Kind // of communication; KindOther if the name does not tell
	feature Feature
	op      Operation
}

// Feature is something that a contract can ask for and a kernel or a runtime call can prove.
type Feature uint8

const (
	NoFeature Feature = iota
	FeatureDeepEP
	FeatureHybridEP
	FeatureNCCL
	FeatureFP8
	FeatureFP4
	FeatureGraphReplay
	FeatureUserBuffers
	numFeatures
)

var featureNames = [numFeatures]string{"", "deepep", "hybridep", "nccl", "fp8-gemm", "fp4-gemm", "graph-replay", "userbuffers"}

// String is the name under which a Trace counts it.
func (f Feature) String() string { return featureNames[f] }

// kernelNames tell communication by parts of a kernel's name in lower case; the first that matches holds. What matches none
// computes.
var kernelNames = []struct {
	part   string
	named  namedKernel
	source string
}{
	{"deep_ep::", namedKernel{class: classComm, kind: KindEP, feature: FeatureDeepEP}, "deepseek-ai/DeepEP csrc/kernels: deep_ep::intranode::dispatch, internode::combine, ..."},
	{"hybrid_ep::", namedKernel{class: classComm, kind: KindEP, feature: FeatureHybridEP}, "deepseek-ai/DeepEP hybrid-ep: hybrid_ep::dispatch_kernel, combine_kernel, device_sync_kernel"},
	{"nccldevkernel", namedKernel{class: classComm, kind: KindOther, feature: FeatureNCCL}, "NCCL from 2.19: ncclDevKernel_AllReduce_Sum_bf16_RING_LL"},
	{"ncclkernel", namedKernel{class: classComm, kind: KindOther, feature: FeatureNCCL}, "NCCL before 2.19, RCCL"},
	{"ncclsym", namedKernel{class: classComm, kind: KindOther, feature: FeatureNCCL}, "NCCL from 2.27, symmetric memory"},
	{"nccl:", namedKernel{class: classComm, kind: KindOther, feature: FeatureNCCL}, "NCCL operations as some traces name them"},
	{"userbuffers", namedKernel{class: classComm, kind: KindTP, feature: FeatureUserBuffers}, "TransformerEngine comm_gemm_overlap userbuffers kernels"},
	{"nvshmem", namedKernel{class: classComm, kind: KindOther, feature: NoFeature}, "NVSHMEM's own kernels"},
	{"multimem_all", namedKernel{class: classComm, kind: KindTP, feature: NoFeature}, "PyTorch symmetric memory collectives"},
}

// nameKernel reads a kernel's name.
func nameKernel(name string) namedKernel {
	lower := strings.ToLower(name)
	for i := range kernelNames {
		if strings.Contains(lower, kernelNames[i].part) {
			named := kernelNames[i].named
			named.op = operationOf(lower)
			return named
		}
	}
	return namedKernel{feature: gemmFeature(lower)}
}

// gemmFeature tells matrix products in FP8 and FP4 by the operand types in the names that cuBLASLt and CUTLASS give; casts
// and quantisation alone prove no product.
func gemmFeature(lower string) Feature {
	product := strings.Contains(lower, "gemm") || strings.Contains(lower, "nvjet") || strings.Contains(lower, "cutlass") || strings.Contains(lower, "xmma")
	if !product || strings.Contains(lower, "quantize") {
		return NoFeature
	}
	for _, part := range []string{"e2m1", "nvfp4", "fp4"} {
		if strings.Contains(lower, part) {
			return FeatureFP4
		}
	}
	for _, part := range []string{"e4m3", "e5m2", "fp8", "nvjet_qq", "nvjet_sm100_qq"} {
		if strings.Contains(lower, part) {
			return FeatureFP8
		}
	}
	return NoFeature
}

// groupKinds tell an axis by the description that Megatron gives a process group (NVIDIA/Megatron-LM@d98e8a64dd
// megatron/core/parallel_state.py, group_desc), and by the names of PyTorch's device meshes. Order matters: parts of other
// names come later.
var groupKinds = []struct {
	part string
	kind Kind
}{
	{"EXPERT_DATA_PARALLEL", KindDP},
	{"EXPERT_TENSOR_AND_MODEL_PARALLEL", KindEP}, // the dispatcher's group
	{"EXPERT_TENSOR_MODEL_PIPELINE", KindOther},
	{"EXPERT_TENSOR_PARALLEL", KindTP},
	{"EXPERT_MODEL_PARALLEL", KindEP},
	{"TENSOR_AND_DATA_PARALLEL", KindOther},
	{"TENSOR_AND_CONTEXT_PARALLEL", KindOther},
	{"PIPELINE_MODEL_PARALLEL", KindPP},
	{"TENSOR_MODEL_PARALLEL", KindTP},
	{"CONTEXT_PARALLEL_GROUP", KindCP},
	{"DATA_PARALLEL_GROUP", KindDP},
	{"DISTRIBUTED_OPTIMIZER_INSTANCE", KindDP},
	{"HYBRID_DP_CP", KindCP},
	{"mesh_ep", KindEP}, {"mesh_tp", KindTP}, {"mesh_cp", KindCP}, {"mesh_pp", KindPP}, {"mesh_dp", KindDP}, {"mesh_fsdp", KindDP},
}

// groupKind reads a group's description; ok is false for one that tells nothing.
func groupKind(description string) (Kind, bool) {
	if description == "" || description == "default_pg" || description == "undefined" {
		return KindOther, false
	}
	for _, g := range groupKinds {
		if strings.Contains(description, g.part) {
			return g.kind, g.kind != KindOther
		}
	}
	return KindOther, false
}

// collectiveKind guesses an axis by the operation, where no group is named: tokens go by all-to-all, pipeline stages by send
// and receive. Context parallelism does both too, which is why a Trace counts these guesses.
func collectiveKind(name string) (Kind, bool) {
	switch lower := strings.ToLower(name); {
	case strings.Contains(lower, "all_to_all"), strings.Contains(lower, "alltoall"):
		return KindEP, true
	case strings.HasPrefix(lower, "send"), strings.HasPrefix(lower, "recv"), strings.HasPrefix(lower, "nccl:send"), strings.HasPrefix(lower, "nccl:recv"):
		return KindPP, true
	}
	return KindOther, false
}

// rangeKind reads the name of a range on the GPU's timeline (record_function): dispatch and combine of tokens, steps of the
// pipeline, attention over context; else the operation guesses.
func rangeKind(name string) axis {
	lower := strings.ToLower(name)
	for _, r := range []struct {
		part string
		kind Kind
	}{
		{"dispatch", KindEP}, {"combine", KindEP}, {"send_forward", KindPP}, {"recv_forward", KindPP}, {"send_backward", KindPP},
		{"recv_backward", KindPP}, {"cp_ring", KindCP}, {"context_parallel", KindCP}, {"grad_reduce", KindDP}, {"param_gather", KindDP},
		{"param_sync", KindDP}, {"grad_sync", KindDP},
	} {
		if strings.Contains(lower, r.part) {
			return axis{r.kind, true, false}
		}
	}
	kind, ok := collectiveKind(name)
	return axis{kind, ok, true}
}
