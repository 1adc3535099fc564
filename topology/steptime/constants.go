package steptime

// Every number of this package that does not follow from shapes or counting is in this file.
//
// measured   read from a kernel benchmark of the named source
// published  a manufacturer's or upstream project's statement
// fitted     chosen to agree with whole-step measurements of a named set
// assumed    nobody has measured it; the value is what the notes argue for
//
// The fitted set is [Calibration]. Fitting: 31 constants with informative priors, soft-L1 loss on the log of
// the step time (comm-model section 5.2; the values are its fitted.json).

// Calibration names the measurements that the fitted constants were fitted to.
const Calibration = "84 published step times, H100 B200 B300 GB200 GB300, BF16 and FP8, 2025 to 2026 " +
	"(NVIDIA Megatron-Bridge performance summaries and skills 067f987df, Megatron-MoE-ModelZoo best practice, " +
	"Megatron-Core DeepSeek-V3 on GB200 guide, SimuMax B200 v1.2); forced-balance routing"

// family is what GPUs of one architecture share.
type family struct {
	dense   float64 // achieved part of the measured dense GEMM fraction; fitted
	grouped float64 // grouped GEMM over the measured dense GEMM fraction, large M; fitted
	attn    float64 // achieved part of the measured attention fraction; fitted
	memory  float64 // time factor of memory-bound kernels over bytes/(0.8 HBM); fitted
	fp8     float64 // factor on fp8Gain; fitted
	quant   float64 // memory-bound time under FP8 over BF16: quantisation kernels; fitted
	host    float64 // s, launch floor of an eager MoE layer, forward and backward; fitted
	gap     float64 // s, drained queue of an eager MoE layer (syncs), forward and backward; fitted

	// FP8 over BF16 speed of one GEMM: 1 + (gainMax-1) x^2/(x^2+gainHalf^2), x its smallest dimension.
	// Shape fitted by hand to medians measured by aiconfigurator (comm-model 4.2).
	gainMax, gainHalf float64
	// attnKnee is the sequence length at which attention reaches half its asymptotic fraction;
	// by hand to medians measured by aiconfigurator (comm-model 4.2).
	attnKnee float64
	// gainMaxFP4 is gainMax for NVFP4; by hand to six published dense runs, Llama 3 70B and 3.1 405B on GB200 and GB300, which
	// NVFP4 makes 1.32 to 1.49 times as fast as MXFP8 (Megatron-Bridge performance summaries 26.02.01 to 26.06). No MoE was
	// measured. 0: the GPUs have no such format.
	gainMaxFP4 float64
}

var (
	hopper = family{
		dense: 0.901083861627612, grouped: 0.7874395636071095, attn: 0.8067543053040162,
		memory: 0.7181740327002585, fp8: 0.9911908302509375, quant: 1.8027376974775537,
		host: 2214.523028844912e-6, gap: 1132.4449051161814e-6,
		gainMax: 1.7, gainHalf: 3000, attnKnee: 1500,
	}
	blackwell = family{
		dense: 0.7485781084862531, grouped: 0.8126472894090122, attn: 0.8543735122429746,
		memory: 1.0985698063181584, fp8: 1.1780858000937688, quant: 1.2003998053825464,
		host: 2612.923373597975e-6, gap: 785.5872334231811e-6,
		gainMax: 1.95, gainHalf: 2000, attnKnee: 2800, gainMaxFP4: 4.2,
	}
)

// chip is what one GPU kind adds to its family.
type chip struct {
	gemm     float64 // fraction of the BF16 peak of a large GEMM; measured (aiconfigurator, median of m >= 4096)
	attn     float64 // asymptotic fraction of causal attention forward; measured (aiconfigurator), extrapolated
	family   *family
	anchored bool // the fitted set contains step times of this kind
}

// chipOf returns the constants of a platform by its catalogue name. Kinds without measurements borrow those
// of H100, or of B200 when their architecture is Blackwell, and say so through anchored.
func chipOf(id, architecture string) chip {
	switch id {
	case "h100":
		return chip{0.78, 0.85, &hopper, true}
	case "b200":
		return chip{0.65, 0.76, &blackwell, true}
	case "b300":
		return chip{0.67, 0.95, &blackwell, true}
	case "gb200", "gb200-nvl36": // the same GPU; the rack sizes differ
		return chip{0.62, 0.74, &blackwell, true}
	case "gb300":
		return chip{0.74, 0.98, &blackwell, true}
	}
	switch architecture {
	case "blackwell", "blackwell-ultra":
		return chip{0.65, 0.76, &blackwell, false}
	}
	return chip{0.78, 0.85, &hopper, false}
}

