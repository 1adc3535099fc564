package steptime

import (
	"math"
	"testing"

	"github.com/moeplan/moeplan/layout"
)

// Table of comm-model 1.4, two decimals there.
func TestDestinations(t *testing.T) {
	for _, c := range []struct {
		name          string
		experts, topK int
		want          map[float64]float64
	}{
		{"deepseek-v3", 256, 8, map[float64]float64{2: 1.99, 4: 3.61, 8: 5.29, 16: 6.52, 32: 7.27, 64: 7.68}},
		{"qwen3", 128, 8, map[float64]float64{2: 1.99, 4: 3.63, 8: 5.34, 16: 6.60, 32: 7.36, 64: 7.78}},
		{"gpt-oss", 128, 4, map[float64]float64{2: 1.88, 4: 2.75, 8: 3.34, 16: 3.68, 32: 3.86, 64: 3.95}},
		{"kimi-k2", 384, 8, map[float64]float64{2: 1.99, 4: 3.61, 8: 5.28, 16: 6.50, 32: 7.24, 64: 7.64}},
		{"mixtral", 8, 2, map[float64]float64{2: 1.57, 4: 1.86, 8: 2.00}},
		{"deepseek-v2", 160, 6, map[float64]float64{2: 1.97, 4: 3.31, 8: 4.46, 16: 5.21, 32: 5.63}},
	} {
		for q, want := range c.want {
			if got := destinations(q, c.experts, c.topK); math.Abs(got-want) > 0.0051 {
				t.Errorf("%s: D(%g) = %.3f, want %.2f", c.name, q, got, want)
			}
		}
	}
}

// Monte Carlo values of group-limited routing: comm-model 1.4 for DeepSeek-V3, and 20,000 tokens of our own
// of the router's algorithm for DeepSeek-V2 beyond 8 groups. The closed form is good to about 2 %.
func TestGroupLimitedDestinations(t *testing.T) {
	for _, c := range []struct {
		limit         groupLimit
		experts, topK int
		want          map[float64]float64
	}{
		{groupLimit{8, 4}, 256, 8, map[float64]float64{2: 1.96, 4: 3.10, 8: 3.95, 16: 5.73, 32: 6.86, 64: 7.49}},
		{groupLimit{8, 3}, 160, 6, map[float64]float64{2: 1.85, 4: 2.56, 8: 2.98, 16: 4.39, 32: 5.24}},
	} {
		for q, want := range c.want {
			if got := c.limit.destinations(q, c.experts, c.topK, true); math.Abs(got/want-1) > 0.02 {
				t.Errorf("%v of %d: D(%g) = %.3f, simulated %.2f", c.limit, c.experts, q, got, want)
			}
		}
	}
	if got, want := (groupLimit{1, 1}).destinations(8, 384, 8, true), destinations(8, 384, 8); got != want {
		t.Errorf("one group is no limit: %g, want %g", got, want)
	}
}

// Example volumes and times of one operation (comm-model 1.4, 4096 tokens, TP 1, without the fixed 57 us):
// megabytes inside and outside the domain, milliseconds.
func TestDispatchExamples(t *testing.T) {
	for _, c := range []struct {
		model, gpu   string
		dispatcher   layout.Dispatcher
		ep           int
		intra, inter float64
		ms           float64
	}{
		{"Qwen3-235B-A22B", "h100", layout.AllToAll, 8, 235, 0, 1.11},
		{"Qwen3-235B-A22B", "h100", layout.AllToAll, 16, 117, 134, 3.18},
		{"Qwen3-235B-A22B", "h100", layout.AllToAll, 32, 59, 201, 4.77},
		{"Qwen3-235B-A22B", "h100", layout.AllToAll, 64, 29, 235, 5.56},
		{"Qwen3-235B-A22B", "h100", layout.DeepEP, 8, 157, 0, 0.74},
		{"Qwen3-235B-A22B", "h100", layout.DeepEP, 16, 194, 33, 0.91},
		{"Qwen3-235B-A22B", "h100", layout.DeepEP, 32, 216, 91, 2.03},
		{"Qwen3-235B-A22B", "h100", layout.DeepEP, 64, 228, 157, 3.48},
		{"DeepSeek-V3", "h100", layout.AllToAll, 64, 51, 411, 9.74},
		{"DeepSeek-V3", "h100", layout.DeepEP, 16, 335, 58, 1.57},
		{"DeepSeek-V3", "h100", layout.DeepEP, 32, 373, 138, 3.07},
		{"DeepSeek-V3", "h100", layout.DeepEP, 64, 394, 206, 4.56},
		{"DeepSeek-V3", "gb200", layout.HybridEP, 8, 272, 0, 0.40},
		{"DeepSeek-V3", "gb200", layout.HybridEP, 64, 444, 0, 0.65},
	} {
		m := testModel(t, c.model)
		run := DefaultRun()
		run.Corrections.GroupLimit = false // the table has no group limit between ranks
		e := newEstimator(t, m, c.gpu, run)
		l := testLayout(m, layoutSpec{world: 64, ep: c.ep, gbs: 64})
		place, _ := e.place(&l)
		k := e.task(&l, Software{Dispatcher: c.dispatcher}, place)
		x := e.dispatch(&k)
		ms := 1e3 * (x.seconds - epLatency)
		if math.Abs(x.intra/1e6-c.intra) > 0.51 || math.Abs(x.inter/1e6-c.inter) > 0.51 || math.Abs(ms-c.ms) > 0.006 {
			t.Errorf("%s %s EP%d dispatcher %d: %.1f/%.1f MB %.3f ms, want %g/%g MB %g ms",
				c.model, c.gpu, c.ep, c.dispatcher, x.intra/1e6, x.inter/1e6, ms, c.intra, c.inter, c.ms)
		}
	}
}

// The allgather dispatcher sends (ep*etp-1) whole shards, and beats alltoall in bytes roughly while
// ep*etp <= k (comm-model 1.3).
func TestAllGatherVolume(t *testing.T) {
	m := testModel(t, "Qwen3-235B-A22B")
	e := newEstimator(t, m, "h100", DefaultRun())
	for _, c := range []struct {
		ep    int
		fewer bool // than alltoall
	}{{2, true}, {4, true}, {8, true}, {16, false}, {32, false}} {
		l := testLayout(m, layoutSpec{world: 64, ep: c.ep, gbs: 64})
		place, _ := e.place(&l)
		bytes := func(d layout.Dispatcher) float64 {
			k := e.task(&l, Software{Dispatcher: d}, place)
			x := e.dispatch(&k)
			return x.intra + x.inter
		}
		gather := bytes(layout.AllGather)
		if want := float64(c.ep-1) * 4096 * 4096 * 2; math.Abs(gather/want-1) > 1e-9 {
			t.Errorf("EP%d: %g bytes, want %g", c.ep, gather, want)
		}
		if fewer := gather <= bytes(layout.AllToAll); fewer != c.fewer {
			t.Errorf("EP%d: fewer bytes than alltoall: %t, want %t", c.ep, fewer, c.fewer)
		}
	}
}
