package memmodel

import (
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// TestOutsideTheAllocator holds what lives outside PyTorch's allocator against figures that were published.
func TestOutsideTheAllocator(t *testing.T) {
	const gb = 1e9
	for _, c := range []struct {
		reason, model string
		sm            int
		run           func(*Run)
		l             layout.Layout
		part          func(*Stage) Span
		least, most   float64 // GB that the span must reach
	}{
		{"DeepSeek-V3 under DeepEP at EP 64: 0.38 + 0.34 GB and a workspace (memory-model.md 7.2)", "deepseek-v3", 90, nil,
			layout.Layout{Degrees: folding.Degrees{World: 256, TP: 1, CP: 1, PP: 4, EP: 64, ETP: 1}, Dispatcher: layout.DeepEP},
			func(s *Stage) Span { return s.Device.ExpertBuffers }, 0.70, 0.80},
		{"DeepSeek-V3 under HybridEP at EP 64 in one domain of 72: 3.5 GiB + 0.33 GB (memory-model.md 7.2)", "deepseek-v3", 100,
			func(r *Run) { r.DomainSize = 72 },
			layout.Layout{Degrees: folding.Degrees{World: 256, TP: 1, CP: 1, PP: 4, EP: 64, ETP: 1}, Dispatcher: layout.HybridEP},
			func(s *Stage) Span { return s.Device.ExpertBuffers }, 3.9, 4.3},
		{"an all-to-all over 8 NVLink peers: 3.28 GB more (NVIDIA/nccl issue 1685); Qwen3-30B at PP 4, EP 8: about 5.84 GiB with context and workspaces (mlc-ai/pith-train pull request 18)",
			"qwen3-30b-a3b", 90, nil,
			layout.Layout{Degrees: folding.Degrees{World: 32, TP: 1, CP: 1, PP: 4, EP: 8, ETP: 1}},
			func(s *Stage) Span {
				return Span{s.Device.Context.Low + s.Device.Communicators.Low, s.Device.Context.High + s.Device.Communicators.High}
			}, 1.4, 5.84 * 1.073},
	} {
		m, err := arch.Lookup(c.model)
		if err != nil {
			t.Fatal(err)
		}
		run := DefaultRun(c.sm)
		if c.run != nil {
			c.run(&run)
		}
		e, err := New(m, run)
		if err != nil {
			t.Fatal(err)
		}
		l := c.l
		l.VPP, l.MicroBatchSize, l.SeqLength, l.GlobalBatchSize = 1, 1, 4096, 1024
		l.Split = raggedSplit(m, l.PP, 1)
		stages, err := e.Estimate(&l)
		if err != nil {
			t.Fatal(err)
		}
		// The second stage has experts and no embedding.
		got := c.part(&stages[1])
		t.Logf("%.2f to %.2f GB: %s", float64(got.Low)/gb, float64(got.High)/gb, c.reason)
		if float64(got.Low)/gb > c.most || float64(got.High)/gb < c.least {
			t.Errorf("%.2f to %.2f GB do not meet %.2f to %.2f: %s", float64(got.Low)/gb, float64(got.High)/gb, c.least, c.most, c.reason)
		}
	}
}

// The parts of a range add up, and expandable segments never raise what is reserved.
func TestDeviceAddsUp(t *testing.T) {
	m, err := arch.Lookup("deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	l := benchLayout(m)
	reserved := func(expandable bool) int64 {
		run := DefaultRun(90)
		run.ExpandableSegments = expandable
		e, err := New(m, run)
		if err != nil {
			t.Fatal(err)
		}
		stages, err := e.Estimate(&l)
		if err != nil {
			t.Fatal(err)
		}
		var total int64
		for _, s := range stages {
			d := &s.Device
			low, high := s.PeakAllocated, s.PeakAllocated
			for _, p := range []Span{d.Fragmentation, d.Context, d.Communicators, d.ExpertBuffers, d.Graphs} {
				if p.Low > p.High || p.Low < 0 {
					t.Errorf("stage %d: span %+v", s.PipelineRank, p)
				}
				low += p.Low
				high += p.High
			}
			if low != d.Low || high != d.High || d.Reserved > d.High {
				t.Errorf("stage %d: parts add up to %d and %d, device says %+v", s.PipelineRank, low, high, d)
			}
			total += d.Reserved
		}
		return total
	}
	if reserved(true) > reserved(false) {
		t.Error("expandable segments reserve more")
	}
}
