package evidence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// Candidate says what a run under a contract may be compared for.
type Candidate string

const (
	// TrainingEquivalent runs do everything that training does; their times say what training will take.
	TrainingEquivalent Candidate = "training-equivalent"
	// BenchmarkOnly runs leave something out, which the contract names.
	BenchmarkOnly Candidate = "benchmark-only"
)

// Contract is the frozen conditions of a measurement. Every field is frozen but the one that Variable names, if any. An
// empty string and a null number are unknown.
//
// The fields and their order are the table contractFields; their keys are Megatron's flag names with underscores where a
// flag exists. MarshalJSON writes them; the tags only say which comment describes which key.
type Contract struct {
	// Variable is the path of the one field under test, such as "layout.moe_token_dispatcher"; unknown for a baseline.
	Variable string `json:"variable"`
	Base     string `json:"base"` // its value in the run that is compared with; unknown if there is none
	// Candidate is training-equivalent, or benchmark-only where the run leaves something out that training does. It and
	// Reasons are derived by Judge and must be right in a file.
	Candidate Candidate `json:"candidate"`
	Reasons   []string  `json:"reasons"` // why it is benchmark-only; [] if it is not

	Software struct {
		Framework          string `json:"framework"`                  // megatron-lm or megatron-bridge
		MegatronCore       string `json:"megatron_core_version"`      // as the package states it
		MegatronCoreCommit string `json:"megatron_core_commit"`       // of Megatron-LM, for a checkout
		Bridge             string `json:"megatron_bridge_version"`    // as the package states it
		BridgeCommit       string `json:"megatron_bridge_commit"`     // of Megatron-Bridge, for a checkout
		TransformerEngine  string `json:"transformer_engine_version"` // as the package states it
		PyTorch            string `json:"pytorch_version"`            // as torch.__version__ states it
		Container          string `json:"container"`                  // image with its digest
		CUDA               string `json:"cuda_version"`               // of the toolkit that PyTorch was built with
		NCCL               string `json:"nccl_version"`               // of the library that was loaded
		Driver             string `json:"driver_version"`             // as nvidia-smi states it
	} `json:"software"` // what runs
	Hardware struct {
		GPUs    int    `json:"gpus"`                   // of the whole run
		SKU     string `json:"sku"`                    // kind of GPU; the id of a platform, so that the model FLOPs utilisation is known
		Node    int    `json:"gpus_per_node"`          // that share a host
		Domain  int    `json:"gpus_per_nvlink_domain"` // 1: no NVLink
		Nodes   string `json:"nodes"`                  // which ones, or the allocation
		Network string `json:"network"`                // rails and switches between the domains
	} `json:"hardware"` // what it runs on
	Launch struct {
		Launcher    string   `json:"launcher"`    // such as torchrun or srun
		Environment []string `json:"environment"` // NAME=VALUE, one an item
	} `json:"launch"` // how it is started
	Workload struct {
		Model          string `json:"model"`                      // id of the catalogue, or a name of one's own
		Task           string `json:"task"`                       // pretrain, finetune, sft or rl
		Data           string `json:"data_path"`                  // mock for synthetic data
		Tokenizer      string `json:"tokenizer"`                  // type or path
		Routing        string `json:"routing"`                    // learned, forced (--moe-router-force-load-balancing), or none for a dense model
		CapacityFactor string `json:"moe_expert_capacity_factor"` // unknown: every token is kept
		SeqLength      int    `json:"seq_length"`                 // tokens a sequence
		MBS            int    `json:"micro_batch_size"`           // sequences a micro-batch
		GBS            int    `json:"global_batch_size"`          // sequences a step
		Precision      string `json:"precision"`                  // bf16, fp16, fp8-tensorwise, fp8-blockwise, mxfp8 or nvfp4
		Grads          string `json:"main_grads_dtype"`           // fp32 or bf16
		Moments        string `json:"exp_avg_dtype"`              // of Adam's two moments: fp32, bf16, fp16 or fp8
		Optimizer      string `json:"optimizer"`                  // such as adam; none: steps are not taken
		Checkpoint     string `json:"save"`                       // where checkpoints go; none: not written
	} `json:"workload"` // what is trained
	Layout struct {
		TP            int    `json:"tensor_model_parallel_size"`           // TP
		CP            int    `json:"context_parallel_size"`                // CP
		PP            int    `json:"pipeline_model_parallel_size"`         // PP
		VPP           int    `json:"virtual_pipeline_model_parallel_size"` // chunks per pipeline rank; 1: not interleaved
		EP            int    `json:"expert_model_parallel_size"`           // EP
		ETP           int    `json:"expert_tensor_parallel_size"`          // ETP
		Split         string `json:"pipeline_model_parallel_layout"`       // Megatron-LM's pipeline layout string
		Order         string `json:"order"`                                // rank order string; its first axis varies fastest
		SP            bool   `json:"sequence_parallel"`                    // --sequence-parallel
		Dispatcher    string `json:"moe_token_dispatcher"`                 // alltoall, allgather, deepep, hybridep, or none for a dense model
		EPOverlap     bool   `json:"overlap_moe_expert_parallel_comm"`     // expert communication hidden behind the other micro-batch
		DelayWgrad    bool   `json:"delay_wgrad_compute"`                  // weight gradients computed later, to widen that window
		SharedOverlap bool   `json:"moe_shared_expert_overlap"`            // the shared expert hides communication instead
		GradOverlap   bool   `json:"overlap_grad_reduce"`                  // gradients reduced under the backward pass
		ParamOverlap  bool   `json:"overlap_param_gather"`                 // parameters gathered under the forward pass
		TPOverlap     bool   `json:"tp_comm_overlap"`                      // all-gather and reduce-scatter of TP hidden under their GEMMs
		Recompute     string `json:"recompute"`                            // none, full, or modules with commas between them
		Offload       string `json:"offload"`                              // none, or what is offloaded to host memory
		GraphImpl     string `json:"cuda_graph_impl"`                      // none, local, transformer_engine or full_iteration
		GraphScope    string `json:"cuda_graph_scope"`                     // modules that graphs hold
		OtherArgs     string `json:"other_args"`                           // what else the command line sets
	} `json:"layout"` // the layout, under Megatron's flag names
	Measure struct {
		Strength  string  `json:"strength"`          // the evidence asked for: screen (which can only reject) or validation
		WarmUp    int     `json:"warmup_iterations"` // at the start, never counted; graphs are captured in them
		First     int     `json:"window_first"`      // first iteration of the declared steady window; unknown: none is declared
		Last      int     `json:"window_last"`       // its last iteration, included; a validation needs 50 steps
		Profiled  bool    `json:"profiled"`          // whether a profiler runs: times are then not taken
		Tolerance float64 `json:"noise_percent"`     // smallest difference of step time, in percent, that one run each can show
	} `json:"measure"` // how it is measured
}

