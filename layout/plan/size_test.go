package plan

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/moeplan/moeplan/layout"
)

func TestSizeCounts(t *testing.T) {
	for _, c := range []struct {
		low, high, node int
		want            []int
		reason          string
	}{
		{64, 4096, 8, []int{64, 128, 256, 512, 1024, 2048, 4096}, "powers of two"},
		{208, 1000, 8, []int{208, 256, 512, 1000}, "ends in whole nodes, powers of two between"},
		{1, 20, 8, []int{8, 16}, "ends are rounded inwards"},
		{3, 7, 8, nil, "no whole node in the range"},
		{72, 72, 4, []int{72}, "one count"},
	} {
		if got := SizeCounts(c.low, c.high, c.node); !slices.Equal(got, c.want) {
			t.Errorf("%d..%d in nodes of %d: %v, want %v (%s)", c.low, c.high, c.node, got, c.want, c.reason)
		}
	}
}

// A sizing's rows agree with what Search says of each count, tokens per second never fall as GPUs are added in powers of
// two, and costs follow from time.
func TestSize(t *testing.T) {
	r := SizeRequest{Request: ask(t, "qwen3-235b", "h100", 0), Counts: []int{8, 64, 256, 1024}, Tokens: 15e12,
		PricePerGPUHour: 2.5, Goodput: 0.9}
	s, err := Size(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows[0].Key != nil || s.Rows[0].DP != nil || s.Rows[0].NumMicrobatches != nil || s.Rows[0].StepTimeMS != nil || s.Rows[0].TokensPerSec != nil || s.Rows[0].Efficiency != nil || s.Rows[0].Why == "" {
		t.Errorf("8 GPUs: %+v, want nothing fits, with the reason and no figure", s.Rows[0])
	}
	if *s.FewestGPUs < *s.FloorGPUs || *s.FewestGPUs%8 != 0 || *s.FewestGPUs > 64 {
		t.Errorf("fewest %d, floor %d", *s.FewestGPUs, *s.FloorGPUs)
	}
	for i, row := range s.Rows[1:] {
		q := r.Request
		q.GPUs, q.GlobalBatchSize, q.Top = row.GPUs, s.GlobalBatchSize, 1
		if best := answer(t, q).Plans[0]; best.Key != *row.Key || best.TunedTimeMS != *row.StepTimeMS {
			t.Errorf("%d GPUs: %s, but Search says %s", row.GPUs, *row.Key, best.Key)
		}
		if i > 0 && *row.TokensPerSec < *s.Rows[i].TokensPerSec {
			t.Errorf("%d GPUs make fewer tokens/s than %d", row.GPUs, s.Rows[i].GPUs)
		}
		if *row.Efficiency <= 0 || *row.Efficiency > 1 {
			t.Errorf("%d GPUs: efficiency %g", row.GPUs, *row.Efficiency)
		}
		hours := row.GPUHours[0] / (row.Days[0] * 24)
		if diff := hours/float64(row.GPUs) - 1; diff > 1e-9 || diff < -1e-9 || math.Abs(row.Cost[0]/row.GPUHours[0]-2.5) > 1e-9 {
			t.Errorf("%d GPUs: days %v, GPU-hours %v and cost %v do not belong together", row.GPUs, row.Days, row.GPUHours, row.Cost)
		}
	}
}

// The floor counts gradients as memory does: those that the run keeps, in the bytes that they have.
func TestFloorGPUs(t *testing.T) {
	for _, c := range []struct {
		change func(*Request)
		bytes  float64
		reason string
	}{
		{func(*Request) {}, 6, "bf16 weights, fp32 gradients"},
		{func(r *Request) { r.BF16Gradients = true }, 4, "bf16 gradients"},
		{func(r *Request) { r.Precision = layout.FP16 }, 4, "fp16 runs keep fp16 gradients"},
		{func(r *Request) { r.TrainableFraction = 0.01 }, 2.04, "frozen parameters have no gradients"},
	} {
		r := ask(t, "deepseek-v3", "h100", 64)
		c.change(&r)
		r, _ = r.filled()
		p, err := newPricer(&r)
		if err != nil {
			t.Fatal(err)
		}
		total, _ := r.Model.Parameters()
		if got, want := p.floorGPUs(&r), int(math.Ceil(float64(total)*c.bytes/float64(p.budget.limit()))); got != want {
			t.Errorf("%s: floor %d GPUs, want %d", c.reason, got, want)
		}
	}
}
