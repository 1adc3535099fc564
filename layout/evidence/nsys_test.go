package evidence

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moeplan/moeplan/layout/evidence/sqlite"
)

func readTestExport(t testing.TB, data []byte) (*Trace, error) {
	t.Helper()
	return ReadExport("nsys.sqlite", bytes.NewReader(data), int64(len(data)))
}

func testExport(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/nsys.sqlite")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestExport: nsys.sqlite holds the run of trace.json.gz, with NVTX ranges in place of process groups: every figure is the same,
// the axes too.
func TestExport(t *testing.T) {
	got, err := readTestExport(t, testExport(t))
	if err != nil {
		t.Fatal(err)
	}
	want := readTestTrace(t, "trace.json.gz")
	if d := cmp.Diff(want.Devices, got.Devices); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want.Features, got.Features); d != "" {
		t.Error(d)
	}
	if got.DeviceName != want.DeviceName || got.DeviceMemory != want.DeviceMemory || len(got.Notes) != 0 || got.Guessed != 0 {
		t.Errorf("%+v", got)
	}
	// 28 kernels, 28 calls, and of 12 ranges all are looked at.
	if got.Events != 28+28+12 || got.Bytes != int64(len(testExport(t))) {
		t.Errorf("%d events, %d bytes", got.Events, got.Bytes)
	}
	if w := got.Wall(Memory{}); w.Wall != "communication" || w.Axis != "EP" {
		t.Errorf("%+v", w)
	}
}

// TestExportCut: a database that was cut, whatever the place, is an error that says so, since nothing in it can be trusted to be whole.
func TestExportCut(t *testing.T) {
	data := testExport(t)
	for n := 0; n < len(data); n += 509 {
		_, err := readTestExport(t, data[:n])
		var damaged *sqlite.Error
		if !errors.As(err, &damaged) || !strings.Contains(err.Error(), "cut") && !strings.Contains(err.Error(), "are no database") {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

// TestInnermost: each row asks for the axis at 50 on thread 1.
func TestInnermost(t *testing.T) {
	ep, cp, guess := axis{KindEP, true, false}, axis{KindCP, true, false}, axis{KindPP, true, true}
	for _, tt := range []struct {
		reason string
		ranges []axisRange
		want   axis
	}{
		{"nothing", nil, axis{}},
		{"around", []axisRange{{1, Interval{0, 100}, ep}}, ep},
		{"another thread's", []axisRange{{2, Interval{0, 100}, ep}, {0, Interval{0, 100}, ep}}, axis{}},
		{"it begins with the range", []axisRange{{1, Interval{50, 60}, ep}}, ep},
		{"the range ends just before", []axisRange{{1, Interval{0, 50}, ep}}, axis{}},
		{"the inner one of two", []axisRange{{1, Interval{10, 90}, ep}, {1, Interval{0, 100}, cp}}, ep},
		{"the inner one of two that begin at once", []axisRange{{1, Interval{0, 60}, ep}, {1, Interval{0, 100}, cp}}, ep},
		{"an operation gives way to an axis around it", []axisRange{{1, Interval{40, 60}, guess}, {1, Interval{0, 100}, cp}}, cp},
		{"an operation alone", []axisRange{{1, Interval{40, 60}, guess}}, guess},
		{"a thousand that ended within an outer one", append(many(1000, axisRange{1, Interval{10, 20}, ep}), axisRange{1, Interval{0, 100}, cp}), cp},
	} {
		if got := innermost(tt.ranges, []moment{{1, 200}, {1, 50}, {0, 50}})[1]; got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.reason, got, tt.want)
		}
	}
}

func many(n int, r axisRange) (out []axisRange) {
	for range n {
		out = append(out, r)
	}
	return out
}

func FuzzReadExport(f *testing.F) {
	f.Add(testExport(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		trace, err := readTestExport(t, data)
		if err != nil {
			return
		}
		for _, d := range trace.Devices {
			if d.Hidden+d.Exposed != d.Communication || d.Idle < 0 || d.Idle > d.Span || d.HostIdle > d.Idle || d.HostIdle < 0 || d.Compute > d.Span || d.Graphs > d.Span {
				t.Fatalf("%+v", d)
			}
		}
		trace.Wall(Memory{})
	})
}
