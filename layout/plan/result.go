package plan

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology/steptime"
)

// Result is the answer to a Request.
type Result struct {
	Request Echo `json:"request"` // the question, complete: what was given and what was assumed
	// Assumed holds the values that the caller did not give, by name.
	Assumed  map[string]string `json:"assumed"`
	Searched Searched          `json:"searched"` // what was looked at, and what cut the rest
	// Plans are the best plan of each pair of meshes that fits, best first.
	Plans []Plan `json:"plans"`
	// Pareto is the front of time against memory, fastest first; empty unless asked for.
	Pareto []Point `json:"pareto"`
	// NearestMiss is set when nothing fits.
	NearestMiss *Miss `json:"nearest_miss"`
	// Folding compares with the best layout that does not fold; nil when the search did not look.
	Folding *Unfolded `json:"without_folding"`
	// Base is where a layout that the caller has stands; absent unless asked for. See CompareBase.
	Base *Base `json:"base,omitempty"`
	// BF16Gradients says what reducing gradients in bf16 would buy; "" if nothing worth saying.
	BF16Gradients string `json:"with_bf16_gradients"`
	// Notes say what is outside the measured domain.
	Notes []string `json:"notes"`
}

// Assumes reports whether a value was filled in rather than given.
func (r *Result) Assumes(name string) bool {
	_, ok := r.Assumed[name]
	return ok
}

// Echo repeats the question, with every default filled in.
type Echo struct {
	Model            string  `json:"model"`             // name in the catalogue, or that of the model file
	ParametersTotal  int64   `json:"parameters_total"`  // elements, MTP layers not counted
	ParametersActive int64   `json:"parameters_active"` // elements that a token meets
	Platform         string  `json:"platform"`          // kind of GPU
	GPUs             int     `json:"gpus"`              // number of GPUs
	SeqLength        int     `json:"seq_length"`        // tokens
	GlobalBatchSize  int     `json:"global_batch_size"` // sequences a step
	Precision        string  `json:"precision"`         // bf16, fp16, fp8-tensorwise, fp8-blockwise, mxfp8 or nvfp4
	Gradients        string  `json:"main_grads_dtype"`  // fp32, bf16 or fp16
	Moments          string  `json:"exp_avg_dtype"`     // of Adam's moments: fp32 or bf16
	Offload          Offload `json:"offload"`           // "" for none
	Imbalance        float64 `json:"imbalance"`         // load of the fullest expert rank over the mean
	MemoryGiB        float64 `json:"memory_gib"`        // what the driver offers
	HeadroomGiB      float64 `json:"headroom_gib"`      // what must stay free: above what the card sees if it was given, else above the allocated peak
	ReserveGiB       float64 `json:"reserve_gib"`       // taken by something else on the GPU
	NVLinkDomain     int     `json:"nvlink_domain"`     // GPUs joined by NVLink; 0 if unknown
	GPUsPerNode      int     `json:"gpus_per_node"`     // GPUs that one host holds
	// Given are the figures of the platform that the caller replaced, by their keys in moeplan platforms -o json.
	Given     map[string]float64 `json:"given_figures"`
	OrderedBy string             `json:"ordered_by"` // what the plans are ordered by
	// Factors are what the times of four parts of a step are multiplied by; nil without a calibration.
	Factors *steptime.Factors `json:"calibration,omitempty"`
	// TrainableFraction is the share of the parameters that is trained.
	TrainableFraction float64 `json:"trainable_fraction"`
	// ModelDigest and PlatformDigest tell whether another catalogue means the same by their names. ModelSpec and
	// PlatformSpec are those that no catalogue holds, so that the answer can be used without the files they came from.
	ModelDigest    string        `json:"model_digest"`
	PlatformDigest string        `json:"platform_digest"`
	ModelSpec      *arch.Model   `json:"model_spec,omitempty"`
	PlatformSpec   *PlatformSpec `json:"platform_spec,omitempty"`
}

// Searched says what was looked at and what cut the rest.
type Searched struct {
	Meshes         int            `json:"meshes"`           // pairs of meshes with at least one legal layout
	Layouts        int            `json:"layouts"`          // combinations counted, cut ones included
	Legal          int            `json:"legal"`            // layouts that break no rule
	Fit            int            `json:"fit"`              // legal ones that fit
	Excluded       int            `json:"excluded"`         // legal ones that the condition left out
	FitMeshes      int            `json:"fit_meshes"`       // pairs of meshes with a layout that fits
	RejectedByRule map[string]int `json:"rejected_by_rule"` // layouts that each rule cut, by its name
	NotSearched    []string       `json:"not_searched"`     // what was left out
	Seconds        float64        `json:"seconds"`          // that the search took
}

