package recipes

import (
	"slices"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/layout"
)

// Kind says where a record comes from.
type Kind string

const (
	BenchmarkRecipe    Kind = "benchmark-recipe"    // Megatron-Bridge perf_recipes, executed
	LibraryRecipe      Kind = "library-recipe"      // Megatron-Bridge recipes, executed: starting points, not tuned
	PublishedBenchmark Kind = "published-benchmark" // a row of a performance table
	VerificationCard   Kind = "verification-card"   // a model's check runs
	ModelZooBest       Kind = "modelzoo-best-practice"
	ModelZooDefault    Kind = "modelzoo-default"
	ModelZooMeasured   Kind = "modelzoo-measured"
	TechReport         Kind = "tech-report"           // arXiv:2603.07685
	SkillConfig        Kind = "skill-config"          // Megatron-Bridge skills
	SkillLongContext   Kind = "skill-long-context"    // the same
	PaperMapping       Kind = "paper-optimal-mapping" // arXiv:2504.14960, Parallel Folding, as are the next three
	PaperScaling       Kind = "paper-strong-scaling"
	PaperContext       Kind = "paper-context-scaling"
	PaperFP8           Kind = "paper-fp8"
)

var kinds = []Kind{BenchmarkRecipe, LibraryRecipe, PublishedBenchmark, VerificationCard, ModelZooBest, ModelZooDefault,
	ModelZooMeasured, TechReport, SkillConfig, SkillLongContext, PaperMapping, PaperScaling, PaperContext, PaperFP8}

// Tuned reports whether records of a kind are the outcome of tuning: benchmarks, their tables, best practice and
// check runs. Library recipes are starting points; papers and skills are apart.
func (k Kind) Tuned() bool {
	switch k {
	case BenchmarkRecipe, PublishedBenchmark, VerificationCard, ModelZooBest, ModelZooDefault, ModelZooMeasured:
		return true
	}
	return false
}

// Recipe is one published layout. Zero means not stated, for every field but those that say otherwise. Records are
// shared and read-only.
type Recipe struct {
	ID    string `json:"id"`
	Kind  Kind   `json:"kind"`
	Task  string `json:"task"`               // pretrain, sft, peft, ...
	Model string `json:"model"`              // as the source calls it
	About string `json:"model_id,omitempty"` // our catalogue's ID; "" for models it does not have
	GPU   string `json:"gpu"`                // as the source calls it, lower case
	GPUs  int    `json:"gpus,omitempty"`

	Precision     string `json:"precision,omitempty"`      // layout.Precision's name
	PrecisionText string `json:"precision_text,omitempty"` // the source's word where that is none of ours
	GlobalBatch   int    `json:"gbs,omitempty"`
	MicroBatch    int    `json:"mbs,omitempty"`
	Sequence      int    `json:"seq,omitempty"`

	TP    int    `json:"tp,omitempty"`
	CP    int    `json:"cp,omitempty"`
	PP    int    `json:"pp,omitempty"`
	VPP   int    `json:"vpp,omitempty"`
	EP    int    `json:"ep,omitempty"`
	ETP   int    `json:"etp,omitempty"`
	SP    *bool  `json:"sp,omitempty"`
	Split string `json:"split,omitempty"` // pipeline layout string
	First int    `json:"first,omitempty"` // layers of the first stage, if set apart
	Last  int    `json:"last,omitempty"`

	Recompute      string `json:"recompute,omitempty"` // layout.Recompute's text; it may name modules that we do not know
	Offload        string `json:"offload,omitempty"`   // upstream's option names; moe_paged_stash is a spill buffer
	Dispatcher     string `json:"dispatcher,omitempty"`
	EPOverlap      *bool  `json:"ep_overlap,omitempty"`
	DelayWgrad     *bool  `json:"delay_wgrad,omitempty"`
	TPOverlap      *bool  `json:"tp_overlap,omitempty"`
	Graphs         string `json:"graphs,omitempty"` // eager, router, attn, full-iteration, other
	Optimizer      string `json:"optimizer,omitempty"`
	GradsFP32      *bool  `json:"grads_fp32,omitempty"`      // gradients reduced in fp32
	MainGrads      string `json:"main_grads,omitempty"`      // fp32 or bf16
	Moments        string `json:"moments,omitempty"`         // the same
	PrecisionAware *bool  `json:"precision_aware,omitempty"` // precision-aware optimizer
	Distributed    *bool  `json:"distributed_optimizer,omitempty"`
	CrossEntropy   string `json:"cross_entropy,omitempty"` // te or native: the implementation of the fused loss
	FSDP           bool   `json:"fsdp,omitempty"`
	Balanced       *bool  `json:"balanced,omitempty"`  // routing forced to balance
	Routing        string `json:"routing,omitempty"`   // other routing, in the source's words
	Overrides      string `json:"overrides,omitempty"` // of the model's shape
	MTP            *int   `json:"mtp,omitempty"`
	PEFT           bool   `json:"peft,omitempty"`

	// Measured: model TFLOPS and tokens per second and GPU, step time, model FLOPs utilisation, allocated peak.
	TFLOPS  float64 `json:"tflops,omitempty"`
	Tokens  float64 `json:"tokens,omitempty"`
	StepMS  float64 `json:"step_ms,omitempty"`
	MFU     float64 `json:"mfu,omitempty"` // percent
	PeakGiB float64 `json:"peak_gib,omitempty"`

	Container string `json:"container,omitempty"`
	Recipe    string `json:"recipe,omitempty"` // the function that made it, or that its row is matched with
	Variant   string `json:"variant,omitempty"`
	Method    string `json:"method,omitempty"` // a paper's name of the approach
	Note      string `json:"note,omitempty"`
	// Inconsistent marks records that cannot run on the number of GPUs they name.
	Inconsistent bool   `json:"inconsistent,omitempty"`
	Source       string `json:"source"`
}

