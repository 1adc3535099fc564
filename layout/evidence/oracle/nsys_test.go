package oracle

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/moeplan/moeplan/layout/evidence"
)

// Tables as NVIDIA's SQLite Export Schema Reference lists them; testdata/generate.py of layout/evidence has them whole.
const (
	createStrings = "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)"
	createKernels = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, graphNodeId INTEGER)"
	createCalls   = "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL)"
	createCopies  = "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER)"
	createGraphs  = "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, graphId INTEGER NOT NULL)"
	createNodes   = "CREATE TABLE CUDA_GRAPH_NODE_EVENTS (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, graphNodeId INTEGER NOT NULL, originalGraphNodeId INTEGER)"
	createNVTX    = "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER)"
	createMapping = "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL)"

	processA = 100 << 24
	processB = 200 << 24
	threadA  = processA | 101
	threadB  = processB | 201

	names = "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)'), (3, 'void deep_ep::intranode::dispatch<8>(x)'), (4, 'cudaLaunchKernel_v7000'), (5, 'cudaMalloc_v3020'), (6, 'moe_combine'), (7, 'cudaGraphLaunch_v10000')"
)

func readExport(data []byte) (*evidence.Trace, error) {
	return evidence.ReadExport("test.sqlite", bytes.NewReader(data), int64(len(data)))
}

// TestExportAgainstChrome: random kernels, copies and calls of random processes, written to a database and as a Chrome trace, are the
// same devices. TestTraceAgainstTimeline holds the latter against a timeline of single points.
func TestExportAgainstChrome(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		kernels := []string{"gemm", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "void deep_ep::intranode::dispatch<8>(x)"}
		processes := rapid.IntRange(1, 3).Draw(r, "processes")
		statements := []string{createStrings, names, createKernels, createCopies, createCalls, createMapping}
		var chrome strings.Builder
		chrome.WriteString(`{"traceEvents": [{}`)
		for p := range processes {
			statements = append(statements, fmt.Sprintf("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (%d, 0, %d), (%d, 1, %d)", 2*p, 100+p, 2*p+1, 100+p))
		}
		for i := range rapid.IntRange(1, 30).Draw(r, "events") {
			p := rapid.IntRange(0, processes-1).Draw(r, "process")
			device := rapid.IntRange(0, 1).Draw(r, "device")
			start := rapid.IntRange(0, 200).Draw(r, "start")
			length := rapid.IntRange(0, 50).Draw(r, "length")
			name := rapid.IntRange(0, len(kernels)).Draw(r, "name")
			launched := rapid.IntRange(-1, 200).Draw(r, "launched")
			correlation := i + 1
			pid := (100 + p) << 24
			category, kernel := "kernel", "Memcpy"
			if name == len(kernels) {
				category = "gpu_memcpy"
				statements = append(statements, fmt.Sprintf("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (%d, %d, %d, 7, %d, %d)", start, start+length, device, correlation, pid))
			} else {
				kernel = kernels[name]
				statements = append(statements, fmt.Sprintf("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (%d, %d, %d, 7, %d, %d, %d, 1, NULL)", start, start+length, device, correlation, pid, name+1))
			}
			fmt.Fprintf(&chrome, `,{"ph":"X","cat":%q,"name":%q,"pid":%d,"tid":7,"ts":%.3f,"dur":%.3f,"args":{"correlation":%d}}`, category, kernel, 2*p+device, float64(start)/1000, float64(length)/1000, correlation)
			if launched >= 0 {
				statements = append(statements, fmt.Sprintf("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (%d, %d, %d, %d, 4)", launched, launched+5, pid|1, correlation))
				fmt.Fprintf(&chrome, `,{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":%.3f,"dur":0.005,"args":{"correlation":%d}}`, float64(launched)/1000, correlation)
			}
		}
		chrome.WriteString("]}")
		got, err := readExport(write(t, statements...))
		if err != nil {
			r.Fatal(err)
		}
		want, err := evidence.ReadTrace("drawn", strings.NewReader(chrome.String()))
		if err != nil {
			r.Fatal(err)
		}
		byName := func(t *evidence.Trace) map[string]evidence.DeviceTrace {
			m := map[string]evidence.DeviceTrace{}
			for _, d := range t.Devices {
				m[d.Device] = d
			}
			return m
		}
		if d := cmp.Diff(byName(want), byName(got)); d != "" {
			r.Fatal(d)
		}
		if d := cmp.Diff(want.Features, got.Features); d != "" {
			r.Fatal(d)
		}
	})
}

