package evidence

import (
	"fmt"
	"strings"
)

// take keeps what an event says.
func (t *traceReader) take(e *chromeEvent) {
	end := e.start + max(0, e.duration)
	switch e.category {
	case "kernel", "Kernel":
		t.kernel(e, end)
	case "gpu_memcpy", "Memcpy", "gpu_memset", "Memset":
		t.onGPU(e, end, namedKernel{class: classCopy, kind: KindOther})
	case "gpu_user_annotation":
		if a := rangeKind(e.name); a.known && len(t.ranges) < maxRanges {
			t.ranges = append(t.ranges, axisRange{streamScope(t.deviceOf(e.pid), t.streamOf(e.tid)), Interval{e.start, end}, a})
		}
	case "user_annotation":
		if strings.HasPrefix(e.name, "ProfilerStep#") && len(t.steps) < maxNames {
			t.steps[e.name] = true
		}
	case "cuda_runtime", "cuda_driver", "Runtime", "hip_runtime":
		t.call(e, end)
	}
}

func (t *traceReader) kernel(e *chromeEvent, end int64) {
	named, ok := t.names[e.name]
	if !ok {
		if named = nameKernel(e.name); len(t.names) < maxNames {
			t.names[e.name] = named
		}
	}
	t.counts[named.feature]++
	t.onGPU(e, end, named)
}

func (t *traceReader) onGPU(e *chromeEvent, end int64, named namedKernel) {
	k := gpuEvent{start: e.start, end: end, launch: e.correlation, device: t.deviceOf(e.pid), stream: t.streamOf(e.tid), group: -1,
		kind: named.kind, class: named.class, op: named.op}
	if named.class == classComm && named.kind == KindOther {
		k.group = t.groupOf(e)
	}
	t.add(k)
}

// add takes a kernel or copy, up to the limit.
func (t *traceReader) add(k gpuEvent) {
	if len(t.events) >= maxKernels {
		t.err = &LimitError{fmt.Sprintf("%s has more than %d kernels: profile fewer steps or ranks", t.trace.Name, maxKernels)}
		return
	}
	t.events = append(t.events, k)
}

// groupOf numbers what the event says of its process group and operation.
func (t *traceReader) groupOf(e *chromeEvent) int32 {
	key := e.description + "\x00" + e.group + "\x00" + e.op
	if n, ok := t.groupAt[key]; ok {
		return n
	}
	if len(t.groups) >= maxGroups {
		return -1
	}
	n := int32(len(t.groups))
	t.groups, t.groupAt[key] = append(t.groups, key), n
	return n
}

func (t *traceReader) deviceOf(pid string) int32 {
	if n, ok := t.deviceAt[pid]; ok {
		return n
	}
	if len(t.devices) >= maxDevices {
		t.err = &LimitError{fmt.Sprintf("%s has more than %d devices", t.trace.Name, maxDevices)}
		return 0
	}
	n := int32(len(t.devices))
	t.devices, t.deviceAt[pid] = append(t.devices, pid), n
	return n
}

func (t *traceReader) streamOf(tid string) int32 {
	n, ok := t.streams[tid]
	if !ok && len(t.streams) < maxNames {
		n = int32(len(t.streams))
		t.streams[tid] = n
	}
	return n
}

// call keeps what queues work, and counts what the allocator asks of the driver.
func (t *traceReader) call(e *chromeEvent, end int64) {
	switch {
	case allocates(e.name):
		t.trace.AllocatorCalls++
	case launchesGraph(e.name):
		t.counts[FeatureGraphReplay]++
	}
	if e.correlation > 0 && len(t.launches) < maxLaunches {
		t.launches = append(t.launches, launch{e.correlation, end})
	}
}

// allocates reports whether a call asks the driver for memory of the device, or gives it back.
func allocates(call string) bool {
	for _, prefix := range []string{"cudaMalloc", "cudaFree", "hipMalloc", "hipFree"} {
		if strings.HasPrefix(call, prefix) {
			return !strings.Contains(call, "Host") && !strings.Contains(call, "Async")
		}
	}
	return false
}

func launchesGraph(call string) bool { return strings.Contains(call, "GraphLaunch") }
