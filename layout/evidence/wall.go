package evidence

import (
	"fmt"
	"slices"
)

// Thresholds of the verdict. They are ours, chosen so that what is named can be worth a change; nothing published says
// where a wall begins.
const (
	wallShare = 0.10 // of a device's span
	fullShare = 0.95 // of its memory, reserved
)

// Memory is what is known of a run's memory beside its trace.
type Memory struct {
	Log      *Log  // nil: none
	Capacity Bytes // of the card; unknown: the trace's figure, if it has one
}

// Finding is one piece of evidence, and where it comes from.
type Finding struct {
	Text   string `json:"text"`   // with its figures
	Source string `json:"source"` // trace, log, or what else shows it
}

// Fix is a change that targets a wall.
type Fix struct {
	What   string `json:"what"`   // in words
	Flags  string `json:"flags"`  // of Megatron-LM; "" where it is no flag
	Source string `json:"source"` // where it is recommended
}

// WallVerdict says what a step mostly waits for.
type WallVerdict struct {
	// Wall is memory, communication, host or compute; "" without kernels.
	Wall string `json:"wall"`
	// Axis is that of the most exposed communication, where that is the wall.
	Axis string `json:"axis,omitempty"`
	// Device is the one judged, the one that waits most.
	Device  string               `json:"device"`
	Reasons map[string][]Finding `json:"evidence"` // what speaks for each wall, by its name: memory, communication, host, compute
	Fixes   []Fix                `json:"fixes"`    // for the wall found; [] without one
	// Unknown says what was not looked at.
	Unknown []string `json:"unknown"`
}

// Walls are the names of walls in the order in which they are judged: what distorts the others first.
var Walls = []string{"memory", "communication", "host", "compute"}

// Wall judges the device that waits most. Memory is the wall where the allocator had to go to the driver, retried or
// failed, since every other time is distorted then; next the larger of exposed communication and the host's idle time, from a
// tenth of the span on; else a card that is full; else compute.
func (t *Trace) Wall(m Memory) *WallVerdict {
	w := &WallVerdict{Reasons: map[string][]Finding{}}
	d := t.Worst()
	if d == nil {
		return w
	}
	w.Device = d.Device
	add := func(wall, source, format string, args ...any) {
		w.Reasons[wall] = append(w.Reasons[wall], Finding{fmt.Sprintf(format, args...), source})
	}
	exposed, idle, host := d.share(d.Exposed), d.share(d.Idle), d.share(d.HostIdle)
	add("communication", "trace", "%s of the span is communication that nothing hides; %s of all communication is hidden",
		percent(exposed), percent(part(d.Hidden, d.Communication)))
	for _, k := range byExposed(d.Kinds) {
		add("communication", "trace", "%s: %s of the span exposed (%s)", k.Kind, percent(d.share(k.Exposed)), counted(k.Kernels, "kernel"))
	}
	add("host", "trace", "%s of the span is idle (%s, the longest %.3f ms)", percent(idle), counted(d.Gaps, "gap"), float64(d.LongestGap)/1e6)
	if d.Launched > 0 {
		add("host", "trace", "%s of the span the device had nothing queued (the host's call is known for %d of %s)", percent(host), d.Launched, counted(d.Gaps, "gap"))
	} else if d.Gaps > 0 {
		w.Unknown = append(w.Unknown, "whether the host or a dependency causes the idle time: the trace holds no launches")
		host = idle
	}
	add("compute", "trace", "%s of the span computes (%s)", percent(d.share(d.Compute)), counted(d.ComputeKernels, "kernel"))
	if d.GraphRuns > 0 {
		add("compute", "trace", "%s of the span runs CUDA graphs whose kernels were not recorded (%s)", percent(d.share(d.Graphs)), counted(d.GraphRuns, "run"))
		w.Unknown = append(w.Unknown, "what the CUDA graphs hold: how much of them communicates, and what they hide")
	}
	distorted, full := t.memory(w, m)
	switch {
	case distorted:
		w.Wall = "memory"
	case exposed >= wallShare && exposed >= host:
		w.Wall = "communication"
		w.Axis = byExposed(d.Kinds)[0].Kind.String()
	case host >= wallShare:
		w.Wall = "host"
	case full:
		w.Wall = "memory"
	default:
		w.Wall = "compute"
	}
	w.Fixes = fixesFor(w.Wall, w.Axis)
	return w
}

