package topology

// Measured holds what was measured on a platform; everything may be absent. moeplan's own constants are
// fitted to such figures elsewhere (package steptime); these are the evidence.
type Measured struct {
	NCCL      *NCCL      `json:"nccl"`                   // nil: not measured
	GEMM      *GEMM      `json:"gemm_fraction"`          // nil: not measured
	Attention *Attention `json:"attention_fwd_fraction"` // nil: not measured
	Series    []Series   `json:"series"`                 // expert-parallel libraries and others
}

// NCCL is collectives measured inside one node.
type NCCL struct {
	Source string    `json:"source"`
	Fits   []NCCLFit `json:"fits"`
}

// NCCLFit is time = alpha + wire bytes / bus bandwidth, fitted by weighted least squares to messages of at
// least 1 MiB, beside what was measured at three sizes. On machines without NVLink an alpha can be negative:
// the form does not hold there.
type NCCLFit struct {
	Op       string  `json:"op"` // all_gather, reduce_scatter, all_reduce, alltoall
	GPUs     int     `json:"gpus"`
	AlphaUS  float64 `json:"alpha_us"`
	BusGBps  float64 `json:"busbw_gbps"`
	At8MiB   float64 `json:"busbw_8MiB"` // GB/s of bus bandwidth
	At64MiB  float64 `json:"busbw_64MiB"`
	At512MiB float64 `json:"busbw_512MiB"`
}

// GEMM is the fraction of the dense peak that matrix products reach.
type GEMM struct {
	Source string    `json:"source"`
	BF16   Fractions `json:"bf16"`
	FP8    Fractions `json:"fp8"`
	NVFP4  Fractions `json:"nvfp4"`
}

// Fractions are medians over large (both weight dimensions at least 4096) and small (1024 to 4096) shapes.
type Fractions struct {
	Large Figure `json:"large"`
	Small Figure `json:"small"`
}

// Attention is the fraction of the BF16 peak that the causal forward kernel reaches.
type Attention struct {
	Source string           `json:"source"`
	Points []AttentionPoint `json:"points"` // by sequence length, ascending
}

// AttentionPoint is one measured sequence length.
type AttentionPoint struct {
	SeqLength int     `json:"seq_length"`
	Fraction  float64 `json:"fraction"`
}

// Series is a table of measured values whose unit its name says.
type Series struct {
	Name   string  `json:"name"`
	Source string  `json:"source"`
	Note   string  `json:"note"`
	Points []Point `json:"points"`
}

// Point is one entry of a Series.
type Point struct {
	Label string  `json:"label"`
	Value float64 `json:"value"`
}
