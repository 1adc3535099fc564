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
	Source string    `json:"source"` // where it was measured; a key of the catalogue's sources, or plain text
	Fits   []NCCLFit `json:"fits"`   // one of each operation and number of GPUs
}

// NCCLFit is time = alpha + wire bytes / bus bandwidth, fitted by weighted least squares to messages of at
// least 1 MiB, beside what was measured at three sizes. On machines without NVLink an alpha can be negative:
// the form does not hold there.
type NCCLFit struct {
	Op       string  `json:"op"`           // all_gather, reduce_scatter, all_reduce or alltoall
	GPUs     int     `json:"gpus"`         // of one node, that take part
	AlphaUS  float64 `json:"alpha_us"`     // microseconds that a call takes whatever its size
	BusGBps  float64 `json:"busbw_gbps"`   // fitted bus bandwidth, 1e9 bytes a second
	At8MiB   float64 `json:"busbw_8mib"`   // measured with messages of 8 MiB, 1e9 bytes a second of bus bandwidth
	At64MiB  float64 `json:"busbw_64mib"`  // measured with messages of 64 MiB, 1e9 bytes a second of bus bandwidth
	At512MiB float64 `json:"busbw_512mib"` // measured with messages of 512 MiB, 1e9 bytes a second of bus bandwidth
}

// GEMM is the fraction of the dense peak that matrix products reach.
type GEMM struct {
	Source string    `json:"source"` // where it was measured; a key of the catalogue's sources, or plain text
	BF16   Fractions `json:"bf16"`   // of the BF16 peak
	FP8    Fractions `json:"fp8"`    // of the FP8 peak
	NVFP4  Fractions `json:"nvfp4"`  // of the FP4 peak
}

// Fractions are medians over large (both weight dimensions at least 4096) and small (1024 to 4096) shapes.
type Fractions struct {
	Large Figure `json:"large"` // of large shapes, 0 to 1; null if not measured
	Small Figure `json:"small"` // of small shapes, 0 to 1; null if not measured
}

// Attention is the fraction of the BF16 peak that the causal forward kernel reaches.
type Attention struct {
	Source string           `json:"source"` // where it was measured; a key of the catalogue's sources, or plain text
	Points []AttentionPoint `json:"points"` // by sequence length, ascending
}

// AttentionPoint is one measured sequence length.
type AttentionPoint struct {
	SeqLength int     `json:"seq_length"` // tokens
	Fraction  float64 `json:"fraction"`   // of the BF16 peak, 0 to 1
}

// Series is a table of measured values whose unit its name says.
type Series struct {
	Name   string  `json:"name"`   // the table; the unit of its values is part of it
	Source string  `json:"source"` // where it was measured; a key of the catalogue's sources, or plain text
	Note   string  `json:"note"`   // how to read it; "" if there is nothing to say
	Points []Point `json:"points"` // in the source's order
}

// Point is one entry of a Series.
type Point struct {
	Label string  `json:"label"` // what was measured: a shape, a size
	Value float64 `json:"value"` // in the unit that the series' name says; a fraction where it says none
}
