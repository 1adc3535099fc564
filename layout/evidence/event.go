package evidence

import (
	"bytes"
	"strconv"
	"strings"
)

// EventKind is what a line says that happened.
type EventKind string

const (
	CheckpointSaved   EventKind = "checkpoint-saved"
	CheckpointLoaded  EventKind = "checkpoint-loaded"
	CheckpointMissing EventKind = "checkpoint-missing"
	GraphCaptured     EventKind = "graph-captured"
	GraphSkipped      EventKind = "graph-skipped"
	FeatureRefused    EventKind = "feature-refused"
	Profiled          EventKind = "profiled"
	Finished          EventKind = "finished"
)

// Event is a line that shows something beside memory and time.
type Event struct {
	Kind EventKind `json:"kind"`
	// Iteration is the last one that was logged before the line, 0 if none; of a checkpoint that was loaded, its own.
	Iteration int    `json:"iteration"`
	Line      int64  `json:"line"`
	Text      string `json:"text"`
	// Source is where the framework prints such a line.
	Source string `json:"source"`
}

// eventLines are the phrases that make a line an Event. Sources: Megatron-LM d98e8a64dd unless another is named; the older
// forms were read in core_v0.11.0, 0.15.3 and 0.16.1.
var eventLines = []struct {
	phrase string
	kind   EventKind
	source string
}{
	{"successfully saved checkpoint from iteration", CheckpointSaved, "megatron/training/checkpointing.py:1086"},
	{"successfully saved local checkpoint from iteration", CheckpointSaved, "core_v0.11.0 megatron/training/checkpointing.py:511"},
	{"successfully loaded checkpoint from", CheckpointLoaded, "megatron/training/checkpointing.py:3159"},
	{"will not load any checkpoints and will start from random", CheckpointMissing, "megatron/training/checkpointing.py:2053"},
	{"CUDA graph capture done for training", GraphCaptured, "megatron/core/full_cuda_graph.py:237"},
	{"CUDA graph capture done!!!", GraphCaptured, "core_v0.15.3 megatron/core/full_cuda_graph.py:182"},
	{"Time spent in CUDA Graphs capture on rank", GraphCaptured, "megatron/core/transformer/cuda_graphs.py:2783"},
	{"> built ", GraphCaptured, "megatron/core/transformer/cuda_graphs.py:702 ('> built N cuda graph(s) in')"},
	{"No graphable layers found. Skipping CUDA graph capture", GraphSkipped, "megatron/core/transformer/cuda_graphs.py:2813"},
	{"Falling back to alltoall", FeatureRefused, "Megatron-Bridge 067f987df training/flex_dispatcher_backend.py:67"},
	{"Skipping DeepEP configuration", FeatureRefused, "Megatron-Bridge 067f987df training/flex_dispatcher_backend.py:48"},
	{"Skipping flex dispatcher backend configuration", FeatureRefused, "Megatron-Bridge 067f987df training/flex_dispatcher_backend.py:81"},
	{"DeepEP is not installed", FeatureRefused, "megatron/core/transformer/moe/token_dispatcher.py:1284"},
	{"HybridEP is not installed", FeatureRefused, "megatron/core/transformer/moe/token_dispatcher.py:1057"},
	{"Disabling tensor parallel communication overlap", FeatureRefused, "Megatron-Bridge 067f987df training/comm_overlap.py:444"},
	{"Disabling MoE expert-parallel communication overlap", FeatureRefused, "Megatron-Bridge 067f987df training/config.py:1245"},
	{"ActivityProfilerController", Profiled, "pytorch/kineto, the stages that it prints"},
	{"Generating '/tmp/nsys-report", Profiled, "Nsight Systems, at the end of a collection"},
	{"[after training is done]", Finished, "megatron/training/training.py:2054 and 711"},
	{"exiting program at iteration", Finished, "megatron/training/training.py:4148"},
}

// eventHints are rare words of which each phrase has one, so that most lines are passed over quickly.
var eventHints = [][]byte{[]byte("checkpoint"), []byte("raph"), []byte("alltoall"), []byte("EP "), []byte("kipping"), []byte("isabling"),
	[]byte("Profiler"), []byte("nsys"), []byte("training is done"), []byte("exiting program")}

func parseEvent(line []byte) (e Event, ok bool) {
	hinted := false
	for _, h := range eventHints {
		if hinted = bytes.Contains(line, h); hinted {
			break
		}
	}
	if !hinted {
		return e, false
	}
	for i := range eventLines {
		l := &eventLines[i]
		if !bytes.Contains(line, []byte(l.phrase)) || l.phrase == "> built " && !bytes.Contains(line, []byte(" cuda graph(s) in ")) {
			continue
		}
		e = Event{Kind: l.kind, Text: clipped(string(line)), Source: l.source}
		if l.kind == CheckpointLoaded {
			if i := bytes.LastIndex(line, []byte("at iteration ")); i >= 0 {
				e.Iteration = max(0, wholeNumber(string(line[i+len("at iteration "):])))
			}
		}
		return e, true
	}
	return e, false
}

