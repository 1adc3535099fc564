package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/moeplan/moeplan/layout/evidence/sqlite"
)

// Bounds of what is held of a trace: 440 MB were measured at the most kernels. A gigabyte of PyTorch's traces has under a million kernels.
const (
	maxKernels  = 2 << 20
	maxLaunches = 4 << 20
	maxRanges   = 1 << 20
	maxNames    = 1 << 14
	maxGroups   = 1 << 12
	maxDevices  = 1 << 10
)

// UnsupportedError is a file that is no trace.
type UnsupportedError struct{ What, Hint string }

func (e *UnsupportedError) Error() string { return e.What + ": " + e.Hint }

// gpuEvent is a kernel or a copy.
type gpuEvent struct {
	start, end int64
	launch     int64 // correlation; 0: none
	device     int32
	stream     int32
	group      int32 // index of its process group, -1: none
	kind       Kind
	class      class
	op         Operation
}

// launch is a call of the host that queued something.
type launch struct{ correlation, end int64 }

type traceReader struct {
	json     *jsonReader
	trace    Trace
	events   []gpuEvent
	launches []launch
	ranges   []axisRange
	names    map[string]namedKernel
	groups   []string // process groups by index: a description, or "#" and a name to be looked up
	groupAt  map[string]int32
	config   map[string]string // process group name -> description
	devices  []string
	deviceAt map[string]int32
	streams  map[string]int32
	steps    map[string]bool
	counts   [numFeatures]int
	err      error // a limit

	e chromeEvent // reused
}

// chromeEvent is the part of an event that is looked at.
type chromeEvent struct {
	phase, category, pid, tid string
	name                      string
	start, duration           int64
	timed                     bool
	correlation               int64
	group, description, op    string
}

// ReadTrace reads a Chrome trace as PyTorch's profiler exports it: an object with traceEvents, an array of events, or one
// event a line; gzipped or not. Errors: *UnsupportedError for a SQLite database and whatever else is no JSON, *LimitError for
// more than 2 million kernels, what src returns. A trace that was cut gives its whole events, and Cut.
func ReadTrace(name string, src io.Reader) (*Trace, error) {
	r, err := unpacked(src)
	if err != nil {
		return nil, err
	}
	b := bufio.NewReaderSize(r, 16)
	if head, _ := b.Peek(16); bytes.HasPrefix(head, []byte(sqlite.Magic)) {
		return nil, &UnsupportedError{"a SQLite database cannot be read as a stream", "give the file itself, unpacked: its pages lie in no order"}
	}
	t := newTraceReader(name)
	t.json = newJSONReader(b)
	switch err := t.top(); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		t.trace.Cut = true
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	}
	t.trace.Bytes = t.json.before + int64(t.json.at)
	return t.finish(), nil
}

func newTraceReader(name string) *traceReader {
	t := &traceReader{names: map[string]namedKernel{}, groupAt: map[string]int32{}, config: map[string]string{}, deviceAt: map[string]int32{},
		streams: map[string]int32{}, steps: map[string]bool{}}
	t.trace.Name = name
	return t
}

func (t *traceReader) top() error {
	for first := true; ; first = false {
		switch c := t.json.next(); {
		case c == 0:
			return t.json.err
		case c == '{':
			if err := t.event(true); err != nil {
				return err
			}
		case c == '[':
			if err := t.json.array(t.element); err != nil {
				return err
			}
		case c == ',' && !first:
			t.json.take()
		case first:
			return &UnsupportedError{"no Chrome trace", "want the JSON that torch.profiler's export_chrome_trace writes, or one event a line"}
		default:
			return t.json.fail("event")
		}
	}
}

// element reads one event of an array.
func (t *traceReader) element() error {
	if t.json.next() != '{' {
		return t.json.skip()
	}
	return t.event(false)
}