// platforms are the GPU kinds of the records that our platform catalogue has, under the same name.
var platforms = []string{"h100", "b200", "b300", "gb200", "gb300"}

// Platform is our catalogue's ID of the GPU kind; "" for kinds that it does not have.
func (r *Recipe) Platform() string {
	if slices.Contains(platforms, r.GPU) {
		return r.GPU
	}
	return ""
}

// Pretraining reports whether the record trains all parameters from plain sequences.
func (r *Recipe) Pretraining() bool { return strings.HasPrefix(r.Task, "pretrain") && !r.PEFT }

// Mesh is the record's degrees and VPP in layout's text form, with what the source states and nothing else.
func (r *Recipe) Mesh() string {
	var words []string
	for _, d := range []struct {
		name string
		size int
	}{{"tp", r.TP}, {"cp", r.CP}, {"pp", r.PP}, {"vpp", r.VPP}, {"ep", r.EP}, {"etp", r.ETP}} {
		if d.size > 0 {
			words = append(words, d.name+strconv.Itoa(d.size))
		}
	}
	return strings.Join(words, " ")
}

// Layout is the record's layout in layout's text form, with what the source states and nothing else.
func (r *Recipe) Layout() string {
	words := strings.Fields(r.Mesh())
	if r.MicroBatch > 0 {
		words = append(words, "mbs"+strconv.Itoa(r.MicroBatch))
	}
	text := func(name, value string) {
		if value != "" {
			words = append(words, name+value)
		}
	}
	text("recompute=", r.Recompute)
	text("split=", r.Split)
	if r.GlobalBatch > 0 {
		text("gbs=", strconv.Itoa(r.GlobalBatch))
	}
	if r.Sequence > 0 && r.Sequence != layout.DefaultSequence {
		text("seq=", strconv.Itoa(r.Sequence))
	}
	if r.Precision != "bf16" {
		text("precision=", r.Precision)
	}
	if r.Dispatcher != "alltoall" {
		text("dispatcher=", r.Dispatcher)
	}
	if r.EPOverlap != nil && *r.EPOverlap {
		words = append(words, "overlap=on")
	}
	return strings.Join(words, " ")
}

// Throughput is what was measured, in a few words such as "245 TFLOPS" or "13722 tokens/s"; "" if nothing was.
func (r *Recipe) Throughput() string {
	switch {
	case r.TFLOPS > 0:
		return strconv.FormatFloat(r.TFLOPS, 'f', 0, 64) + " TFLOPS"
	case r.Tokens > 0:
		return strconv.FormatFloat(r.Tokens, 'f', 0, 64) + " tokens/s"
	case r.MFU > 0:
		return strconv.FormatFloat(r.MFU, 'f', 1, 64) + " % MFU"
	}
	return ""
}

// ShortSource is the source's project, last folder and file: "Megatron-Bridge gb200/deepseek_v3.py"; of a paper, its
// number.
func (r *Recipe) ShortSource() string {
	repository, file, ok := strings.Cut(r.Source, ":")
	if !ok || repository == "arXiv" {
		text, _, _ := strings.Cut(r.Source, " ")
		return strings.TrimSuffix(text, ",")
	}
	repository, _, _ = strings.Cut(repository, "@")
	file, _, _ = strings.Cut(file, "#")
	if folders := strings.Split(file, "/"); len(folders) > 2 {
		file = strings.Join(folders[len(folders)-2:], "/")
	}
	return repository[strings.LastIndexByte(repository, '/')+1:] + " " + file
}