func insert(table, format string, args ...any) string {
	return "INSERT INTO " + table + " VALUES " + fmt.Sprintf(format, args...)
}

// TestExports: what an export holds or lacks, and what comes of it.
func TestExports(t *testing.T) {
	const kernels, calls, nvtx = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
	allReduce := insert(kernels, "(100, 200, 0, 7, 1, %d, 2, 2, NULL)", processA)
	launch := insert(calls, "(50, 60, %d, 1, 4)", threadA)
	base := []string{createStrings, names, createKernels, createCalls, createNVTX}
	for _, tt := range []struct {
		reason     string
		statements []string
		// kinds are the axes and the kernels of all devices, notes parts of the notes.
		kinds string
		notes []string
	}{
		{"a range around the launch tells", append(base, allReduce, launch, insert(nvtx, "(40, 70, 59, 'dispatch', %d, NULL, NULL)", threadA)), "0: EP 1", nil},
		{"a registered name", append(base, allReduce, launch, insert(nvtx, "(40, 70, 59, NULL, %d, NULL, 6)", threadA)), "0: EP 1", nil},
		{"a range of another thread", append(base, allReduce, launch, insert(nvtx, "(40, 70, 59, 'dispatch', %d, NULL, NULL)", threadA+1)), "0: other 1", []string{"1 of 1 communication kernels were launched in no NVTX range"}},
		{"a range around the kernel, not the launch", append(base, allReduce, launch, insert(nvtx, "(90, 210, 59, 'dispatch', %d, NULL, NULL)", threadA)), "0: other 1", []string{"in no NVTX range"}},
		{"a start/end range on one thread", append(base, allReduce, launch, insert(nvtx, "(40, 70, 60, 'grad_reduce', %d, %d, NULL)", threadA, threadA)), "0: DP 1", nil},
		{"a start/end range that ended elsewhere", append(base, allReduce, launch, insert(nvtx, "(40, 70, 60, 'grad_reduce', %d, %d, NULL)", threadA, threadA+1)), "0: other 1", []string{"in no NVTX range"}},
		{"a mark and a domain are no ranges", append(base, allReduce, launch, insert(nvtx, "(40, NULL, 34, 'dispatch', %d, NULL, NULL), (40, NULL, 75, 'dispatch', %d, NULL, NULL)", threadA, threadA)), "0: other 1", []string{"in no NVTX range"}},
		{"a range that was never popped", append(base, allReduce, launch, insert(nvtx, "(40, NULL, 59, 'send_forward', %d, NULL, NULL)", threadA)), "0: PP 1", nil},
		{"an all-to-all alone is a guess", append(base, allReduce, launch, insert(nvtx, "(40, 70, 59, 'nccl:all_to_all', %d, NULL, NULL)", threadA)), "0: EP 1 guessed", nil},
		{"what its name tells no range changes", append(base, insert(kernels, "(100, 200, 0, 7, 1, %d, 3, 3, NULL)", processA), launch, insert(nvtx, "(40, 70, 59, 'grad_reduce', %d, NULL, NULL)", threadA)), "0: EP 1", nil},
		{"no NVTX", []string{createStrings, names, createKernels, createCalls, allReduce, launch}, "0: other 1", []string{"no NVTX ranges: the axis of 1 of 1"}},
		{"no calls", []string{createStrings, names, createKernels, createNVTX, allReduce}, "0: other 1", []string{"no CUDA calls", "in no NVTX range"}},
		{"two processes count correlations each for itself", append(base, allReduce, insert(kernels, "(100, 200, 0, 7, 1, %d, 2, 2, NULL)", processB), launch, insert(calls, "(50, 60, %d, 1, 4)", threadB),
			insert(nvtx, "(40, 70, 59, 'dispatch', %d, NULL, NULL)", threadB)), "0 of process 100: other 1, 0 of process 200: EP 1", []string{"1 of 2 communication kernels"}},
		{"two processes on one GPU", append(base, createMapping, insert("TARGET_INFO_CUDA_DEVICE", "(3, 0, 100), (3, 0, 200)"), allReduce, insert(kernels, "(100, 200, 0, 7, 1, %d, 3, 3, NULL)", processB), launch), "3: EP 1 other 1", []string{"1 of 2 communication kernels"}},
		{"an old export does not tell a kernel's process", []string{createStrings, names, "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, correlationId INT, shortName INT)", createCalls, createNVTX,
			insert(kernels, "(100, 200, 0, 1, 2)"), launch, insert(nvtx, "(40, 70, 59, 'dispatch', %d, NULL, NULL)", threadA)}, "0: EP 1", nil},
		{"nor can it where several launched", []string{createStrings, names, "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, correlationId INT, shortName INT)", createCalls, createNVTX,
			insert(kernels, "(100, 200, 0, 1, 2)"), launch, insert(calls, "(50, 60, %d, 1, 4)", threadB), insert(nvtx, "(40, 70, 59, 'dispatch', %d, NULL, NULL)", threadA)}, "0: other 1", []string{"do not say of which process"}},
		{"a kernel of a graph was recorded in a range", append(base, createNodes, insert(kernels, "(100, 200, 0, 7, 1, %d, 2, 2, 12)", processA), launch,
			insert("CUDA_GRAPH_NODE_EVENTS", "(10, 11, %d, 11, NULL), (20, 21, %d, 12, 11)", threadA, threadA), insert(nvtx, "(5, 15, 59, 'combine', %d, NULL, NULL), (40, 70, 59, 'grad_reduce', %d, NULL, NULL)", threadA, threadA)), "0: EP 1", nil},
		{"nodes that are each other's original end", append(base, createNodes, insert(kernels, "(100, 200, 0, 7, 1, %d, 2, 2, 12)", processA), launch,
			insert("CUDA_GRAPH_NODE_EVENTS", "(10, 11, %d, 11, 12), (20, 21, %d, 12, 11)", threadA, threadA), insert(nvtx, "(40, 70, 59, 'grad_reduce', %d, NULL, NULL)", threadA)), "0: DP 1", nil},
		{"a name that is missing", append(base, insert(kernels, "(100, 200, 0, 7, 1, %d, 99, 99, NULL)", processA)), "0:", []string{"1 kernel without a name"}},
		{"a time that is none", append(base, allReduce, insert(kernels, "('x', 200, 0, 7, 1, %d, 1, 1, NULL)", processA), insert(kernels, "(1, %d, 0, 7, 1, %d, 1, 1, NULL)", int64(1)<<62, processA)), "0: other 1", []string{"2 rows without a time"}},
		{"memory that is asked for before the middle", append(base, allReduce, insert(calls, "(10, 20, %d, 0, 5)", threadA)), "0: other 1", []string{"1 call of cudaMalloc and cudaFree in the first half"}},
		{"a graph whose kernels are not there", append(base, createGraphs, allReduce, insert("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "(150, 300, 0, 7, 2, %d, 1)", processA)), "0: other 1", []string{"1 run of CUDA graphs"}},
		{"a gap that no step has", append(base, allReduce, insert(kernels, "(1000, 1010, 0, 7, 1, %d, 1, 1, NULL)", processA)), "0: other 1", []string{"device 0 idles"}},
		{"times as whole reals, names in the rows", []string{"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start REAL, end REAL, deviceId, demangledName TEXT)", insert(kernels, "(100.0, 200.0, 0, 'ncclDevKernel_AllReduce')")}, "0: other 1", []string{"no CUDA calls", "no NVTX"}},
	} {
		trace, err := readExport(write(t, tt.statements...))
		if err != nil {
			t.Errorf("%s: %v", tt.reason, err)
			continue
		}
		var kinds []string
		for _, d := range trace.Devices {
			kind := d.Device + ":"
			for _, k := range d.Kinds {
				kind += fmt.Sprintf(" %s %d", k.Kind, k.Kernels)
			}
			if trace.Guessed > 0 {
				kind += " guessed"
			}
			kinds = append(kinds, kind)
		}
		if got := strings.Join(kinds, ", "); got != tt.kinds {
			t.Errorf("%s: %s, want %s", tt.reason, got, tt.kinds)
		}
		notes := strings.Join(trace.Notes, "\n")
		for _, n := range tt.notes {
			if !strings.Contains(notes, n) {
				t.Errorf("%s: notes %q, want %q", tt.reason, notes, n)
			}
		}
		if len(tt.notes) == 0 && strings.Contains(notes, "no NVTX") {
			t.Errorf("%s: notes %q", tt.reason, notes)
		}
	}
}

// TestGraphsHideNothing: a graph whose kernels are not known is busy time, and neither computes nor communicates.
func TestGraphsHideNothing(t *testing.T) {
	trace, err := readExport(write(t, createStrings, names, createKernels, createGraphs,
		insert("CUPTI_ACTIVITY_KIND_KERNEL", "(100, 200, 0, 7, 1, %d, 2, 2, NULL), (300, 400, 0, 7, 2, %d, 1, 1, NULL)", processA, processA),
		insert("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "(150, 250, 0, 7, 3, %d, 1), (160, 260, 0, 8, 4, %d, 1)", processA, processA)))
	if err != nil {
		t.Fatal(err)
	}
	d := trace.Devices[0]
	if d.Graphs != 110 || d.GraphRuns != 2 || d.Hidden != 0 || d.Exposed != 100 || d.Compute != 100 || d.Idle != 40 || d.Span != 300 {
		t.Errorf("%+v", d)
	}
	if w := trace.Wall(evidence.Memory{}); !strings.Contains(strings.Join(w.Unknown, "\n"), "what the CUDA graphs hold") {
		t.Errorf("%+v", w)
	}
}

// TestOtherDatabases: each is refused by what it is.
func TestOtherDatabases(t *testing.T) {
	for _, tt := range []struct {
		reason, want string
		statements   []string
	}{
		{"a name for terminals", `tables here: "a\x1b[31mb\nc"`, []string{"CREATE TABLE \"a\x1b[31mb\nc\" (x)"}},
		{"a browser's history", "no export of Nsight Systems", []string{"CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT)"}},
		{"a view in place of the kernels", "is a view", []string{"CREATE TABLE t (start, end)", "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT start, end FROM t"}},
		{"kernels without rowids", "keeps no rowids", []string{"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT PRIMARY KEY, end INT) WITHOUT ROWID"}},
		{"strings that cannot be looked up", "StringIds is not a table of id INTEGER PRIMARY KEY", []string{createKernels, "CREATE TABLE StringIds (id INT, value TEXT)"}},
		{"UTF-16", "text encoding 2", []string{"PRAGMA encoding='UTF-16le'", createKernels}},
	} {
		if _, err := readExport(write(t, tt.statements...)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.reason, err, tt.want)
		}
	}
	var unsupported *evidence.UnsupportedError
	if _, err := readExport(write(t, "CREATE TABLE t (a)")); !errors.As(err, &unsupported) {
		t.Errorf("%v is no *UnsupportedError", err)
	}
}
