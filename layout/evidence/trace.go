package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Trace is what a profiler saw of one or more devices. Times are nanoseconds, and lengths of unions of intervals: two
// kernels that run at once count once.
type Trace struct {
	Name   string `json:"name"`       // the file, as it was named
	Bytes  int64  `json:"bytes"`      // size of the trace, unpacked
	Events int64  `json:"events"`     // that were read, of every kind
	Cut    bool   `json:"cut"`        // whether the trace ends in its middle; what stands before that was measured
	Rank   *int   `json:"rank"`       // global rank of the process; null where the trace does not say
	World  *int   `json:"world_size"` // number of ranks; null where the trace does not say
	// Steps are the training steps in the trace; null where it does not say.
	Steps        Ordinal `json:"steps"`
	DeviceName   string  `json:"device_name"`   // the GPU as the trace calls it; "" where it does not
	DeviceMemory Bytes   `json:"device_memory"` // bytes of one device; null where the trace does not say
	// Devices are those with kernels, in the order of the trace.
	Devices []DeviceTrace `json:"devices"`
	// Features count the kernels and calls that prove one, by its name.
	Features map[string]int `json:"features"`
	// AllocatorCalls are cudaMalloc and cudaFree: in steady training the caching allocator makes none.
	AllocatorCalls int `json:"allocator_calls"`
	// Guessed are the communication kernels whose axis only their operation tells (see collectiveKind).
	Guessed int      `json:"kernels_with_guessed_kind"`
	Notes   []string `json:"notes"` // what limits the figures, one sentence each
}

// DeviceTrace accounts for the time of one device from its first kernel to its last.
type DeviceTrace struct {
	Device string `json:"device"`  // the number as text, with its process where several have it
	Span   int64  `json:"span_ns"` // from the start of the first kernel to the end of the last; the other times are parts of it
	// Compute and Communication are the unions of their kernels, Copy that of copies.
	Compute       int64 `json:"compute_ns"`
	Communication int64 `json:"communication_ns"`
	Copy          int64 `json:"copy_ns"`
	// Graphs is the union of whole CUDA graphs whose kernels the profiler did not record: something runs, nobody knows what.
	Graphs    int64 `json:"graphs_ns"`
	GraphRuns int   `json:"graph_runs"` // how many CUDA graphs graphs_ns holds
	// Hidden is communication while something computes, Exposed the rest of it.
	Hidden  int64 `json:"hidden_communication_ns"`
	Exposed int64 `json:"exposed_communication_ns"`
	// Idle is time in which nothing runs, of which HostIdle passed before the host had queued what came next.
	Idle     int64 `json:"idle_ns"`
	HostIdle int64 `json:"host_idle_ns"`
	Gaps     int   `json:"idle_gaps"` // how many stretches idle_ns has
	// LongestGap is the longest single stretch of Idle.
	LongestGap int64 `json:"longest_gap_ns"`
	// Launched says of how many gaps the host's call is in the trace, so that HostIdle is known for them.
	Launched       int         `json:"idle_gaps_with_launch"`
	ComputeKernels int         `json:"compute_kernels"` // that are counted in compute_ns
	Kinds          []KindTrace `json:"kinds"`           // by axis, those with a kernel
	// Operations split the kinds further.
	Operations []OperationTrace `json:"operations"`
}

// KindTrace is the communication of one axis. Kinds can overlap, so their times do not add up to the device's.
type KindTrace struct {
	Kind    Kind  `json:"kind"`       // the axis: EP, TP (with ETP), CP, PP, DP (with EDP), or other where nothing tells
	Kernels int   `json:"kernels"`    // how many belong to it
	Total   int64 `json:"total_ns"`   // union of its kernels
	Hidden  int64 `json:"hidden_ns"`  // of total_ns, while something computes
	Exposed int64 `json:"exposed_ns"` // of total_ns, while nothing computes
}

// OperationTrace is the communication of one axis by one operation.
type OperationTrace struct {
	Operation Operation `json:"operation"` // all-gather, reduce-scatter, all-reduce, send-receive (all-to-all too) or other
	KindTrace
}

func (t *traceReader) finish() *Trace {
	t.trace.Steps = Ordinal(len(t.steps))
	t.trace.Features, t.trace.Notes = map[string]int{}, []string{}
	for f := range t.counts {
		if n := t.counts[f]; n > 0 && f > 0 {
			t.trace.Features[Feature(f).String()] = n
		}
	}
	t.resolve()
	slices.SortFunc(t.launches, func(a, b launch) int {
		return cmp.Or(cmp.Compare(a.correlation, b.correlation), cmp.Compare(a.end, b.end))
	})
	slices.SortStableFunc(t.events, func(a, b gpuEvent) int { return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.start, b.start)) })
	for i := 0; i < len(t.events); {
		j := i
		for j < len(t.events) && t.events[j].device == t.events[i].device {
			j++
		}
		t.trace.Devices = append(t.trace.Devices, t.account(t.events[i:j]))
		i = j
	}
	if len(t.events) == 0 {
		t.trace.Notes = append(t.trace.Notes, "no kernel: was the profiler told to record CUDA activities?")
	}
	if t.trace.Cut {
		t.trace.Notes = append(t.trace.Notes, "the trace is cut: what stands before the cut was measured")
	}
	return &t.trace
}