// Defaults of a contract's measurement.
const (
	// DefaultWarmUp leaves out what compiles, allocates and captures. Megatron captures graphs after a few iterations.
	DefaultWarmUp = 5
	// DefaultNoise in percent is ours: one run each does not show the spread between runs, and no published figure does.
	DefaultNoise = 1.0
)

// NewContract fills a contract from a layout and model; what only a person knows stays blank.
func NewContract(m *arch.Model, l *layout.Layout) *Contract {
	c := &Contract{}
	c.Hardware.GPUs = l.World
	w := &c.Workload
	w.Model, w.Task, w.Routing, w.Optimizer = m.ID, "pretrain", "learned", "adam"
	w.SeqLength, w.MBS, w.GBS, w.Precision = l.SeqLength, l.MicroBatchSize, l.GlobalBatchSize, l.Precision.String()
	w.Grads, w.Moments = "fp32", "fp32"
	d := &c.Layout
	d.TP, d.CP, d.PP, d.VPP, d.EP, d.ETP = l.TP, l.CP, l.PP, l.VPP, l.EP, l.ETP
	d.Order, d.SP, d.Dispatcher = string(l.RankOrder()), l.SequenceParallel, l.Dispatcher.String()
	if l.Split != nil {
		d.Split = l.Split.String()
	}
	if m.MoE == nil {
		w.Routing, d.Dispatcher = "none", "none"
	}
	d.EPOverlap, d.Recompute, d.Offload, d.GraphImpl = l.EPOverlap, l.Recompute.String(), "none", "none"
	d.GradOverlap, d.ParamOverlap = true, true // what moeplan emits
	c.Measure.Strength, c.Measure.WarmUp, c.Measure.Tolerance = "validation", DefaultWarmUp, DefaultNoise
	c.Measure.First, c.Measure.Last = DefaultWarmUp+1, DefaultWarmUp+50
	c.Judge()
	return c
}

