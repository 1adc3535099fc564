package evidence

import "fmt"

// longGap is a share of the span that a single gap of steady training does not have. Ours.
const longGap = 0.1

// remarks say what the export does not hold, and what that costs.
func (x *exportReader) remarks(trace *Trace) {
	note := func(format string, args ...any) { trace.Notes = append(trace.Notes, fmt.Sprintf(format, args...)) }
	if !x.has(tableCalls, "correlationId", "globalTid") {
		note("no CUDA calls (%s): who causes idle time is not known, and ranges of the host reach no kernel; record with nsys profile --trace=cuda,nvtx", tableCalls)
	}
	if x.mixed {
		note("kernels do not say of which process they are, and several processes launched some: which call launched which kernel is not known")
	}
	other, total := 0, 0
	for i := range x.events {
		if e := &x.events[i]; e.class == classComm {
			total++
			if e.kind == KindOther {
				other++
			}
		}
	}
	switch {
	case other == 0:
	case !x.has(tableNVTX, "start", "globalTid"):
		note("no NVTX ranges: the axis of %d of %d communication kernels is not known, since NCCL's names do not tell the group; record with nsys profile --trace=cuda,nvtx", other, total)
	default:
		note("%d of %d communication kernels were launched in no NVTX range that tells their axis, and NCCL's names do not tell the group", other, total)
	}
	if x.overfull {
		note("only the first %d NVTX ranges that tell an axis were looked at", maxRanges)
	}
	if x.unnamed > 0 {
		note("%s without a name among the strings, taken for compute", counted(x.unnamed, "kernel"))
	}
	if x.skipped > 0 {
		note("%s without a time left out", counted(x.skipped, "row"))
	}
	if x.earlier > 0 {
		note("%s of cudaMalloc and cudaFree in the first half of the trace not counted: that is where a run fills its cache", counted(x.earlier, "call"))
	}
	graphs := 0
	for i := range trace.Devices {
		d := &trace.Devices[i]
		graphs += d.GraphRuns
		if float64(d.LongestGap) >= longGap*float64(max(1, d.Span)) {
			note("device %s idles %.3f ms at a stretch, %s of its span: a trace of whole steps alone does not; profile steps (--profile-step-start, --profile-step-end, nsys profile -c cudaProfilerApi)",
				d.Device, float64(d.LongestGap)/1e6, percent(d.share(d.LongestGap)))
		}
	}
	if graphs > 0 {
		note("%s of CUDA graphs whose kernels were not recorded: they count as busy, as neither compute nor communication, and hide nothing; record with nsys profile --cuda-graph-trace=node", counted(graphs, "run"))
	}
}