// Plan is a layout with its price.
type Plan struct {
	Rank int `json:"rank"` // 1 is the first
	// EqualToBest says that the model cannot tell this plan's time from the best one's.
	EqualToBest bool          `json:"equal_to_best"`
	Key         string        `json:"key"` // the layout's text form, which every command takes
	Layout      layout.Layout `json:"-"`
	Sizes       Sizes         `json:"layout"` // degrees and batch
	Stages      []Stage       `json:"stages"` // one for each pipeline rank
	Grade       Grade         `json:"grade"`  // whether a first run fits
	// HeadroomGiB is what the card keeps free above the allocated peak of the worst stage.
	HeadroomGiB float64 `json:"headroom_gib"`
	// TunedGrade judges the tuned state: the flex dispatcher's buffers, the tensors of overlapped micro-batches, graph
	// pools. TunedPeak is its allocated peak, TunedCard what the card then sees.
	TunedGrade Grade    `json:"tuned_grade"`
	TunedPeak  int64    `json:"tuned_peak_allocated"`
	TunedCard  [2]int64 `json:"tuned_peak_device"`
	// HostBytes is what the fullest rank keeps in host memory; 0 without offload.
	HostBytes int64 `json:"host_bytes"`
	// MaxImbalance is the routing imbalance of one layer up to which the plan still fits; null for dense models, and where
	// it does not fit as asked.
	MaxImbalance *float64 `json:"max_imbalance"`

	StepTimeMS     float64    `json:"step_time_ms"`              // of a first run: eager, with the dispatcher and overlap that the layout names
	StepSoftware   string     `json:"step_time_software"`        // the dispatcher and overlap that step_time_ms has
	StepTimeBand   [2]float64 `json:"step_time_band"`            // from, to: ms
	TunedTimeMS    float64    `json:"tuned_step_time_ms"`        // with the usual switches on
	TunedSoftware  string     `json:"tuned_software"`            // those switches
	TFLOPSPerGPU   float64    `json:"tflops_per_gpu"`            // of step_time_ms, counted as Megatron does
	TokensPerGPU   float64    `json:"tokens_per_second_per_gpu"` // of step_time_ms
	NVLinkFraction *float64   `json:"nvlink_fraction"`           // share of TP, CP and EP bytes inside the domain; null when there are none
	ExposedMS      float64    `json:"exposed_communication_ms"`  // part of step_time_ms
	// TimeParts add up to StepTimeMS and TunedTimeMS.
	TimeParts     []TimePart `json:"step_time_parts"`
	Communication []Traffic  `json:"communication"` // one for each axis that sends something
	Wall          string     `json:"wall"`          // what bounds the step
	// PublishedTwin is the nearest published layout; null where the model was not published on that GPU kind.
	PublishedTwin *Twin    `json:"published_twin"`
	WorstStage    int      `json:"worst_pipeline_rank"`  // whose peak is largest
	CheckPeak     int64    `json:"check_peak_allocated"` // bytes that stage allocates in a check (CheckRun)
	CheckStage    int      `json:"check_pipeline_rank"`  // whose peak is largest of those that a fake process group can impersonate
	Notes         []string `json:"notes"`                // what is outside the measured domain
	Why           []string `json:"why"`                  // reasons in words
}

// TimePart is one part of the step: compute, host (launches and syncs), the exposed communication of one axis, bubble
// (pipeline fill and drain), or optimizer.
type TimePart struct {
	Part string `json:"part"` // compute, host, communication, bubble or optimizer
	// Axis is that of exposed communication, "" for the other parts.
	Axis    string  `json:"axis"`
	MS      float64 `json:"ms"`       // of a first run
	TunedMS float64 `json:"tuned_ms"` // with the usual switches on
}

// Sizes are a plan's degrees and batch under Megatron's names.
type Sizes struct {
	TP              int    `json:"tensor_model_parallel_size"`           // TP
	CP              int    `json:"context_parallel_size"`                // CP
	DP              int    `json:"data_parallel_size"`                   // DP
	PP              int    `json:"pipeline_model_parallel_size"`         // PP
	VPP             int    `json:"virtual_pipeline_model_parallel_size"` // VPP: chunks of a pipeline rank, 1 without interleaving
	ETP             int    `json:"expert_tensor_parallel_size"`          // ETP
	EP              int    `json:"expert_model_parallel_size"`           // EP
	EDP             int    `json:"expert_data_parallel_size"`            // EDP
	MicroBatchSize  int    `json:"micro_batch_size"`                     // MBS, sequences
	GlobalBatchSize int    `json:"global_batch_size"`                    // GBS, sequences
	NumMicrobatches int    `json:"num_microbatches"`                     // of a step, on a pipeline
	Recompute       string `json:"recompute"`                            // none, full, or modules with commas
	PipelineLayout  string `json:"pipeline_model_parallel_layout"`       // "" when Megatron's even split is the same
}