// resolve finds the axis of communication whose kernels' names do not tell it: by the process group, else by a range around
// it on its stream, else by its operation.
func (t *traceReader) resolve() {
	type known struct {
		kind            Kind
		named, guessing bool
	}
	groups := make([]known, len(t.groups))
	for i, key := range t.groups {
		parts := strings.Split(key, "\x00")
		k := &groups[i]
		if k.kind, k.named = groupKind(parts[0]); !k.named {
			k.kind, k.named = groupKind(t.config[parts[1]])
		}
		if !k.named {
			k.kind, k.guessing = collectiveKind(parts[2])
		}
	}
	var asked []int32
	var moments []moment
	for i := range t.events {
		e := &t.events[i]
		if e.class != classComm || e.kind != KindOther {
			continue
		}
		if e.group >= 0 && groups[e.group].named {
			e.kind = groups[e.group].kind
			continue
		}
		asked, moments = append(asked, int32(i)), append(moments, moment{streamScope(e.device, e.stream), e.start})
	}
	for n, around := range innermost(t.ranges, moments) {
		e := &t.events[asked[n]]
		if !around.known && e.group >= 0 && groups[e.group].guessing {
			around = axis{groups[e.group].kind, true, true}
		}
		t.settle(e, around)
	}
}

// settle gives a kernel the axis that a range or an operation tells.
func (t *traceReader) settle(e *gpuEvent, a axis) {
	if !a.known {
		return
	}
	e.kind = a.kind
	if a.guessed {
		t.trace.Guessed++
	}
}

// streamScope is a stream as the scope of ranges.
func streamScope(device, stream int32) int64 { return int64(device)<<32 | int64(stream) }

// account measures one device; events are sorted by their start.
func (t *traceReader) account(events []gpuEvent) DeviceTrace {
	d := DeviceTrace{Device: t.devices[events[0].device]}
	var compute, copies, comm, graphs []Interval
	var kinds [numKinds][numOperations][]Interval
	for i := range events {
		e := &events[i]
		at := Interval{e.start, e.end}
		switch e.class {
		case classCompute:
			compute = append(compute, at)
			d.ComputeKernels++
		case classCopy:
			copies = append(copies, at)
		case classGraph:
			graphs = append(graphs, at)
			d.GraphRuns++
		default:
			comm = append(comm, at)
			kinds[e.kind][e.op] = append(kinds[e.kind][e.op], at)
		}
	}
	busyCompute, busyComm, busyCopy, busyGraphs := Union(compute), Union(comm), Union(copies), Union(graphs)
	busy := Union(slices.Concat(busyCompute, busyComm, busyCopy, busyGraphs))
	span := busy.span()
	d.Span = span.End - span.Start
	d.Compute, d.Communication, d.Copy = busyCompute.Length(), busyComm.Length(), busyCopy.Length()
	d.Graphs = busyGraphs.Length()
	d.Hidden = busyComm.Intersect(busyCompute).Length()
	d.Exposed = d.Communication - d.Hidden
	for k := range kinds {
		var all []Interval
		for op, list := range kinds[k] {
			all = append(all, list...)
			if len(list) > 0 {
				d.Operations = append(d.Operations, OperationTrace{Operation(op), hiddenUnder(Kind(k), list, busyCompute)})
			}
		}
		if len(all) > 0 {
			d.Kinds = append(d.Kinds, hiddenUnder(Kind(k), all, busyCompute))
		}
	}
	t.idle(&d, events, busy, span)
	return d
}

// hiddenUnder measures what computation hides of the kernels of one kind.
func hiddenUnder(k Kind, list []Interval, compute Intervals) KindTrace {
	n := len(list)
	set := Union(list)
	total, hidden := set.Length(), set.Intersect(compute).Length()
	return KindTrace{k, n, total, hidden, total - hidden}
}

// idle measures the gaps between what runs. A gap is the host's as far as the call that queued the kernel after it had not
// returned yet.
func (t *traceReader) idle(d *DeviceTrace, events []gpuEvent, busy Intervals, span Interval) {
	at := 0
	for _, gap := range (Intervals{span}).Subtract(busy) {
		n := gap.End - gap.Start
		d.Idle, d.Gaps, d.LongestGap = d.Idle+n, d.Gaps+1, max(d.LongestGap, n)
		for at < len(events) && events[at].start < gap.End {
			at++
		}
		// Of kernels that end the gap together, the first that was queued could have ended it.
		first, known := int64(0), false
		for i := at; i < len(events) && events[i].start == gap.End; i++ {
			if queued, ok := t.launched(events[i].launch); ok && (!known || queued < first) {
				first, known = queued, true
			}
		}
		if known {
			d.Launched++
			d.HostIdle += min(n, max(0, first-gap.Start))
		}
	}
}

// launched is when the host's call with a correlation returned.
func (t *traceReader) launched(correlation int64) (int64, bool) {
	i, ok := slices.BinarySearchFunc(t.launches, correlation, func(l launch, c int64) int { return cmp.Compare(l.correlation, c) })
	if correlation <= 0 || !ok {
		return 0, false
	}
	return t.launches[i].end, true
}

// Worst is the device that waits longest for communication and idles most; nil without kernels.
func (t *Trace) Worst() *DeviceTrace {
	var worst *DeviceTrace
	for i := range t.Devices {
		if d := &t.Devices[i]; worst == nil || d.Exposed+d.Idle > worst.Exposed+worst.Idle {
			worst = d
		}
	}
	return worst
}

// share is a part of a device's span.
func (d *DeviceTrace) share(n int64) float64 {
	if d.Span == 0 {
		return 0
	}
	return float64(n) / float64(d.Span)
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }
