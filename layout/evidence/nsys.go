package evidence

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout/evidence/sqlite"
)

// Tables of an Nsight Systems export. Names, columns and what they mean: docs.nvidia.com/nsight-systems, SQLite Export Schema
// Reference, 2021.5 to 2026 (schema 3.28). Tables are there only where something was recorded, and columns came over the years:
// all but start, end and a name may be missing.
const (
	tableKernels  = "CUPTI_ACTIVITY_KIND_KERNEL"
	tableCopies   = "CUPTI_ACTIVITY_KIND_MEMCPY"
	tableFills    = "CUPTI_ACTIVITY_KIND_MEMSET"
	tableGraphs   = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" // with --cuda-graph-trace=graph, in place of the kernels
	tableCalls    = "CUPTI_ACTIVITY_KIND_RUNTIME"
	tableNodes    = "CUDA_GRAPH_NODE_EVENTS"
	tableNVTX     = "NVTX_EVENTS"
	tableStrings  = "StringIds"
	tableGPUs     = "TARGET_INFO_GPU"
	tableCUDA     = "TARGET_INFO_CUDA_DEVICE"
	pushPopRange  = 59 // NVTX_EVENTS.eventType
	startEndRange = 60
)

// maxProcesses bounds those whose calls are told apart.
const maxProcesses = 1 << 12

// exportReader reads an Nsight Systems export into what a Chrome trace is read into, so that one analysis measures both.
type exportReader struct {
	*traceReader
	file *sqlite.File

	strings *sqlite.Finder
	kernels map[int64]namedKernel // by name id
	calls   map[int64]string
	axes    map[int64]axis

	gpus     map[[2]int64]int64 // by process and CUDA's number: the GPU of the machine
	slots    map[[2]int64]int32 // by process and device
	unmapped map[int64]bool     // processes whose devices no table maps
	process  map[int64]int64    // by GlobalId: its index
	blind    bool               // the export does not say which process a kernel is of
	mixed    bool               // and several launched some, so that calls cannot be matched
	graphed  []graphKernel
	earlier  int // calls of the allocator before the middle of the trace
	skipped  int // rows without times
	unnamed  int // kernels without a name
	overfull bool
}

// graphKernel is a communication kernel of a CUDA graph, which was recorded where its node was created.
type graphKernel struct {
	event int32
	node  nodeID
}

type nodeID struct{ process, node int64 }

// ReadExport reads what "nsys export --type sqlite" writes. NVTX ranges are the host's: a kernel belongs to those around the
// call that launched it, or that recorded its node of a CUDA graph. Errors: *UnsupportedError for another database,
// *sqlite.Error for one that is damaged, cut or of a kind that is not read, *LimitError for more than 2 million kernels, what
// src returns.
func ReadExport(name string, src io.ReaderAt, size int64) (*Trace, error) {
	file, err := sqlite.Open(src, size)
	if err != nil {
		return nil, err
	}
	x := &exportReader{traceReader: newTraceReader(name), file: file, kernels: map[int64]namedKernel{}, calls: map[int64]string{}, axes: map[int64]axis{},
		gpus: map[[2]int64]int64{}, slots: map[[2]int64]int32{}, unmapped: map[int64]bool{}, process: map[int64]int64{}}
	x.trace.Bytes = size
	for _, step := range []func() error{x.recognise, x.hardware, x.activities, x.label, x.hostCalls} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	trace := x.finish()
	x.remarks(trace)
	return trace, nil
}

// recognise refuses databases of others.
func (x *exportReader) recognise() error {
	names := x.file.Names()
	for _, t := range []string{tableKernels, tableGraphs, tableCalls, tableNVTX, tableGPUs} {
		if slices.Contains(names, t) {
			return x.openStrings()
		}
	}
	return &UnsupportedError{fmt.Sprintf("a SQLite database, but no export of Nsight Systems: it has neither %s nor %s", tableKernels, tableNVTX),
		fmt.Sprintf("nsys export --type sqlite writes one; tables here: %s", clipped(strings.Trim(fmt.Sprintf("%q", names), "[]")))}
}

func (x *exportReader) openStrings() error {
	t, err := x.file.Table(tableStrings)
	if err != nil || t == nil {
		return err
	}
	if !t.Keyed("id") || t.Column("value") < 0 {
		return &UnsupportedError{"StringIds is not a table of id INTEGER PRIMARY KEY and value, as nsys writes it", "export the report again: nsys export --type sqlite"}
	}
	x.strings = t.Finder(t.Column("value"))
	return nil
}

