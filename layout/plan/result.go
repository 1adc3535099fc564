package plan

import (
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology/steptime"
)

// Result is the answer to a Request.
type Result struct {
	Request Echo `json:"request"`
	// Assumed holds the values that the caller did not give, by name.
	Assumed  map[string]string `json:"assumed"`
	Searched Searched          `json:"searched"`
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
	Model            string  `json:"model"`
	ParametersTotal  int64   `json:"parameters_total"`
	ParametersActive int64   `json:"parameters_active"`
	Platform         string  `json:"platform"`
	GPUs             int     `json:"gpus"`
	SeqLength        int     `json:"seq_length"`
	GlobalBatchSize  int     `json:"global_batch_size"`
	Precision        string  `json:"precision"`
	Gradients        string  `json:"main_grads_dtype"`
	Moments          string  `json:"exp_avg_dtype"`
	Offload          Offload `json:"offload"` // "" for none
	Imbalance        float64 `json:"imbalance"`
	MemoryGiB        float64 `json:"memory_gib"`   // what the driver offers
	HeadroomGiB      float64 `json:"headroom_gib"` // what must stay free: above what the card sees if it was given, else above the allocated peak
	ReserveGiB       float64 `json:"reserve_gib"`
	NVLinkDomain     int     `json:"nvlink_domain"`
	GPUsPerNode      int     `json:"gpus_per_node"`
	// Given are the figures of the platform that the caller replaced, by their keys in moeplan platforms -o json.
	Given     map[string]float64 `json:"given_figures"`
	OrderedBy string             `json:"ordered_by"`
	// Factors multiply the times of parts of a step; nil without a calibration.
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
	Meshes         int            `json:"meshes"`  // pairs of meshes with at least one legal layout
	Layouts        int            `json:"layouts"` // combinations counted, cut ones included
	Legal          int            `json:"legal"`
	Fit            int            `json:"fit"`
	Excluded       int            `json:"excluded"` // legal ones that the condition left out
	FitMeshes      int            `json:"fit_meshes"`
	RejectedByRule map[string]int `json:"rejected_by_rule"`
	NotSearched    []string       `json:"not_searched"`
	Seconds        float64        `json:"seconds"`
}

// Plan is a layout with its price.
type Plan struct {
	Rank int `json:"rank"`
	// EqualToBest says that the model cannot tell this plan's time from the best one's.
	EqualToBest bool          `json:"equal_to_best"`
	Key         string        `json:"key"`
	Layout      layout.Layout `json:"-"`
	Sizes       Sizes         `json:"layout"`
	Stages      []Stage       `json:"stages"`
	Grade       Grade         `json:"grade"`
	// HeadroomGiB is what the card keeps free above the allocated peak of the worst stage.
	HeadroomGiB float64 `json:"headroom_gib"`
	// TunedGrade judges the tuned state: the flex dispatcher's buffers, the tensors of overlapped micro-batches, graph
	// pools. TunedPeak is its allocated peak, TunedCard what the card then sees.
	TunedGrade Grade    `json:"tuned_grade"`
	TunedPeak  int64    `json:"tuned_peak_allocated"`
	TunedCard  [2]int64 `json:"tuned_peak_device"`
	// HostBytes is what the fullest rank keeps in host memory; 0 without offload.
	HostBytes int64 `json:"host_bytes"`
	// MaxImbalance is the routing imbalance of one layer up to which the plan still fits; null for dense models.
	MaxImbalance *float64 `json:"max_imbalance"`

	StepTimeMS     float64    `json:"step_time_ms"` // of a first run: eager, with the dispatcher and overlap that the layout names
	StepSoftware   string     `json:"step_time_software"`
	StepTimeBand   [2]float64 `json:"step_time_band"`
	TunedTimeMS    float64    `json:"tuned_step_time_ms"`
	TunedSoftware  string     `json:"tuned_software"`
	TFLOPSPerGPU   float64    `json:"tflops_per_gpu"`
	TokensPerGPU   float64    `json:"tokens_per_second_per_gpu"`
	NVLinkFraction *float64   `json:"nvlink_fraction"` // share of TP, CP and EP bytes inside the domain; null when there are none
	ExposedMS      float64    `json:"exposed_communication_ms"`
	// TimeParts add up to StepTimeMS and TunedTimeMS.
	TimeParts     []TimePart `json:"step_time_parts"`
	Communication []Traffic  `json:"communication"`
	Wall          string     `json:"wall"`
	// PublishedTwin is the nearest published layout; null where the model was not published on that GPU kind.
	PublishedTwin *Twin    `json:"published_twin"`
	WorstStage    int      `json:"worst_pipeline_rank"`  // whose peak is largest
	CheckPeak     int64    `json:"check_peak_allocated"` // bytes that stage allocates in a check (CheckRun)
	CheckStage    int      `json:"check_pipeline_rank"`  // likewise, of those that a fake process group can impersonate
	Notes         []string `json:"notes"`
	Why           []string `json:"why"`
}

// TimePart is one part of the step: compute, host (launches and syncs), the exposed communication of one axis, bubble
// (pipeline fill and drain), or optimizer.
type TimePart struct {
	Part string `json:"part"`
	// Axis is that of exposed communication, "" for the other parts.
	Axis    string  `json:"axis"`
	MS      float64 `json:"ms"`
	TunedMS float64 `json:"tuned_ms"`
}

// Sizes are a plan's degrees and batch under Megatron's names.
type Sizes struct {
	TP              int    `json:"tensor_model_parallel_size"`
	CP              int    `json:"context_parallel_size"`
	DP              int    `json:"data_parallel_size"`
	PP              int    `json:"pipeline_model_parallel_size"`
	VPP             int    `json:"virtual_pipeline_model_parallel_size"`
	ETP             int    `json:"expert_tensor_parallel_size"`
	EP              int    `json:"expert_model_parallel_size"`
	EDP             int    `json:"expert_data_parallel_size"`
	MicroBatchSize  int    `json:"micro_batch_size"`
	GlobalBatchSize int    `json:"global_batch_size"`
	NumMicrobatches int    `json:"num_microbatches"`
	Recompute       string `json:"recompute"`
	PipelineLayout  string `json:"pipeline_model_parallel_layout"` // "" when Megatron's even split is the same
}

// Stage is one pipeline rank of a plan.
type Stage struct {
	PipelineRank int         `json:"pipeline_rank"`
	Layers       [][]int     `json:"layers"` // 1-based decoder layers per chunk
	Embedding    bool        `json:"embedding"`
	OutputLayer  bool        `json:"output_layer"`
	MTPLayers    int         `json:"mtp_layers"`
	Parameters   StageParams `json:"parameters"`
	Memory       Memory      `json:"memory"`
}

// StageParams counts the elements on one rank.
type StageParams struct {
	Dense  int64 `json:"dense"`
	Expert int64 `json:"expert"`
	Total  int64 `json:"total"`
}

// Memory is a stage's bytes at its peak.
type Memory struct {
	Weights            int64 `json:"weights"`
	Gradients          int64 `json:"gradients"`
	Optimizer          int64 `json:"optimizer"`
	Workspace          int64 `json:"workspace"`
	Activations        int64 `json:"activations"`
	Transient          int64 `json:"transient"`
	DenseState         int64 `json:"dense_state"`
	ExpertState        int64 `json:"expert_state"`
	AllocatedAfterStep int64 `json:"allocated_after_step"`
	PeakAllocated      int64 `json:"peak_allocated"`
	PeakReserved       int64 `json:"peak_reserved"`
	PeakDevice         int64 `json:"peak_device"`
	PeakDeviceLow      int64 `json:"peak_device_low"`
}

// Traffic is what one axis sends in a step, per rank.
type Traffic struct {
	Axis          string  `json:"axis"`
	GroupSize     int     `json:"group_size"`
	Domains       int     `json:"domains"` // NVLink domains that the worst group spans
	Bytes         int64   `json:"bytes"`
	BytesCrossing int64   `json:"bytes_leaving_domain"`
	TimeMS        float64 `json:"time_ms"`
	ExposedMS     float64 `json:"exposed_ms"`
}

// Miss is the legal layout that comes nearest to fitting.
type Miss struct {
	Key            string `json:"key"`
	Stage          int    `json:"pipeline_rank"`
	Component      string `json:"component"` // the largest part of that stage
	ComponentBytes int64  `json:"component_bytes"`
	OverBytes      int64  `json:"over_bytes"`
	PeakBytes      int64  `json:"peak_allocated"`
	LimitBytes     int64  `json:"limit"` // of the allocated peak, before its range is looked at
	// Remedies are changes that would make it fit, cheapest first.
	Remedies []Remedy `json:"remedies"`
	// SmallestGPUs is the fewest GPUs, in whole nodes, on which something fits; 0 when none was found.
	SmallestGPUs int    `json:"smallest_gpus"`
	SmallestKey  string `json:"smallest_key"`
}

// Remedy is one change to the question and the layout that then fits.
type Remedy struct {
	Change string `json:"change"`
	Cost   string `json:"cost"`
	Key    string `json:"key"`
}

// Unfolded is the best layout whose experts are parallel within data parallelism only.
type Unfolded struct {
	Key        string  `json:"key"`
	StepTimeMS float64 `json:"step_time_ms"`
	// SlowerBy is its time over the best plan's, less one; null if none fits.
	SlowerBy *float64 `json:"slower_by"`
}
