package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func readTestTrace(t testing.TB, name string) *Trace {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := ReadTrace(name, f)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// TestTrace: figures by hand from testdata/generate.py. A step has four layers of 100 us of compute, 100 us of all-to-all that
// begins halfway, and 100 us of compute; then a hop of 50 us, 40 us of nothing and a kernel of 10 us.
func TestTrace(t *testing.T) {
	trace := readTestTrace(t, "trace.json.gz")
	const us = 1000
	want := DeviceTrace{Device: "0", Span: 2*(4*250+50+40+10)*us - 0, Compute: 2 * (8*100 + 10) * us, Communication: 2 * (4*100 + 50) * us,
		Hidden: 2 * 4 * 50 * us, Exposed: 2 * (4*50 + 50) * us, Idle: 2 * 40 * us, HostIdle: 2 * 35 * us, Gaps: 2, LongestGap: 40 * us, Launched: 2,
		ComputeKernels: 2 * 9, Kinds: []KindTrace{{KindEP, 8, 800 * us, 400 * us, 400 * us}, {KindPP, 2, 100 * us, 0, 100 * us}},
		Operations: []OperationTrace{{OpSendReceive, KindTrace{KindEP, 8, 800 * us, 400 * us, 400 * us}}, {OpSendReceive, KindTrace{KindPP, 2, 100 * us, 0, 100 * us}}}}
	if len(trace.Devices) != 1 {
		t.Fatalf("devices %+v", trace.Devices)
	}
	if d := cmp.Diff(want, trace.Devices[0]); d != "" {
		t.Error(d)
	}
	if trace.Steps != 2 || *trace.Rank != 3 || *trace.World != 16 || trace.DeviceMemory.N != 85021163520 || trace.DeviceName != "NVIDIA H100 80GB HBM3" || trace.Guessed != 0 {
		t.Errorf("trace %+v", trace)
	}
	if d := cmp.Diff(map[string]int{"nccl": 10, "fp8-gemm": 8}, trace.Features); d != "" {
		t.Error(d)
	}
}

// TestTraceWithoutNames: without process groups the operation tells, and the trace says that it was guessed.
func TestTraceWithoutNames(t *testing.T) {
	named, unnamed := readTestTrace(t, "trace.json.gz"), readTestTrace(t, "trace-unnamed.jsonl.gz")
	if d := cmp.Diff(named.Devices, unnamed.Devices); d != "" {
		t.Error(d)
	}
	if unnamed.Guessed != 10 {
		t.Errorf("%d guessed, want 10", unnamed.Guessed)
	}
}

// TestTraceAgainstTimeline: random kernels on random streams against one point of time after another.
func TestTraceAgainstTimeline(t *testing.T) { rapid.Check(t, traceAgainstTimeline) }

func traceAgainstTimeline(t *rapid.T) {
	names := []struct {
		name string
		kind Kind // numKinds: compute
	}{{"gemm", numKinds}, {"deep_ep::intranode::dispatch<8>", KindEP}, {"kuserbuffers_pushrecv", KindTP}, {"ncclDevKernel_AllReduce", KindOther}}
	var b strings.Builder
	var compute, comm [timeline]bool
	var kinds [numKinds][timeline]bool
	b.WriteString(`{"traceEvents": [`)
	first, last := int64(timeline), int64(0)
	n := rapid.IntRange(1, 12).Draw(t, "kernels")
	for i := range n {
		k := rapid.SampledFrom(names).Draw(t, "name")
		start := rapid.Int64Range(0, timeline-1).Draw(t, "start")
		length := rapid.Int64Range(1, timeline-start).Draw(t, "length")
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":%d,"ts":%d,"dur":%d}`, k.name, i%3, start, length)
		first, last = min(first, start), max(last, start+length)
		for p := start; p < start+length; p++ {
			if k.kind == numKinds {
				compute[p] = true
			} else {
				comm[p], kinds[k.kind][p] = true, true
			}
		}
	}
	b.WriteString("]}")
	trace, err := ReadTrace("drawn", strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	var want DeviceTrace
	want.Span = (last - first) * 1000
	for p := first; p < last; p++ {
		switch {
		case compute[p] && comm[p]:
			want.Hidden += 1000
		case comm[p]:
			want.Exposed += 1000
		case !compute[p]:
			want.Idle += 1000
		}
		if compute[p] {
			want.Compute += 1000
		}
	}
	d := trace.Devices[0]
	if d.Span != want.Span || d.Compute != want.Compute || d.Hidden != want.Hidden || d.Exposed != want.Exposed || d.Idle != want.Idle {
		t.Fatalf("%s\n%+v, want %+v", b.String(), d, want)
	}
	for _, k := range d.Kinds {
		var total, hidden int64
		for p := range timeline {
			if kinds[k.Kind][p] {
				total += 1000
				if compute[p] {
					hidden += 1000
				}
			}
		}
		if k.Total != total || k.Hidden != hidden || k.Exposed != total-hidden {
			t.Fatalf("%s: %+v, want %d and %d", k.Kind, k, total, hidden)
		}
	}
}

// TestGapEndedTogether: of two kernels that end a gap, the one queued first, at 130, could have ended it, whichever the trace holds first.
func TestGapEndedTogether(t *testing.T) {
	const before = `{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":0,"dur":100}`
	kernel := func(correlation int) string {
		return fmt.Sprintf(`,{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":200,"dur":10,"args":{"correlation":%d}}`, correlation)
	}
	call := func(correlation, end int) string {
		return fmt.Sprintf(`,{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":%d,"dur":5,"args":{"correlation":%d}}`, end-5, correlation)
	}
	for _, events := range []string{kernel(1) + kernel(2) + kernel(3), kernel(3) + kernel(2) + kernel(1)} {
		trace, err := ReadTrace("together", strings.NewReader("["+before+events+call(1, 190)+call(2, 130)+"]"))
		if err != nil {
			t.Fatal(err)
		}
		if d := trace.Devices[0]; d.Idle != 100_000 || d.HostIdle != 30_000 || d.Launched != 1 {
			t.Errorf("%s: %+v", events, d)
		}
	}
}

// TestTraceCut: a trace that is cut anywhere gives no error and no more than the whole one.
func TestTraceCut(t *testing.T) {
	data, err := os.ReadFile("testdata/trace.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	data = unzip(t, data)
	whole := readTestTrace(t, "trace.json.gz")
	end := len(bytes.TrimRight(data, "\n"))
	for n := 10; n < end; n += 7 {
		trace, err := ReadTrace("cut", bytes.NewReader(data[:n]))
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if !trace.Cut || trace.Events > whole.Events {
			t.Fatalf("cut at %d: cut %v, %d events", n, trace.Cut, trace.Events)
		}
	}
}

func TestNotATrace(t *testing.T) {
	for _, tt := range []struct{ name, data, want string }{
		{"SQLite", "SQLite format 3\x00....", "a SQLite database cannot be read as a stream: give the file itself"},
		{"text", "hello", "no Chrome trace"},
		{"nothing", "", ""},
	} {
		_, err := ReadTrace(tt.name, strings.NewReader(tt.data))
		var unsupported *UnsupportedError
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		} else if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	for _, bad := range []string{"{", `{"a"`, `{"a":`, `{"traceEvents":[{"ph":"X"`, `{1:2}`, `[}`, `{"a":]}`, `{"ph":"X","ts":1e400,"cat":"kernel"}`, strings.Repeat("[", 100000)} {
		if _, err := ReadTrace("bad", strings.NewReader(bad)); err != nil && !errors.Is(err, errJSON) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

// TestNanoseconds: recorded stamps have more digits than a float64.
func TestNanoseconds(t *testing.T) {
	for text, want := range map[string]int64{"1": 1000, "0.001": 1, "5820427393421.123": 5820427393421123, "1.5e3": 1500000, "-2.5": -2500, "12.3456789": 12345} {
		if got, ok := nanoseconds([]byte(text)); !ok || got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	for _, text := range []string{"", "x", "1e99", "99999999999999999999"} {
		if got, ok := nanoseconds([]byte(text)); ok {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}

// TestKernelNames: names as recorded traces have them.
func TestKernelNames(t *testing.T) {
	for _, tt := range []struct {
		name    string
		class   class
		kind    Kind
		feature Feature
		reason  string
	}{
		{"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*, long*)", classComm, KindEP, FeatureDeepEP, "DeepEP"},
		{"void hybrid_ep::dispatch_kernel<...>", classComm, KindEP, FeatureHybridEP, "HybridEP"},
		{"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)", classComm, KindOther, FeatureNCCL, "NCCL 2.19 on"},
		{"void cutlass::device_kernel<sm90_gemm_e4m3>", classCompute, 0, FeatureFP8, "an FP8 product"},
		{"transformer_engine::cast_fp8_kernel", classCompute, 0, NoFeature, "a cast proves no product"},
		{"nvjet_qqtst_128x256_128x4", classCompute, 0, FeatureFP8, "cuBLASLt names operands q"},
		{"void permute_kernel<__nv_bfloat16>", classCompute, 0, NoFeature, "permutation computes"},
	} {
		got := nameKernel(tt.name)
		if got.class != tt.class || got.feature != tt.feature || tt.class == classComm && got.kind != tt.kind {
			t.Errorf("%s: %+v: %s", tt.name, got, tt.reason)
		}
	}
	for description, want := range map[string]Kind{"EXPERT_MODEL_PARALLEL_GROUP": KindEP, "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP": KindEP,
		"EXPERT_DATA_PARALLEL_GROUP": KindDP, "DATA_PARALLEL_GROUP_WITH_CP": KindDP, "CONTEXT_PARALLEL_GROUP": KindCP, "TENSOR_MODEL_PARALLEL_GROUP": KindTP,
		"PIPELINE_MODEL_PARALLEL_GROUP": KindPP, "EXPERT_TENSOR_PARALLEL_GROUP": KindTP, "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP": KindDP,
		"HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L0": KindCP} {
		if got, ok := groupKind(description); !ok || got != want {
			t.Errorf("%s: %s, want %s", description, got, want)
		}
	}
	for _, description := range []string{"", "default_pg", "MODEL_PARALLEL_GROUP", "TENSOR_AND_DATA_PARALLEL_GROUP"} {
		if got, ok := groupKind(description); ok {
			t.Errorf("%q is taken for %s", description, got)
		}
	}
}

func TestWall(t *testing.T) {
	trace := readTestTrace(t, "trace.json.gz")
	if w := trace.Wall(Memory{}); w.Wall != "communication" || w.Axis != "EP" || len(w.Fixes) < 3 || len(w.Unknown) != 1 {
		t.Errorf("%+v", w)
	}
	log := readTestLog(t, "oom.log")
	if w := trace.Wall(Memory{Log: log}); w.Wall != "memory" {
		t.Errorf("a run out of memory: %+v", w)
	}
	for _, tt := range []struct {
		wall, reason string
		d            DeviceTrace
	}{
		{"host", "idle before the launch", DeviceTrace{Span: 100, Compute: 60, Idle: 30, HostIdle: 25, Gaps: 3, Launched: 3}},
		{"compute", "idle for dependencies is not the host's", DeviceTrace{Span: 100, Compute: 70, Idle: 30, HostIdle: 5, Gaps: 3, Launched: 3}},
		{"compute", "everything is hidden", DeviceTrace{Span: 100, Compute: 95, Communication: 60, Hidden: 60}},
	} {
		if w := (&Trace{Devices: []DeviceTrace{tt.d}}).Wall(Memory{}); w.Wall != tt.wall {
			t.Errorf("%s: %s, want %s", tt.reason, w.Wall, tt.wall)
		}
	}
	if w := (&Trace{}).Wall(Memory{}); w.Wall != "" {
		t.Errorf("no kernels: %+v", w)
	}
}

// TestFixes: each wall and axis has a fix, and each fix a source.
func TestFixes(t *testing.T) {
	for _, wall := range Walls {
		axes := []string{""}
		if wall == "communication" {
			axes = kindNames[:]
		}
		for _, axis := range axes {
			if len(fixesFor(wall, axis)) == 0 {
				t.Errorf("no fix for %s %s", wall, axis)
			}
		}
	}
	for _, f := range fixes {
		if f.fix.Source == "" || !slices.Contains(Walls, f.wall) {
			t.Errorf("%+v", f)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	data, err := os.ReadFile("testdata/trace.json.gz")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(unzip(f, data)[:4000])
	f.Add([]byte(`[{"ph":"X","cat":"kernel","name":"nccl:x","pid":"a","ts":1,"dur":-5,"args":{"Process Group Name":}}]`))
	f.Add([]byte(`{"ph":"X","cat":"kernel","ts":1.5,"dur":2,"name":"\ud83d\ude00\""} {"ph":"X"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		trace, err := ReadTrace("fuzz", bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, d := range trace.Devices {
			if d.Hidden+d.Exposed != d.Communication || d.Idle < 0 || d.Idle > d.Span || d.HostIdle > d.Idle || d.Compute > d.Span {
				t.Fatalf("%+v", d)
			}
		}
		trace.Wall(Memory{})
	})
}

// BenchmarkReadTrace streams 1 GB of events as PyTorch writes them, one kernel in six.
func BenchmarkReadTrace(b *testing.B) {
	f, err := os.ReadFile("testdata/trace.json.gz")
	if err != nil {
		b.Fatal(err)
	}
	text := unzip(b, f)
	start := bytes.Index(text, []byte(`"traceEvents": [`)) + len(`"traceEvents": [`)
	end := bytes.LastIndex(text, []byte(`]`))
	events := append(bytes.TrimRight(text[start:end], " \n"), ',')
	cpu := []byte(`{"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 1, "tid": 2, "ts": 12.5, "dur": 1.5, "args": {"Input Dims": [[4096, 7168], [], []], "Call stack": "` + strings.Repeat("train.py(12): step;", 20) + `"}},` + "\n")
	for range 40 {
		events = append(events, cpu...)
	}
	const size = 1 << 30
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		trace, err := ReadTrace("bench", io.MultiReader(strings.NewReader(`{"traceEvents": [`), &repeated{text: events, left: size}))
		if err != nil || len(trace.Devices) == 0 {
			b.Fatal(err)
		}
	}
}