// name is the text of a column that holds a text or the id of one; "" where there is none.
func (x *exportReader) name(v sqlite.Value) (string, error) {
	switch {
	case v.Kind == sqlite.Text:
		return string(v.Bytes), nil
	case v.Kind != sqlite.Integer || x.strings == nil:
		return "", nil
	}
	row, err := x.strings.Row(v.Int)
	if err != nil || row == nil {
		return "", err
	}
	return string(row[0].Bytes), nil
}

// scan walks over a table and gives the columns that are named, Null for those that are missing. A missing table has no rows.
func (x *exportReader) scan(table string, row func(v []sqlite.Value) error, columns ...string) error {
	t, err := x.file.Table(table)
	if err != nil || t == nil {
		return err
	}
	at := make([]int, len(columns))
	for i, c := range columns {
		at[i] = t.Column(c)
	}
	return t.Scan(at, func(_ int64, v []sqlite.Value) error { return cmp.Or(row(v), x.err) })
}

// has reports whether a table has all of some columns.
func (x *exportReader) has(table string, columns ...string) bool {
	t, err := x.file.Table(table)
	return err == nil && t != nil && !slices.ContainsFunc(columns, func(c string) bool { return t.Column(c) < 0 })
}

// hardware reads which GPU of the machine is which device of a process.
func (x *exportReader) hardware() error {
	err := x.scan(tableCUDA, func(v []sqlite.Value) error {
		if v[0].Kind == sqlite.Integer && len(x.gpus) < maxNames {
			x.gpus[[2]int64{v[2].Int, v[1].Int}] = v[0].Int
		}
		return nil
	}, "gpuId", "cudaId", "pid")
	if err != nil {
		return err
	}
	return x.scan(tableGPUs, func(v []sqlite.Value) error {
		if x.trace.DeviceName == "" {
			name, err := x.name(v[0])
			if err != nil {
				return err
			}
			x.trace.DeviceName = name
			if v[1].Int > 0 {
				x.trace.DeviceMemory = Bytes{v[1].Int, true}
			}
		}
		return nil
	}, "name", "totalMemory")
}

// Ids of processes and threads are serialised: 8 bits of hardware, 8 of a virtual machine, 24 of a process, 24 of a thread.
const threadBits = 24

func processID(global int64) int64 { return global >> threadBits & (1<<threadBits - 1) }

// slot is the device of a row. Two processes number devices each for itself, so that a number alone is no GPU.
func (x *exportReader) slot(process, device sqlite.Value) (int32, error) {
	key := [2]int64{process.Int >> threadBits, device.Int}
	if n, ok := x.slots[key]; ok {
		return n, nil
	}
	if len(x.slots) >= maxNames {
		return 0, &LimitError{fmt.Sprintf("%s has devices of more than %d processes", x.trace.Name, maxNames)}
	}
	label := fmt.Sprint(device.Int)
	if gpu, ok := x.gpus[[2]int64{processID(process.Int), device.Int}]; ok && process.Kind == sqlite.Integer {
		label = fmt.Sprint(gpu)
	} else if process.Kind == sqlite.Integer {
		label = fmt.Sprintf("%d of process %d", device.Int, processID(process.Int))
		x.unmapped[process.Int>>threadBits] = true
	}
	n := x.deviceOf(label)
	x.slots[key] = n
	return n, x.err
}

// label names devices by their number alone where one process has all.
func (x *exportReader) label() error {
	if len(x.unmapped) == 1 && len(x.gpus) == 0 {
		for key, n := range x.slots {
			x.devices[n] = fmt.Sprint(key[1])
		}
	}
	return nil
}

// instant is a time; false for none. The bounds, 70 years, keep every sum and difference within 64 bits.
func instant(v sqlite.Value) (int64, bool) {
	const most = 1 << 61
	return v.Int, (v.Kind == sqlite.Integer || v.Kind == sqlite.Real) && -most < v.Int && v.Int < most
}

// launchID identifies a call: correlations count for each process. 0: not known.
func (x *exportReader) launchID(global, correlation sqlite.Value) int64 {
	if correlation.Int <= 0 || correlation.Int >= 1<<32 {
		return 0
	}
	index, ok := int64(0), true
	if !x.blind {
		if global.Kind != sqlite.Integer {
			return 0
		}
		index, ok = x.process[global.Int>>threadBits]
		if !ok && len(x.process) < maxProcesses {
			index, ok = int64(len(x.process)), true
			x.process[global.Int>>threadBits] = index
		}
	}
	if !ok {
		return 0
	}
	return index<<32 | correlation.Int
}

// unique sorts a list and drops what it holds twice.
func unique(list []int64) []int64 {
	slices.SortFunc(list, cmp.Compare[int64])
	return slices.Compact(list)
}