// event reads an object: an event, or at the top also the envelope around all.
func (t *traceReader) event(top bool) error {
	t.e = chromeEvent{}
	e := &t.e
	err := t.json.object(func(key string) error {
		switch key {
		case "ph":
			return t.text(&e.phase)
		case "cat":
			return t.text(&e.category)
		case "name":
			return t.text(&e.name)
		case "pid":
			return t.text(&e.pid)
		case "tid":
			return t.text(&e.tid)
		case "ts":
			b, err := t.json.scalar()
			if err == nil {
				e.start, e.timed = nanoseconds(b)
			}
			return err
		case "dur":
			b, err := t.json.scalar()
			if err == nil {
				e.duration, _ = nanoseconds(b)
			}
			return err
		case "args":
			if t.json.next() != '{' || e.category != "" && !wanted(e.category) {
				return t.json.skip()
			}
			return t.json.object(t.argument)
		}
		if top {
			return t.envelope(key)
		}
		return t.json.skip()
	})
	if err == nil && e.phase == "X" && e.timed {
		t.trace.Events++
		t.take(e)
	}
	return errors.Join(err, t.err)
}

// text reads a scalar; the few values that repeat are shared.
func (t *traceReader) text(into *string) error {
	b, err := t.json.scalar()
	if err != nil {
		return err
	}
	switch string(b) {
	case "X":
		*into = "X"
	case "kernel":
		*into = "kernel"
	case "cpu_op":
		*into = "cpu_op"
	case "cuda_runtime":
		*into = "cuda_runtime"
	default:
		*into = string(b)
	}
	return nil
}

// argument reads a member of args.
func (t *traceReader) argument(key string) error {
	e := &t.e
	switch key {
	case "correlation":
		b, err := t.json.scalar()
		if err == nil {
			e.correlation, _ = strconv.ParseInt(string(b), 10, 64)
		}
		return err
	case "Process Group Name":
		return t.text(&e.group)
	case "Process Group Description":
		return t.text(&e.description)
	case "Collective name":
		return t.text(&e.op)
	}
	return t.json.skip()
}

// wanted: categories of PyTorch's profiler, and of its older versions.
func wanted(category string) bool {
	switch category {
	case "kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset", "gpu_user_annotation", "user_annotation", "cuda_runtime", "cuda_driver", "Runtime",
		"hip_runtime":
		return true
	}
	return false
}

// envelope reads what stands around the events.
func (t *traceReader) envelope(key string) error {
	switch next := t.json.next(); {
	case key == "traceEvents" && next == '[':
		err := t.json.array(t.element)
		t.e = chromeEvent{} // the envelope itself is none
		return err
	case key == "distributedInfo" && next == '{':
		return t.json.object(t.distributed)
	case key == "deviceProperties" && next == '[':
		return t.json.array(func() error {
			if t.json.next() != '{' {
				return t.json.skip()
			}
			return t.json.object(t.device)
		})
	}
	return t.json.skip()
}

func (t *traceReader) distributed(key string) error {
	switch next := t.json.next(); {
	case (key == "rank" || key == "world_size") && next != '{' && next != '[':
		b, err := t.json.scalar()
		if n, bad := strconv.Atoi(string(b)); bad == nil && n >= 0 {
			if key == "rank" {
				t.trace.Rank = &n
			} else {
				t.trace.World = &n
			}
		}
		return err
	case key == "pg_config" && next == '[':
		return t.json.array(func() error {
			if t.json.next() != '{' {
				return t.json.skip()
			}
			name, description := "", ""
			err := t.json.object(func(key string) error {
				switch key {
				case "pg_name":
					return t.text(&name)
				case "pg_desc":
					return t.text(&description)
				}
				return t.json.skip()
			})
			if len(t.config) < maxGroups {
				t.config[name] = description
			}
			return err
		})
	}
	return t.json.skip()
}

func (t *traceReader) device(key string) error {
	switch key {
	case "totalGlobalMem":
		b, err := t.json.scalar()
		if n, bad := strconv.ParseInt(string(b), 10, 64); bad == nil && n > 0 {
			t.trace.DeviceMemory = Bytes{n, true}
		}
		return err
	case "name":
		return t.text(&t.trace.DeviceName)
	}
	return t.json.skip()
}
