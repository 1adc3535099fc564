package steptime

import (
	"math"
	"testing"
)

// Published throughput divided by published tokens per second, GFLOP per token at sequence 4096, and what the
// counting gives there (comm-model 4.1: "check against published tokens/s and TFLOPS").
func TestModelFLOPs(t *testing.T) {
	for _, c := range []struct {
		model     string
		counted   float64 // comm-model's own counter, two decimals
		published float64
		reason    string
	}{
		{"DeepSeek-V3", 259.99, 260.15, "MLA, 3 dense layers, MTP layer with its second output head"},
		{"DeepSeek-V3-noMTP", 249.81, 249.71, "the same without MTP"},
		{"Qwen3-235B-A22B", 148.03, 147.98, "GQA with kv_channels * heads != hidden"},
		{"Qwen3-30B-A3B", 23.01, 23.10, "the smallest: attention core weighs most"},
		{"Kimi-K2", 204.48, 204.58, "MLA with 64 heads, one dense layer"},
	} {
		got := ModelFLOPs(testModel(t, c.model), 4096) / 1e9
		if math.Abs(got-c.counted) > 0.0051 {
			t.Errorf("%s (%s): %.3f GFLOP per token, want %.2f", c.model, c.reason, got, c.counted)
		}
		if math.Abs(got/c.published-1) > 0.005 {
			t.Errorf("%s (%s): %.3f GFLOP per token, published %.2f", c.model, c.reason, got, c.published)
		}
	}
}

// The estimator keeps two numbers instead of counting again for each layout: FLOPs are linear in the
// sequence length.
func TestFLOPsOfPrice(t *testing.T) {
	m := testModel(t, "DeepSeek-V3")
	e := newEstimator(t, m, "h100", DefaultRun())
	for _, seq := range []int{1, 4096, 131072} {
		want := ModelFLOPs(m, seq)
		got := e.flopsPerToken + e.flopsPerPosition*float64(seq)
		if math.Abs(got/want-1) > 1e-9 {
			t.Errorf("sequence %d: %g FLOPs per token, want %g", seq, got, want)
		}
	}
}