// Kernels.
const (
	hbmAchieved = 0.8 // of nominal HBM bandwidth by streaming kernels; assumed (comm-model 4.2)

	gemmDimHalf = 200.0 // smallest GEMM dimension at half speed; by hand to aiconfigurator medians
	gemmRowHalf = 300.0 // rows at half speed; the same

	groupedRowHalf      = 236.62111838473376 // M0: tokens per expert at half speed, forward and dgrad; fitted (SimuMax B200 forward: 200)
	groupedRowHalfWgrad = 2.2                // times M0 for wgrad; measured (SimuMax B200)
	groupedRowHalfFP8   = 1.6                // times M0 under FP8; assumed
	groupedDimHalf      = 350.0              // min(h, f/ETP) at half speed; by hand to aiconfigurator fused MoE, H100

	attnHeadHalf    = 6.0                // heads*sequences per rank at half speed; by hand to aiconfigurator (H100, 8 against 64 heads)
	attnHeadTokens  = 4096.0             // sequence that counts as one such unit; the same
	attnBackward    = 2.5                // backward over forward FLOPs of flash attention: counting
	attnSmallHead   = 0.6                // factor for head dimension <= 64; assumed (explains GPT-OSS only in part)
	permuteUnfused  = 3.0                // times the permute's memory traffic without --moe-permute-fusion; assumed
	normRecompute   = 0.25               // share of the attention side's memory time that layernorm recompute repeats; assumed (comm-model 4.6)
	actRecompute    = 0.3                // share of the MoE memory time that moe_act recompute repeats; assumed (comm-model 4.6)
	crossEntropy    = 20.0               // bytes per token and vocabulary entry of the loss, forward and backward; counting
	groupedSince26  = 1.2774145681864004 // grouped GEMM speed of fused kernels, Megatron-Bridge 26.06 and later; fitted
	memorySince26   = 0.6859455025913065 // memory-bound time factor of the same; fitted
	optimizerPerPar = 30                 // bytes of HBM traffic per parameter of the optimizer's shard: fp32 master, moments, gradients; counting (comm-model 4.5)
	fixedTail       = 20e-3              // s per step: gradient norm, scalar syncs, logging; assumed
)

// Host side of one layer, scaled by how much of it CUDA graphs replay: none, router and preprocess, attention
// too, the full iteration. By hand to Megatron-Bridge graph ablations (comm-model 4.3).
var (
	hostScale = [...]float64{1, 0.75, 0.5, 0.08}
	gapScale  = [...]float64{1, 0.8, 0.55, 0.1}
)

const (
	denseHost = 0.4 // of a MoE layer's floor; assumed (comm-model 4.3: 0.3 to 0.4)
	denseGap  = 0.3 // the same
	// A mixer without feedforward, as hybrid patterns have them; assumed: less than a dense layer.
	mixerHost = 0.3
	mixerGap  = 0.15

	// linearScan is the achieved part of the measured GEMM fraction in the scan of a Mamba or gated delta net layer, short
	// products over small states; by hand to twelve published steps of Nemotron 3 and Qwen3-Next on Blackwell and Hopper
	// (Megatron-Bridge performance summaries 26.02 to 26.08), which come out 0 to 30 % too fast.
	linearScan = 0.05
)

// Links: achieved part of the nominal rate of one direction, per GPU.
const (
	ringNVLink = 0.6155566225383672 // fitted; NCCL measures 0.68 to 0.75 at 512 MiB
	ringNIC    = 0.7400158451129547 // fitted
	p2pNVLink  = 0.6                // assumed

	a2aNVLink      = 0.4722344545409136  // fitted
	a2aNIC         = 0.8444526500361271  // fitted
	deepEPNVLink   = 0.47373327337582627 // fitted
	hybridEPNVLink = 0.7549779996019933  // fitted
	flexNIC        = 0.9015668803516088  // fitted; kernels reach 43 of 50 GB/s (DeepEP docs)

	ringLatency = 15e-6                // s per ring collective; measured on one node (aiconfigurator, 11 to 22 us)
	p2pLatency  = 20e-6                // s per pipeline hop; assumed
	epLatency   = 56.58827729781719e-6 // s per dispatch or combine, metadata and notify included; fitted
	etpLatency  = ringLatency
)

// Exposure: which part of a communication is not hidden.
const (
	tpExposed        = 1.0378706615882034 // TP collectives without tp_comm_overlap; fitted
	tpExposedOverlap = 0.3                // with it; assumed (comm-model 1.1: one of four pieces stays, 0.25 to 0.35)
	cpExposed        = 0.15               // ring attention; assumed (comm-model 1.5)
	p2pVPP           = 0.15               // per chunk of an interleaved pipeline, against 1 without; assumed (comm-model 1.7)

	epHidden      = 0.5804980438149576  // of EP time under --overlap-moe-expert-parallel-comm; fitted
	epHiddenDelay = 0.14604158703461217 // more with --delay-wgrad-compute; fitted
	epHiddenCap   = 0.8                 // of compute, at most that much EP time hides; assumed (comm-model 1.4)

	// DP and EDP collectives under --overlap-grad-reduce and --overlap-param-gather. The first belongs to flat
	// rings and is of the common fit. The second belongs to two-level collectives (Corrections.HierarchicalDP):
	// fitted for this package to the 82 points of the same set that overlap, all corrections on, other
	// constants fixed, soft-L1 on log step time centred in each (model, GPU, precision, kernel era) group so that
	// a model's own bias does not enter. The optimum is flat: 0.3 costs 4 % more loss, 0.8 5 % more.
	dpExposedFlat         = 0.32275743154755393
	dpExposedHierarchical = 0.52

	// averageImbalance is the slowest stage over the mean of a hand-balanced pipeline; assumed. Used only with
	// Corrections.ExactSplit off.
	averageImbalance = 1.04
)

// Accuracy of the whole (comm-model 5.2, 5.4).
const (
	bandHalfWidth   = 0.15 // one in ten of the 84 points is off by more than 0.17
	distinguishable = 0.05
)