// Stage is one pipeline rank of a plan.
type Stage struct {
	PipelineRank int         `json:"pipeline_rank"` // from 0
	Layers       [][]int     `json:"layers"`        // 1-based decoder layers per chunk
	Embedding    bool        `json:"embedding"`     // it holds the word embedding
	OutputLayer  bool        `json:"output_layer"`  // it holds the output layer and the loss
	MTPLayers    int         `json:"mtp_layers"`    // MTP layers that it holds
	Parameters   StageParams `json:"parameters"`    // of one of its ranks
	Memory       Memory      `json:"memory"`        // of one of its ranks
}

// StageParams counts the elements on one rank.
type StageParams struct {
	Dense  int64 `json:"dense"`  // elements outside experts
	Expert int64 `json:"expert"` // elements of experts
	Total  int64 `json:"total"`  // both
}

// Memory is a stage's bytes at its peak.
type Memory struct {
	Weights            int64 `json:"weights"`              // bytes of parameters
	Gradients          int64 `json:"gradients"`            // bytes of main gradients
	Optimizer          int64 `json:"optimizer"`            // bytes of master weights and moments
	Workspace          int64 `json:"workspace"`            // bytes of cuBLAS and the like
	Activations        int64 `json:"activations"`          // bytes of saved tensors in flight at the peak
	Transient          int64 `json:"transient"`            // bytes that the running layer needs for a moment
	DenseState         int64 `json:"dense_state"`          // bytes of weights, gradients and optimizer outside experts
	ExpertState        int64 `json:"expert_state"`         // bytes of weights, gradients and optimizer of experts
	AllocatedAfterStep int64 `json:"allocated_after_step"` // bytes that live between two steps
	PeakAllocated      int64 `json:"peak_allocated"`       // torch.cuda.max_memory_allocated, bytes
	PeakReserved       int64 `json:"peak_reserved"`        // what the allocator holds of the card, bytes
	PeakDevice         int64 `json:"peak_device"`          // what the card shows, upper end of the range, bytes
	PeakDeviceLow      int64 `json:"peak_device_low"`      // what the card shows, lower end of the range, bytes
}

// Traffic is what one axis sends in a step, per rank.
type Traffic struct {
	Axis          string  `json:"axis"`                 // tp, cp, ep, etp, pp, dp or edp
	GroupSize     int     `json:"group_size"`           // ranks
	Domains       int     `json:"domains"`              // NVLink domains that the worst group spans
	Bytes         int64   `json:"bytes"`                // that a rank sends
	BytesCrossing int64   `json:"bytes_leaving_domain"` // of them out of its NVLink domain
	TimeMS        float64 `json:"time_ms"`              // as if nothing were hidden
	ExposedMS     float64 `json:"exposed_ms"`           // what no compute hides
}

// Miss is the legal layout that comes nearest to fitting.
type Miss struct {
	Key            string `json:"key"`             // its text form
	Stage          int    `json:"pipeline_rank"`   // whose peak is over
	Component      string `json:"component"`       // the largest part of that stage
	ComponentBytes int64  `json:"component_bytes"` // of that part
	OverBytes      int64  `json:"over_bytes"`      // beyond the limit
	PeakBytes      int64  `json:"peak_allocated"`  // of that stage, bytes
	LimitBytes     int64  `json:"limit"`           // of the allocated peak, before its range is looked at
	// Remedies are changes that would make it fit, cheapest first.
	Remedies []Remedy `json:"remedies"`
	// SmallestGPUs is the fewest GPUs, in whole nodes, on which something fits; null when none was found.
	SmallestGPUs *int    `json:"smallest_gpus"`
	SmallestKey  *string `json:"smallest_key"` // that layout in text form; null without one
}

// Remedy is one change to the question and the layout that then fits.
type Remedy struct {
	Change string `json:"change"` // in words
	Cost   string `json:"cost"`   // what it costs, in words
	Key    string `json:"key"`    // the layout that then fits
}

// Unfolded is the best layout whose experts are parallel within data parallelism only.
type Unfolded struct {
	Key        string  `json:"key"`          // its text form
	StepTimeMS float64 `json:"step_time_ms"` // of a first run
	// SlowerBy is its time over the best plan's, less one; null if none fits.
	SlowerBy *float64 `json:"slower_by"`
}
