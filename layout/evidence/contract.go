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
// flag exists.
type Contract struct {
	Variable string // the path of the field under test, such as "layout.moe_token_dispatcher"; "" for a baseline
	Base     string // its value in the run that is compared with; "" if there is none
	// Candidate and Reasons are derived by Judge and must be right in a file.
	Candidate Candidate
	Reasons   []string

	Software struct {
		Framework, MegatronCore, MegatronCoreCommit, Bridge, BridgeCommit string
		TransformerEngine, PyTorch, Container, CUDA, NCCL, Driver         string
	}
	Hardware struct {
		GPUs           int
		SKU            string
		Node, Domain   int // GPUs
		Nodes, Network string
	}
	Launch struct {
		Launcher    string
		Environment []string // NAME=VALUE
	}
	Workload struct {
		Model, Task, Data, Tokenizer string
		Routing                      string // learned or forced
		CapacityFactor               string // "" keeps every token
		SeqLength, MBS, GBS          int
		Precision, Grads, Moments    string
		Optimizer                    string // adam, ..., none
		Checkpoint                   string // path, or none
	}
	Layout struct {
		TP, CP, PP, VPP, EP, ETP                             int
		Split, Order                                         string
		SP                                                   bool
		Dispatcher                                           string
		EPOverlap, DelayWgrad, SharedOverlap                 bool
		GradOverlap, ParamOverlap, TPOverlap                 bool
		Recompute, Offload, GraphImpl, GraphScope, OtherArgs string
	}
	Measure struct {
		Strength  string // screen or validation
		WarmUp    int    // iterations at the start that never count
		First     int    // declared steady window, both included; 0: none declared
		Last      int
		Profiled  bool
		Tolerance float64 // smallest difference of step time, in percent, that one run each can show
	}
}

// entry is one field of a contract.
type entry struct {
	section, key string
	what         string // for the comment
	choices      []string
	into         func(*Contract) any // *string, *int, *bool, *float64 or *[]string
}

// ContractField is one field of a contract, for forms and schemas.
type ContractField struct {
	Section, Key string
	// What says what belongs there, "" where the key says it all.
	What string
	// Choices are the values that it takes; nil takes any.
	Choices []string
	// Type is that of its JSON form: string, integer, boolean, number or array.
	Type string
}

// ContractFields lists the fields of a contract in their order.
func ContractFields() []ContractField {
	var c Contract
	out := make([]ContractField, len(contractFields))
	for i := range contractFields {
		e := &contractFields[i]
		out[i] = ContractField{Section: e.section, Key: e.key, What: e.what, Choices: e.choices}
		switch e.into(&c).(type) {
		case *int:
			out[i].Type = "integer"
		case *bool:
			out[i].Type = "boolean"
		case *float64:
			out[i].Type = "number"
		case *[]string:
			out[i].Type = "array"
		default:
			out[i].Type = "string"
		}
	}
	return out
}

func (e *entry) path() string { return e.section + "." + e.key }

func str(section, key, what string, into func(*Contract) *string, choices ...string) entry {
	return entry{section, key, what, choices, func(c *Contract) any { return into(c) }}
}

func num(section, key, what string, into func(*Contract) *int) entry {
	return entry{section, key, what, nil, func(c *Contract) any { return into(c) }}
}

func flag(section, key, what string, into func(*Contract) *bool) entry {
	return entry{section, key, what, nil, func(c *Contract) any { return into(c) }}
}

