package evidence

import (
	"encoding/json"
	"testing"
)

// TestUnknownIsNull: in JSON a figure that nobody knows is null, never 0 or -1, which a program would add up.
func TestUnknownIsNull(t *testing.T) {
	const nccl = "ncclUnhandledCudaError: Call to CUDA function failed. Cuda failure 2 'out of memory'\n"
	for _, tt := range []struct {
		name, text string
		null       []string // of the first rank
		reason     string
	}{
		{"an error without a rank", nccl, []string{"rank", "pipeline_rank", "predicted_peak_allocated", "measured_peak_allocated", "deviation",
			"predicted_allocated_after_step"}, "which stage ran out is not known, so neither is what was predicted for it"},
		{"an error with a rank and no amounts", "[rank40]: " + nccl, []string{"measured_peak_allocated", "deviation"}, "outside the allocator nothing is counted"},
		{"an error below the prediction", "[rank40]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB" +
			" of which 1.00 GiB is free. Of the allocated memory 30.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n",
			[]string{"deviation"}, "32 GiB is a lower bound of what was to be 39"},
		{"a report", memoryLine(0, 2, 40<<30) + "\n", nil, "all is known"},
	} {
		v := verify(t, testClaim(t), tt.text)
		text, err := json.Marshal(v.Ranks[0])
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for _, key := range tt.null {
			want[key] = true
		}
		for key, value := range got {
			if (value == nil) != want[key] {
				t.Errorf("%s: %s is %v: %s", tt.name, key, value, tt.reason)
			}
		}
		if len(tt.null) > 0 {
			if covered, _ := json.Marshal(v.Coverage.Covered); string(covered) != "null" {
				t.Errorf("%s: %s is covered, and no rank reported", tt.name, covered)
			}
			if report := got["report"].(map[string]any); report["iteration"] != nil || report["max_allocated"] != nil {
				t.Errorf("%s: an error is no report: %v", tt.name, report)
			}
		}
	}
	for _, tt := range []struct {
		of   any
		want string
	}{{Index(-1), "null"}, {Index(0), "0"}, {Index(7), "7"}, {Ordinal(0), "null"}, {Ordinal(1), "1"}, {Window{}.First, "null"}, {Assessment{}.PeakIteration, "null"}, {Trace{}.Steps, "null"}, {FeatureCheck{}.Line, "null"}} {
		if got, err := json.Marshal(tt.of); err != nil || string(got) != tt.want {
			t.Errorf("%T %v: %s, want %s (%v)", tt.of, tt.of, got, tt.want, err)
		}
	}
}
