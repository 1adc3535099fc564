package evidence

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func readTestLog(t testing.TB, name string) *Log {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, err := ReadLog(name, f)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func readText(t testing.TB, text string) *Log {
	t.Helper()
	log, err := ReadLog("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// TestRecordedForms holds one log of each form against the figures that testdata/generate.py put into it.
func TestRecordedForms(t *testing.T) {
	t.Run("Core 0.11: whole floats, one report", func(t *testing.T) {
		log := readTestLog(t, "core-0.11.log")
		if len(log.Memory) != 2 || log.Memory[1].Rank != 16 {
			t.Fatalf("memory of %+v", log.Memory)
		}
		m := log.Memory[0].Last
		if m.MaxAllocated.N != 41234567890 || m.Unit != "MiB" || m.Iteration != 1 {
			t.Errorf("report %+v", m)
		}
		if log.Steady(&log.Memory[0]) {
			t.Error("a report after the first iteration lacks optimizer state, and is called steady")
		}
		if len(log.Theoretical) != 1 || log.Theoretical[0].WeightsMiB != 12345.67 || log.Theoretical[0].ActivationsMiB.Known {
			t.Errorf("theory %+v", log.Theoretical)
		}
		if len(log.Parameters) != 1 || log.Parameters[0].Elements != 1000 {
			t.Errorf("parameters %+v", log.Parameters)
		}
		if it := log.Iterations[1]; it.Number != 2 || it.Of != 10 || it.Seconds.V != 1 || it.TFLOPS.V != 421 || it.GlobalBatch != 64 || it.Loss.V != 10.9 || it.GradNorm.V != 3 {
			t.Errorf("iteration %+v", it)
		}
	})
	t.Run("Core 0.20: launcher prefixes, colours, carriage returns, two reports on a line", func(t *testing.T) {
		log := readTestLog(t, "core-0.20.log")
		if len(log.Iterations) != 3 || log.Iterations[2].Loss.V != 7 {
			t.Errorf("iterations %+v", log.Iterations)
		}
		if len(log.Memory) != 3 || log.Memory[0].Last.MaxAllocated.N != 33<<30 || log.Memory[2].Last.MaxAllocated.N != 34<<30 {
			t.Errorf("memory %+v", log.Memory)
		}
		if d := log.Memory[1].Last.Device; d.N != 40<<30 {
			t.Errorf("device memory %+v", d)
		}
		if log.Versions["megatron_core"] != "0.20.0" || log.Versions["transformer_engine"] != "2.12.0" {
			t.Errorf("versions %v", log.Versions)
		}
	})
	t.Run("Bridge: 1e9, five digits, gzip", func(t *testing.T) {
		log := readTestLog(t, "bridge.log.gz")
		m := log.Memory[0].Last
		if m.Unit != "GB" || m.MaxAllocated.N != 61235000000 || m.Allocated.N != 31235000000 || m.Retries.V != 0 || !m.Retries.Known {
			t.Errorf("report %+v", m)
		}
		if len(log.StepTimes) != 8 || log.StepTimes[2].Seconds.V != 12.03 || log.StepTimes[2].TFLOPS.V != 512.3 {
			t.Errorf("step times %+v", log.StepTimes)
		}
		if !log.Steady(&log.Memory[0]) {
			t.Error("the second report is steady")
		}
	})
	t.Run("out of memory", func(t *testing.T) {
		log := readTestLog(t, "oom.log")
		if len(log.OutOfMemory) != 3 || log.OOMLines != 4 {
			t.Fatalf("errors %+v, %d lines", log.OutOfMemory, log.OOMLines)
		}
		got := log.OutOfMemory[0]
		want := OutOfMemory{Rank: 1, Iteration: 1, Tried: toBytes(1.5, gib), Capacity: toBytes(79.15, gib), Free: toBytes(147.75, mib),
			Process: toBytes(78.98, gib), Allocated: toBytes(78.17, gib), Cached: toBytes(13.03, mib), Line: got.Line}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if !log.OutOfMemory[2].Outside || log.OutOfMemory[2].Rank != -1 {
			t.Errorf("NCCL's %+v", log.OutOfMemory[2])
		}
	})
	t.Run("losses that are no numbers", func(t *testing.T) {
		log := readTestLog(t, "fake-agrees.log")
		if it := log.Iterations[0]; it.Loss.Known || !math.IsNaN(it.GradNorm.V) || it.NaN != 1 {
			t.Errorf("iteration %+v", it)
		}
		if !log.Fake() {
			t.Error("not known as a fake run")
		}
		if _, runs := log.LastRun(); runs != 2 {
			t.Errorf("%d runs, two ranks were checked", runs)
		}
	})
}

// memoryLine is Core 0.20's.
func memoryLine(rank, it int, peak int64) string {
	f := float64(peak) / mib
	return fmt.Sprintf("[Rank %d] (after %d iterations) memory (MB) | allocated: %.2f | max allocated: %.2f | reserved: %.2f | max reserved: %.2f",
		rank, it, f/2, f, f, f)
}

func iterationLine(it int, ms float64) string {
	return fmt.Sprintf(" [2026-08-22 10:00:00.000000] iteration %8d/%8d | consumed samples: %12d | elapsed time per iteration (ms): %.1f |"+
		" learning rate: 1.000000E-04 | global batch size:  2048 | lm loss: 1.100000E+01 | loss scale: 1.0 | grad norm: 1.000 |"+
		" number of skipped iterations:   0 | number of nan iterations:   0 |", it, 100, it*2048, ms)
}

// TestInterleaving: the order in which ranks' lines are mixed does not change what a rank reported.
func TestInterleaving(t *testing.T) { rapid.Check(t, interleaving) }

func interleaving(t *rapid.T) {
	ranks := rapid.IntRange(1, 6).Draw(t, "ranks")
	queues := make([][]string, 0, ranks+1)
	want := map[int]int64{}
	for r := range ranks {
		var q []string
		for it := range rapid.IntRange(1, 4).Draw(t, "reports") {
			peak := rapid.Int64Range(1, 1<<20).Draw(t, "peak") * mib
			want[r*3], q = peak, append(q, memoryLine(r*3, it+1, peak))
			if rapid.Bool().Draw(t, "noise") {
				q = append(q, rapid.SampledFrom([]string{"", "|", "memory (MB)", "[Rank 5] starting", "iteration 5/ 6 of the loader", "\x1b[31mwarn\x1b[0m", "x: 0%\rx: 99%\r"}).Draw(t, "what"))
			}
		}
		queues = append(queues, q)
	}
	var its []string
	for i := range rapid.IntRange(0, 5).Draw(t, "iterations") {
		its = append(its, iterationLine(i+1, 1000+float64(i)))
	}
	n := len(its)
	queues = append(queues, its)
	var b strings.Builder
	for {
		queues = slices.DeleteFunc(queues, func(q []string) bool { return len(q) == 0 })
		if len(queues) == 0 {
			break
		}
		i := rapid.IntRange(0, len(queues)-1).Draw(t, "next")
		b.WriteString(queues[i][0] + rapid.SampledFrom([]string{"\n", "\r\n", "\n\n"}).Draw(t, "end"))
		queues[i] = queues[i][1:]
	}
	log, err := ReadLog("mixed", strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Memory) != len(want) || len(log.Iterations) != n {
		t.Fatalf("%d ranks and %d iterations, want %d and %d", len(log.Memory), len(log.Iterations), len(want), n)
	}
	for _, m := range log.Memory {
		if m.Last.MaxAllocated.N != want[m.Rank] {
			t.Fatalf("rank %d: %d, want %d", m.Rank, m.Last.MaxAllocated.N, want[m.Rank])
		}
	}
}

// TestTruncation: what is read of a file that was cut anywhere stands in the whole file too.
func TestTruncation(t *testing.T) {
	for _, name := range []string{"core-0.11.log", "core-0.20.log", "fake-agrees.log", "oom.log", "bridge.log.gz"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".gz") {
			data = unzip(t, data)
		}
		whole := readText(t, string(data))
		reports := map[int64]MemoryReport{}
		for _, m := range everyReport(data) {
			reports[int64(m.Rank)<<32|int64(m.Iteration)] = m
		}
		for n := range len(data) {
			log := readText(t, string(data[:n]))
			for _, r := range log.Memory {
				if full := reports[int64(r.Rank)<<32|int64(r.Last.Iteration)]; r.Last.MaxAllocated != full.MaxAllocated || r.Last.Allocated != full.Allocated {
					t.Fatalf("%s cut at %d: rank %d reports %+v, whole it is %+v", name, n, r.Rank, r.Last, full)
				}
			}
			for i, it := range log.Iterations {
				if full := whole.Iterations[i]; !equalIteration(it, full) {
					t.Fatalf("%s cut at %d: iteration %+v, whole it is %+v", name, n, it, full)
				}
			}
			for i, o := range log.OutOfMemory {
				if o != whole.OutOfMemory[i] {
					t.Fatalf("%s cut at %d: %+v, whole it is %+v", name, n, o, whole.OutOfMemory[i])
				}
			}
			for i, s := range log.Parameters {
				if !slices.Contains(whole.Parameters, s) {
					t.Fatalf("%s cut at %d: parameters %+v (%d)", name, n, s, i)
				}
			}
		}
	}
}

func equalIteration(a, b Iteration) bool {
	for _, it := range []*Iteration{&a, &b} {
		if math.IsNaN(it.GradNorm.V) {
			it.GradNorm = Value{}
		}
	}
	return a == b
}

func everyReport(data []byte) (all []MemoryReport) {
	for line := range bytes.Lines(data) {
		all = append(all, parseMemory(bytes.TrimRight(line, "\r\n"), true)...)
	}
	return all
}

func unzip(t testing.TB, data []byte) []byte {
	t.Helper()
	r, err := unpacked(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCutCompression: a gzip file that was cut gives the lines before the cut, and no error.
func TestCutCompression(t *testing.T) {
	data, err := os.ReadFile("testdata/bridge.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(data) {
		log, err := ReadLog("cut", bytes.NewReader(data[:n]))
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if n > 2 && !log.Cut {
			t.Fatalf("cut at %d of %d is not noticed", n, len(data))
		}
	}
}

// TestBounds: lines, iterations and values that are too long are cut, and said to be.
func TestBounds(t *testing.T) {
	long := strings.Repeat("x", 3*maxLine) + "\n" + memoryLine(0, 2, 1<<30) + "\n"
	log := readText(t, long+strings.Repeat("y", 2*maxLine)+"\r"+memoryLine(1, 2, 1<<30)+"\n")
	if log.LongLines != 2 || len(log.Memory) != 2 {
		t.Errorf("%d long lines, %d ranks", log.LongLines, len(log.Memory))
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i := range maxIterations + 10 {
		fmt.Fprintln(z, iterationLine(i+1, 1))
	}
	fmt.Fprintln(z, iterationLine(maxIterations+10, 1)) // the same line again, which is no restart
	z.Close()
	log, err := ReadLog("many", &b)
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Iterations) != maxIterations || log.Dropped != 10 || log.Iterations[0].Number != 11 || log.Iterations[maxIterations-1].Number != maxIterations+10 {
		t.Errorf("%d iterations from %d, %d dropped", len(log.Iterations), log.Iterations[0].Number, log.Dropped)
	}
}

// FuzzReadLog: nothing in a log makes the reader fail or panic, and twice the same gives the same.
func FuzzReadLog(f *testing.F) {
	f.Add([]byte(bridgeYAML))
	f.Add([]byte(bridgeSummaryText))
	for _, name := range []string{"core-0.11.log", "core-0.20.log", "oom.log", "fake-agrees.log", "bridge.log.gz"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("[Rank 0] (after 1 iterations) memory (GB) | mem-max-allocated-gigabytes: 1e999"))
	f.Add([]byte("\x1b]0;title\x07[Rank \x1b[31m9\x1b[0m] (after 1 iterations) memory (MB) | max allocated: nan\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		log, err := ReadLog("fuzz", bytes.NewReader(data))
		if err != nil {
			return // damaged compression
		}
		for _, m := range log.Memory {
			if m.Rank < 0 || !m.Last.MaxAllocated.Known || m.Last.MaxAllocated.N < 0 {
				t.Fatalf("report %+v", m)
			}
		}
		for _, it := range log.Iterations {
			if it.Seconds.Known && !(it.Seconds.V > 0) {
				t.Fatalf("iteration %+v", it)
			}
		}
	})
}

// FuzzInterleaving runs the property on the fuzzer's choices.
func FuzzInterleaving(f *testing.F) { f.Fuzz(rapid.MakeFuzz(interleaving)) }

// repeated reads a text over and over up to a number of bytes.
type repeated struct {
	text []byte
	at   int
	left int64
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(int64(len(p)), r.left)], r.text[r.at:])
	r.at, r.left = (r.at+n)%len(r.text), r.left-int64(n)
	return n, nil
}

// BenchmarkReadLog streams 1 GB of a log in which one line in ten says something.
func BenchmarkReadLog(b *testing.B) {
	var text strings.Builder
	for i := range 1000 {
		switch {
		case i%20 == 0:
			fmt.Fprintln(&text, iterationLine(i+1, 1000))
		case i%20 == 10:
			fmt.Fprintln(&text, memoryLine(i%256, i, 60<<30))
		default:
			fmt.Fprintf(&text, "node%d: DEBUG 2026-08-22 10:00:00 [dataloader.py:%d] batch %d prefetched, queue depth 3, latency 12.3 ms\n", i%32, i, i)
		}
	}
	const size = 1 << 30
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		log, err := ReadLog("bench", &repeated{text: []byte(text.String()), left: size})
		if err != nil || len(log.Memory) == 0 {
			b.Fatal(err, len(log.Memory))
		}
	}
}
