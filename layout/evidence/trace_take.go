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
		if kind, ok := rangeKind(e.name); ok && len(t.ranges) < maxRanges {
			t.ranges = append(t.ranges, gpuRange{Interval{e.start, end}, t.deviceOf(e.pid), t.streamOf(e.tid), kind})
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
	if len(t.events) >= maxKernels {
		t.err = &LimitError{fmt.Sprintf("%s has more than %d kernels: profile fewer steps or ranks", t.trace.Name, maxKernels)}
		return
	}
	k := gpuEvent{start: e.start, end: end, launch: e.correlation, device: t.deviceOf(e.pid), stream: t.streamOf(e.tid), group: -1,
		kind: named.kind, class: named.class, op: named.op}
	if named.class == classComm && named.kind == KindOther {
		k.group = t.groupOf(e)
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
	case strings.HasPrefix(e.name, "cudaMalloc"), strings.HasPrefix(e.name, "cudaFree"), strings.HasPrefix(e.name, "hipMalloc"), strings.HasPrefix(e.name, "hipFree"):
		if !strings.Contains(e.name, "Host") && !strings.Contains(e.name, "Async") {
			t.trace.AllocatorCalls++
		}
	case strings.Contains(e.name, "GraphLaunch"):
		t.counts[FeatureGraphReplay]++
	}
	if e.correlation > 0 && len(t.launches) < maxLaunches {
		t.launches = append(t.launches, launch{e.correlation, end})
	}
}