// Judge sets the label of the candidate and its reasons: whatever makes the run do less than training does.
func (c *Contract) Judge() {
	c.Candidate, c.Reasons = TrainingEquivalent, nil
	reason := func(bad bool, format string, args ...any) {
		if bad {
			c.Candidate, c.Reasons = BenchmarkOnly, append(c.Reasons, fmt.Sprintf(format, args...))
		}
	}
	w := &c.Workload
	reason(w.Routing == "forced", "workload.routing forced: balanced experts cost less than learned routing")
	reason(w.Data == "mock", "workload.data_path mock: no data is read")
	reason(w.Data == "", "workload.data_path is not given")
	reason(w.Optimizer == "none", "workload.optimizer none: no steps are taken")
	reason(w.Checkpoint == "none", "workload.save none: checkpoint paths are off")
	reason(w.Checkpoint == "", "workload.save is not given")
	reason(c.Measure.Profiled, "measure.profiled: a profiler runs")
}

// Set gives a field its value from text, as the reader does.
func (c *Contract) Set(path, text string) error {
	e := fieldAt(path)
	if e == nil {
		return fmt.Errorf("no field %q%s", clipped(path), nearestKey(path, paths()))
	}
	if err := e.set(c, text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func paths() []string {
	var all []string
	for i := range contractFields {
		all = append(all, contractFields[i].path())
	}
	return all
}

const maxFigure = 1 << 40

func (e *entry) set(c *Contract, text string) error {
	switch v := e.into(c).(type) {
	case *string:
		if len(e.choices) > 0 && !slices.Contains(e.choices, text) {
			return fmt.Errorf("%q is none of %s", clipped(text), strings.TrimSpace(strings.Join(e.choices, " ")))
		}
		*v = text
	case *int:
		if text == "" {
			*v = 0
			return nil
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxFigure {
			return fmt.Errorf("%q is no count", clipped(text))
		}
		*v = n
	case *bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", clipped(text))
		}
		*v = b
	case *float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f >= 0 && f <= 100) {
			return fmt.Errorf("%q does not lie between 0 and 100", clipped(text))
		}
		*v = f
	case *[]string:
		*v = strings.Fields(text)
	}
	return nil
}

// Differing lists the fields in which two contracts differ, in order. Those of the section measure and of a contract that
// leaves them blank do not count; Blank lists the latter.
func Differing(a, b *Contract) (paths []string) {
	for i := range contractFields {
		e := &contractFields[i]
		x, y := e.text(a), e.text(b)
		if e.section != "measure" && x != y && x != "" && y != "" {
			paths = append(paths, e.path())
		}
	}
	return paths
}

// Blank lists the fields that one of two contracts leaves blank and the other does not: nobody knows whether they differ.
func Blank(a, b *Contract) (paths []string) {
	for i := range contractFields {
		e := &contractFields[i]
		if e.section != "measure" && (e.text(a) == "") != (e.text(b) == "") {
			paths = append(paths, e.path())
		}
	}
	return paths
}