func part(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// byExposed sorts the kinds, the most exposed first.
func byExposed(kinds []KindTrace) []KindTrace {
	out := slices.Clone(kinds)
	slices.SortStableFunc(out, func(a, b KindTrace) int {
		switch {
		case a.Exposed > b.Exposed:
			return -1
		case a.Exposed < b.Exposed:
			return 1
		}
		return 0
	})
	return out
}

// memory adds what speaks of memory and reports whether it distorts the trace, and whether the card is full.
func (t *Trace) memory(w *WallVerdict, m Memory) (distorted, full bool) {
	add := func(source, format string, args ...any) {
		w.Reasons["memory"] = append(w.Reasons["memory"], Finding{fmt.Sprintf(format, args...), source})
	}
	if n := t.AllocatorCalls; n > 0 {
		distorted = true
		add("trace", "%s of cudaMalloc or cudaFree: the caching allocator ran out of cached blocks during the steps", counted(n, "call"))
	}
	capacity := m.Capacity
	if !capacity.Known {
		capacity = t.DeviceMemory
	}
	if m.Log == nil {
		w.Unknown = append(w.Unknown, "peak memory: no log was given")
		return distorted, false
	}
	if n := len(m.Log.OutOfMemory); n > 0 {
		distorted = true
		add(m.Log.Name, "out of memory on %s", counted(n, "rank"))
	}
	var peak, retries Bytes
	for i := range m.Log.Memory {
		r := &m.Log.Memory[i].Last
		if r.MaxReserved.Known && r.MaxReserved.N > peak.N {
			peak = r.MaxReserved
		}
		if r.Retries.Known && int64(r.Retries.V) > retries.N {
			retries = Bytes{int64(r.Retries.V), true}
		}
	}
	if retries.N > 0 {
		distorted = true
		add(m.Log.Name, "%d allocations failed and emptied the cache first (mem-alloc-retires)", retries.N)
	}
	switch {
	case !peak.Known:
		w.Unknown = append(w.Unknown, "peak memory: the log has no memory line")
	case !capacity.Known:
		add(m.Log.Name, "up to %.1f GiB reserved; the card's memory is not known (--gpu)", peak.GiB())
	default:
		full = float64(peak.N) >= fullShare*float64(capacity.N)
		add(m.Log.Name, "up to %.1f of %.1f GiB reserved", peak.GiB(), capacity.GiB())
	}
	return distorted, full
}

// fixes target a wall, in the order in which they are to be tried, one at a time. axis "" is for every one.
var fixes = []struct {
	wall, axis string
	fix        Fix
}{
	{"memory", "", Fix{"expandable segments", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "recipes.md, fit order"}},
	{"memory", "", Fix{"the next rung of fine-grained recompute", "--recompute-granularity selective --recompute-modules", "recipes.md, fit order"}},
	{"memory", "", Fix{"moments in bf16", "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16", "recipes.md, fit order"}},
	{"memory", "", Fix{"activation offload, then more model parallelism; full recompute last", "", "recipes.md, fit order"}},
	{"communication", "EP", Fix{"a flex dispatcher after alltoall: DeepEP or HybridEP on H100 and B200, HybridEP on NVL72", "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend", "recipes.md, dispatcher"}},
	{"communication", "EP", Fix{"hide dispatch and combine under the other micro-batch (needs VPP when PP > 1)", "--overlap-moe-expert-parallel-comm", "comm-model.md 1.4 and 4.7"}},
	{"communication", "EP", Fix{"widen that window by the experts' weight gradients, after it works alone", "--delay-wgrad-compute", "comm-model.md 4.7"}},
	{"communication", "EP", Fix{"hide the shared expert instead (excludes the two before)", "--moe-shared-expert-overlap", "comm-model.md 4.7"}},
	{"communication", "EP", Fix{"EP inside the NVLink domain", "--expert-model-parallel-size", "recipes.md, scale order"}},
	{"communication", "TP", Fix{"hide all-gather and reduce-scatter under their GEMMs", "--tp-comm-overlap", "comm-model.md 4.7"}},
	{"communication", "TP", Fix{"a smaller TP, if memory allows", "--tensor-model-parallel-size", "recipes.md, scale order"}},
	{"communication", "DP", Fix{"reduce gradients under the backward pass", "--overlap-grad-reduce", "comm-model.md 4.7"}},
	{"communication", "DP", Fix{"gather parameters under the forward pass", "--overlap-param-gather", "comm-model.md 4.7"}},
	{"communication", "DP", Fix{"gradients in bf16", "--grad-reduce-in-bf16", "recipes.md, patterns: optimizer"}},
	{"communication", "PP", Fix{"interleave: a middle VPP, which also overlaps the hops", "--num-virtual-stages-per-pipeline-rank", "recipes.md, scale order; comm-model.md 1.7"}},
	{"communication", "PP", Fix{"a smaller PP, if memory allows, or more micro-batches", "--pipeline-model-parallel-size", "recipes.md, ranking rules 5"}},
	{"communication", "CP", Fix{"rings under attention (p2p), or a2a+p2p for large CP", "--cp-comm-type", "comm-model.md 1.5; recipes.md, thresholds"}},
	{"communication", "CP", Fix{"a smaller CP: shards of 4K to 8K tokens", "--context-parallel-size", "recipes.md, thresholds"}},
	{"communication", "other", Fix{"profile with process groups named, so that the axis is known (PyTorch 2.4 or later)", "", "kineto, Process Group Description"}},
	{"host", "", Fix{"collect garbage at fixed steps on all ranks at once", "--manual-gc", "issue 6, experiments"}},
	{"host", "", Fix{"bind each rank to the cores and memory of its GPU", "", "issue 6, experiments"}},
	{"host", "", Fix{"CUDA graphs, the narrowest scope first (moe_router, moe_preprocess, then attn)", "--cuda-graph-impl --cuda-graph-modules", "recipes.md, exclusions; issue 6, experiments"}},
	{"compute", "", Fix{"less recompute, if memory allows", "--recompute-modules", "recipes.md, thresholds: full recompute costs 30 to 33 %, fine-grained under 5 %"}},
	{"compute", "", Fix{"grouped GEMM and fusions", "--moe-grouped-gemm --moe-permute-fusion --moe-router-fusion", "issue 6, experiments"}},
	{"compute", "", Fix{"a lower precision, after a stable BF16 baseline", "--fp8-format --fp8-recipe", "comm-model.md 4.8; recipes.md, thresholds"}},
}

func fixesFor(wall, axis string) []Fix {
	var out []Fix
	for _, f := range fixes {
		if f.wall == wall && (f.axis == "" || f.axis == axis) {
			out = append(out, f.fix)
		}
	}
	return out
}
