package memmodel

// Every figure of this package that is not derived from shapes: measured, published or assumed, with its
// source. Formulas elsewhere refer to these by name.

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
)

const (
	// activationBytes is the size of one activation element in bf16 or fp16.
	activationBytes = 2

	// routerBytesPerEntry is what the router keeps per (token, expert): scores, auxiliary scores, their
	// normalisation, the routing map and probabilities. 13 to 17 by code (unfused fp32 sigmoid with auxiliary
	// loss); 15 closes the DeepSeek slices of the SimuMax set (memory-model.md 3.4). FITTED: SimuMax B200 v1.2.
	routerBytesPerEntry = 15

	// tokenInputBytes is ids (8), labels (8), positions (8), loss mask (4) and the shifted copy per token of the
	// batch on the GPU: about 5 int64 values a token (memory-findings.md C8).
	tokenInputBytes = 40

	// groupedGEMMStreams is how many cuBLAS streams TE's grouped GEMM keeps a workspace for
	// (NVIDIA/TransformerEngine transformer_engine/pytorch/cpp_extensions, get_num_cublas_streams).
	groupedGEMMStreams = 4

	// moeForwardHiddenTensors is the number of hidden-size tensors that live beside the dispatched copies at
	// the forward peak of a MoE layer: the shared expert's output and one more. The second is FITTED to the
	// SimuMax B200 v1.2 set (memory-model.md 3.7).
	moeForwardHiddenTensors = 2
)

// Overheads outside and around the allocator (memory-model.md 7.2 and 7.4). They are ranges: the lower
// figure is the least seen, the upper one the most that is common.
const (
	// reservedLow and reservedHigh multiply the allocated peak to give what the caching allocator holds.
	// Measured on B200 without expandable segments: 152 ranks, minimum 1.007, 90th percentile 1.073
	// (SimuMax docs/b200/b200_release_v1.2_summary.json).
	reservedLow, reservedHigh = 1.007, 1.073

	// contextLow and contextHigh are the CUDA context and loaded modules (memory-model.md 7.2, assumed).
	contextLow, contextHigh = 400 * mib, 700 * mib

	// ncclLow and ncclHigh are NCCL's buffers without an all-to-all (memory-model.md 10 item 6, assumed),
	// allToAllHigh what a first all_to_all over 8 NVLink peers adds: 4.34 GB in all were reported
	// (NVIDIA/nccl issue 1685), of which 1.06 GB existed before.
	ncclLow, ncclHigh = 500 * mib, 1536 * mib
	allToAllHigh      = 3 * gib
)

// teWorkspace is TE's cuBLAS workspace: 4 MiB before Hopper, 32 MiB since (memory-findings.md C1).
func teWorkspace(sm int) int64 {
	if sm >= 90 {
		return 32 * mib
	}
	return 4 * mib
}

// torchWorkspace is PyTorch's own cuBLAS workspace per thread that runs a GEMM: 8.125 MiB on sm80, 32 MiB on
// sm90 and, in containers of 2026, on sm100 (memory-findings.md C1).
func torchWorkspace(sm int) int64 {
	if sm >= 90 {
		return 32 * mib
	}
	return 8*mib + 128*kib
}
