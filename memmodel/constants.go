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

// What the caching allocator reserves over what is allocated, as factors. Without expandable segments: 152 ranks on B200
// (SimuMax docs/b200/b200_release_v1.2_summary.json), minimum 1.007, dense up to 1.065, MoE with padded experts up to
// 1.075, long sequences with CP up to 1.093; dropless MoE, whose shapes change, is ASSUMED at 1.15 (memory-model.md 7.4
// names 1.1 to 1.2). With them 1.01 to 1.02 (memory-model.md 7.4, not verified).
const (
	reservedLow           = 1.007
	reservedDense         = 1.065
	reservedPaddedExperts = 1.075
	reservedLongContext   = 1.093
	reservedDropless      = 1.15
	expandableLow         = 1.0
	expandableHigh        = 1.02
)

// Outside the allocator.
const (
	// contextLow and contextHigh are the CUDA context and loaded modules (memory-model.md 7.2, ASSUMED; 0.52 GiB in
	// mlc-ai/pith-train pull request 18).
	contextLow, contextHigh = 400 * mib, 700 * mib

	// A ring communicator's buffers: at least a few channels; 544 MB were seen for two ranks, 688 MB for more (NVIDIA/nccl
	// issue 964, A100).
	ringLow, ringHigh = 64 * mib, 656 * mib
	// networkHigh is what the first communicator over several nodes costs in all: 1.6 GB (NVIDIA/nccl issue 864).
	networkHigh = 1526 * mib
	// peerHigh is what one more peer in the NVLink domain costs an all-to-all: 4.34 - 1.06 GB for seven (NVIDIA/nccl issue
	// 1685); peerLow with p2p channels limited to two. remotePeerHigh is ASSUMED: two channels of 10 + 2 MiB. The figure is
	// of a box of peerDomain GPUs. Nobody has reported one of a larger domain; the peers beyond are ASSUMED to cost what remote
	// ones do, because 63 times the figure would be 27 GiB.
	peerLow, peerHigh, remotePeerHigh = 28 * mib, 446 * mib, 24 * mib
	peerDomain                        = 8

	// defaultDomain is the NVLink domain of a run that does not say.
	defaultDomain = 8

	// DeepEP's buffers: 20 SMs by default make 10 channels (memory-model.md 7.2; deepseek-ai/DeepEP csrc/config.hpp).
	deepEPChannels = 10
	deepEPTokens   = 128 // of one RDMA channel

	// yarnContext is --original-max-position-embeddings, for which latent attention's cosines and sines are made.
	yarnContext = 4096

	// graphIO is how many hidden-size tensors a captured layer's static input and output take for each micro-batch slot.
	graphIO = 2
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