const maxText = 200

// clipped is a line's text for a report.
func clipped(s string) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "?"))
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	return s
}

// Theoretical is the framework's own estimate as it printed it, in MiB.
type Theoretical struct {
	WeightsMiB     float64 `json:"weight_and_optimizer_mib"` // weights, gradients and optimizer state, in MiB
	ActivationsMiB Value   `json:"activation_mib"`           // in MiB; null where the line has none
	TotalMiB       Value   `json:"total_mib"`                // in MiB; null where the line has none
	Line           int64   `json:"line"`                     // of the log, from 1
}

// parseTheoretical reads "Theoretical memory footprints: weight and optimizer=1.00 MB, activation=1.00 MB, total=2.00 MB";
// up to Core 0.14 the line can end after the weights.
func parseTheoretical(line string) (t Theoretical, ok bool) {
	_, rest, found := strings.Cut(line, "Theoretical memory footprints: ")
	if !found {
		return t, false
	}
	figure := func(name string) Value {
		_, tail, found := strings.Cut(rest, name+"=")
		number, _, ended := strings.Cut(tail, " MB")
		v, err := strconv.ParseFloat(number, 64)
		if !found || !ended || err != nil {
			return Value{}
		}
		return known(v)
	}
	w := figure("weight and optimizer")
	t.WeightsMiB, t.ActivationsMiB, t.TotalMiB = w.V, figure("activation"), figure("total")
	return t, w.Finite()
}

// ShardParameters is the number of parameters that one rank holds.
type ShardParameters struct {
	Tensor   int   `json:"tensor_rank"`
	Pipeline int   `json:"pipeline_rank"`
	Elements int64 `json:"elements"`
	Line     int64 `json:"line"`
}

// parseShard reads " > number of parameters on (tensor, pipeline) model parallel rank (t, p): n", and the form of 0.19 with
// a third number in the middle (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/training.py:2447).
func parseShard(line string, ended bool) (s ShardParameters, ok bool) {
	_, rest, found := strings.Cut(line, "number of parameters on (tensor,")
	if !found || !ended {
		return s, false
	}
	_, rest, found = strings.Cut(rest, "model parallel rank (")
	ranks, number, closed := strings.Cut(rest, "): ")
	if !found || !closed {
		return s, false
	}
	parts := strings.Split(ranks, ",")
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if len(parts) < 2 || len(parts) > 3 || err != nil || n < 0 {
		return s, false
	}
	s = ShardParameters{Tensor: wholeNumber(parts[0]), Pipeline: wholeNumber(parts[len(parts)-1]), Elements: n}
	return s, s.Tensor >= 0 && s.Pipeline >= 0
}

// parseArgument reads one line of the dump of arguments, "  name ......... value" (NVIDIA/Megatron-LM@d98e8a64dd
// megatron/training/arguments.py:1990). Names longer than the column have no dots.
func parseArgument(line string) (name, value string, ok bool) {
	name, rest, found := strings.Cut(strings.TrimLeft(line, " "), " ")
	if !found || name == "" || len(name) > 100 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return "", "", false
	}
	dots, value, found := strings.Cut(rest, " ")
	if !found || strings.Trim(dots, ".") != "" {
		return "", "", false
	}
	return name, strings.TrimSpace(value), true
}

// versionNames are the frameworks whose versions pretrain_gpt.py prints ("> Megatron-Core version .......... 0.20.0",
// pretrain_gpt.py:512-514).
var versionNames = []struct{ phrase, name string }{
	{"> PyTorch version ", "pytorch"}, {"> Megatron-Core version ", "megatron_core"}, {"> Transformer Engine version ", "transformer_engine"},
}

func parseVersion(line string) (name, value string, ok bool) {
	for _, v := range versionNames {
		if _, rest, found := strings.Cut(line, v.phrase); found {
			value = strings.TrimSpace(strings.TrimLeft(rest, "."))
			return v.name, value, value != "" && len(value) < 100
		}
	}
	return "", "", false
}

// parseTotal reads "Total number of parameters in billions: 235.09" and its like.
func parseTotal(line string) (name string, billions float64, ok bool) {
	for _, phrase := range []string{"Total number of parameters in billions: ", "Number of parameters in most loaded shard in billions: ",
		"Total number of active parameters in billions: "} {
		if _, rest, found := strings.Cut(line, phrase); found {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return strings.TrimSuffix(phrase, ": "), v, err == nil
		}
	}
	return "", 0, false
}