// contractFields is the table of all fields: issue item 3, in its order.
var contractFields = []entry{
	str("software", "framework", "", func(c *Contract) *string { return &c.Software.Framework }, "", "megatron-lm", "megatron-bridge"),
	str("software", "megatron_core_version", "", func(c *Contract) *string { return &c.Software.MegatronCore }),
	str("software", "megatron_core_commit", "", func(c *Contract) *string { return &c.Software.MegatronCoreCommit }),
	str("software", "megatron_bridge_version", "", func(c *Contract) *string { return &c.Software.Bridge }),
	str("software", "megatron_bridge_commit", "", func(c *Contract) *string { return &c.Software.BridgeCommit }),
	str("software", "transformer_engine_version", "", func(c *Contract) *string { return &c.Software.TransformerEngine }),
	str("software", "pytorch_version", "", func(c *Contract) *string { return &c.Software.PyTorch }),
	str("software", "container", "image with its digest", func(c *Contract) *string { return &c.Software.Container }),
	str("software", "cuda_version", "", func(c *Contract) *string { return &c.Software.CUDA }),
	str("software", "nccl_version", "", func(c *Contract) *string { return &c.Software.NCCL }),
	str("software", "driver_version", "", func(c *Contract) *string { return &c.Software.Driver }),

	num("hardware", "gpus", "", func(c *Contract) *int { return &c.Hardware.GPUs }),
	str("hardware", "sku", "", func(c *Contract) *string { return &c.Hardware.SKU }),
	num("hardware", "gpus_per_node", "", func(c *Contract) *int { return &c.Hardware.Node }),
	num("hardware", "gpus_per_nvlink_domain", "", func(c *Contract) *int { return &c.Hardware.Domain }),
	str("hardware", "nodes", "which ones, or the allocation", func(c *Contract) *string { return &c.Hardware.Nodes }),
	str("hardware", "network", "rails and switches between the domains", func(c *Contract) *string { return &c.Hardware.Network }),

	str("launch", "launcher", "such as torchrun or srun", func(c *Contract) *string { return &c.Launch.Launcher }),
	{"launch", "environment", "NAME=VALUE, one an item", nil, func(c *Contract) any { return &c.Launch.Environment }},

	str("workload", "model", "", func(c *Contract) *string { return &c.Workload.Model }),
	str("workload", "task", "", func(c *Contract) *string { return &c.Workload.Task }, "", "pretrain", "finetune", "sft", "rl"),
	str("workload", "data_path", "mock for synthetic data", func(c *Contract) *string { return &c.Workload.Data }),
	str("workload", "tokenizer", "", func(c *Contract) *string { return &c.Workload.Tokenizer }),
	str("workload", "routing", "forced: --moe-router-force-load-balancing", func(c *Contract) *string { return &c.Workload.Routing }, "learned", "forced", "none"),
	str("workload", "moe_expert_capacity_factor", "blank keeps every token", func(c *Contract) *string { return &c.Workload.CapacityFactor }),
	num("workload", "seq_length", "", func(c *Contract) *int { return &c.Workload.SeqLength }),
	num("workload", "micro_batch_size", "", func(c *Contract) *int { return &c.Workload.MBS }),
	num("workload", "global_batch_size", "", func(c *Contract) *int { return &c.Workload.GBS }),
	str("workload", "precision", "", func(c *Contract) *string { return &c.Workload.Precision }, "bf16", "fp16", "fp8-tensorwise", "fp8-blockwise", "mxfp8", "nvfp4"),
	str("workload", "main_grads_dtype", "", func(c *Contract) *string { return &c.Workload.Grads }, "fp32", "bf16"),
	str("workload", "exp_avg_dtype", "", func(c *Contract) *string { return &c.Workload.Moments }, "fp32", "bf16", "fp16", "fp8"),
	str("workload", "optimizer", "none: steps are not taken", func(c *Contract) *string { return &c.Workload.Optimizer }),
	str("workload", "save", "where checkpoints go; none: not written", func(c *Contract) *string { return &c.Workload.Checkpoint }),

	num("layout", "tensor_model_parallel_size", "", func(c *Contract) *int { return &c.Layout.TP }),
	num("layout", "context_parallel_size", "", func(c *Contract) *int { return &c.Layout.CP }),
	num("layout", "pipeline_model_parallel_size", "", func(c *Contract) *int { return &c.Layout.PP }),
	num("layout", "virtual_pipeline_model_parallel_size", "1: not interleaved", func(c *Contract) *int { return &c.Layout.VPP }),
	num("layout", "expert_model_parallel_size", "", func(c *Contract) *int { return &c.Layout.EP }),
	num("layout", "expert_tensor_parallel_size", "", func(c *Contract) *int { return &c.Layout.ETP }),
	str("layout", "pipeline_model_parallel_layout", "", func(c *Contract) *string { return &c.Layout.Split }),
	str("layout", "order", "", func(c *Contract) *string { return &c.Layout.Order }),
	flag("layout", "sequence_parallel", "", func(c *Contract) *bool { return &c.Layout.SP }),
	str("layout", "moe_token_dispatcher", "", func(c *Contract) *string { return &c.Layout.Dispatcher }, "alltoall", "allgather", "deepep", "hybridep", "none"),
	flag("layout", "overlap_moe_expert_parallel_comm", "", func(c *Contract) *bool { return &c.Layout.EPOverlap }),
	flag("layout", "delay_wgrad_compute", "", func(c *Contract) *bool { return &c.Layout.DelayWgrad }),
	flag("layout", "moe_shared_expert_overlap", "", func(c *Contract) *bool { return &c.Layout.SharedOverlap }),
	flag("layout", "overlap_grad_reduce", "", func(c *Contract) *bool { return &c.Layout.GradOverlap }),
	flag("layout", "overlap_param_gather", "", func(c *Contract) *bool { return &c.Layout.ParamOverlap }),
	flag("layout", "tp_comm_overlap", "", func(c *Contract) *bool { return &c.Layout.TPOverlap }),
	str("layout", "recompute", "none, full, or modules", func(c *Contract) *string { return &c.Layout.Recompute }),
	str("layout", "offload", "", func(c *Contract) *string { return &c.Layout.Offload }),
	str("layout", "cuda_graph_impl", "", func(c *Contract) *string { return &c.Layout.GraphImpl }, "none", "local", "transformer_engine", "full_iteration"),
	str("layout", "cuda_graph_scope", "", func(c *Contract) *string { return &c.Layout.GraphScope }),
	str("layout", "other_args", "what else the command line sets", func(c *Contract) *string { return &c.Layout.OtherArgs }),

	str("measure", "strength", "a screen can only reject", func(c *Contract) *string { return &c.Measure.Strength }, "screen", "validation"),
	num("measure", "warmup_iterations", "never counted; graphs are captured in them", func(c *Contract) *int { return &c.Measure.WarmUp }),
	num("measure", "window_first", "first steady iteration", func(c *Contract) *int { return &c.Measure.First }),
	num("measure", "window_last", "a validation needs 50 steps", func(c *Contract) *int { return &c.Measure.Last }),
	flag("measure", "profiled", "times of a profiled run are not taken", func(c *Contract) *bool { return &c.Measure.Profiled }),
	{"measure", "noise_percent", "smallest difference that one run each can show", nil, func(c *Contract) any { return &c.Measure.Tolerance }},
}

// fieldAt finds a field by its path.
func fieldAt(path string) *entry {
	for i := range contractFields {
		if contractFields[i].path() == path {
			return &contractFields[i]
		}
	}
	return nil
}

// text is a field's value as a person writes it; "" is unknown or empty.
func (e *entry) text(c *Contract) string {
	switch v := e.into(c).(type) {
	case *string:
		return *v
	case *int:
		if *v == 0 {
			return ""
		}
		return strconv.Itoa(*v)
	case *bool:
		return strconv.FormatBool(*v)
	case *float64:
		return strconv.FormatFloat(*v, 'g', -1, 64)
	case *[]string:
		return strings.Join(*v, " ")
	}
	panic("bug: a contract field of another type")
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
