package evidence

import (
	"math"
	"strconv"
	"strings"
)

// Iteration is one iteration line. With --log-interval above 1 its time and loss are means over the iterations since the
// line before.
type Iteration struct {
	Number int `json:"iteration"`
	Of     int `json:"of"`
	// Seconds is "elapsed time per iteration".
	Seconds Value `json:"seconds"`
	// TFLOPS is the model throughput per GPU that the framework prints.
	TFLOPS Value `json:"tflops_per_gpu"`
	// Loss is the language model's. It is unknown where the line shows none: the framework prints a loss only if it is at
	// least 0 (above 0 up to Core 0.15), so a loss that is no number is missing (NVIDIA/Megatron-LM@d98e8a64dd
	// megatron/training/training.py, training_log).
	Loss        Value `json:"loss"`
	GradNorm    Value `json:"grad_norm"`
	GlobalBatch int   `json:"global_batch_size"` // 0: not shown
	Skipped     int   `json:"skipped"`
	NaN         int   `json:"nan"`
	Line        int64 `json:"line"`
}

// parseIteration reads an iteration line. Of an unfinished line it reads nothing: its figures may be cut.
//
//	[2026-08-22 10:00:00.000000] iteration        3/      10 | consumed samples: 768 | elapsed time per iteration (ms): 1.0 | ...
func parseIteration(line string, ended bool) (it Iteration, ok bool) {
	head, rest, found := strings.Cut(line, "|")
	at := strings.LastIndex(head, "iteration ")
	if !found || at < 0 {
		return it, false
	}
	number, of, found := strings.Cut(head[at+len("iteration "):], "/")
	if it.Number, it.Of = wholeNumber(number), wholeNumber(of); !found || it.Number < 0 || it.Of < 0 {
		return it, false
	}
	nanShown, elapsed, losses := false, false, false
	for part := range strings.SplitSeq(rest, "|") {
		colon := strings.LastIndexByte(part, ':')
		if colon < 0 {
			continue
		}
		name, value := strings.TrimSpace(part[:colon]), strings.TrimSpace(part[colon+1:])
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "elapsed time per iteration (ms)":
			if v > 0 && !math.IsInf(v, 0) {
				it.Seconds = known(v / 1e3)
			}
			elapsed = true
		case "throughput per GPU (TFLOP/s/GPU)":
			it.TFLOPS = known(v)
		case "global batch size":
			it.GlobalBatch = count(v)
			losses = true
		case "loss scale":
			losses = false
		case "grad norm":
			it.GradNorm = known(v)
		case "number of skipped iterations":
			it.Skipped = count(v)
		case "number of nan iterations":
			it.NaN, nanShown = count(v), true
		case "lm loss":
			it.Loss = known(v)
		default:
			if losses && !it.Loss.Known && strings.HasSuffix(name, "loss") && !strings.Contains(name, "balancing") && !strings.HasPrefix(name, "z_") {
				it.Loss = known(v) // another task's
			}
		}
	}
	return it, elapsed && (ended || nanShown && strings.HasSuffix(strings.TrimRight(line, " "), "|"))
}

func count(v float64) int {
	if !(v >= 0 && v < 1<<31) {
		return 0
	}
	return int(v)
}

// StepTime is Megatron-Bridge's line of rank 0, which carries no iteration.
type StepTime struct {
	Seconds Value `json:"seconds"`
	TFLOPS  Value `json:"tflops_per_gpu"`
	Line    int64 `json:"line"`
}

// parseStepTime reads "Step Time : 12.34s GPU utilization: 512.3MODEL_TFLOP/s/GPU" (0.1.0: TFLOP/s/GPU;
// NVIDIA-NeMo/Megatron-Bridge@067f987df src/megatron/bridge/training/utils/train_utils.py:1050).
func parseStepTime(line string) (s StepTime, ok bool) {
	_, rest, found := strings.Cut(line, "Step Time : ")
	if !found {
		return s, false
	}
	seconds, rest, found := strings.Cut(rest, "s GPU utilization: ")
	if !found {
		return s, false
	}
	tflops, _, found := strings.Cut(rest, "TFLOP/s/GPU")
	v, err := strconv.ParseFloat(strings.TrimSpace(seconds), 64)
	if !found || err != nil || !(v > 0) || math.IsInf(v, 0) {
		return s, false
	}
	s.Seconds = known(v)
	if v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(tflops), "MODEL_"), 64); err == nil {
		s.TFLOPS = known(v)
	}
	return s, true
}
