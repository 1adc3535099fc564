package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
	"pgregory.net/rapid"
)

// step is a drawn legal layout with what prices it.
type step struct {
	layout   layout.Layout
	software steptime.Software
	memory   *memmodel.Estimator
	time     *steptime.Estimator
}

func draw(t *rapid.T) step {
	two := func(name string, most int) int { return 1 << rapid.IntRange(0, most).Draw(t, name) }
	m, err := arch.Lookup(rapid.SampledFrom([]string{"qwen3-30b-a3b", "qwen3-235b", "deepseek-v3", "gpt-oss-120b", "llama3-70b", "mixtral-8x7b"}).Draw(t, "model"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := topology.LookupPlatform(rapid.SampledFrom([]string{"h100", "b200", "gb200"}).Draw(t, "gpu"))
	if err != nil {
		t.Fatal(err)
	}
	var s step
	d := folding.Degrees{TP: two("tp", 2), CP: two("cp", 1), PP: two("pp", 4), EP: 1, ETP: 1}
	l := &s.layout
	if l.VPP = 1; d.PP > 1 {
		l.VPP = rapid.IntRange(1, 4).Draw(t, "vpp")
	}
	if m.MoE != nil {
		d.EP, d.ETP = two("ep", 3), two("etp", 1)
	}
	d.World = d.PP * max(d.TP*d.CP, d.EP*d.ETP) * two("replicas", 1)
	l.Degrees = d
	l.MicroBatchSize, l.SeqLength, l.SequenceParallel = 1, 4096, d.TP > 1
	rounds := rapid.IntRange(1, 8).Draw(t, "micro-batches")
	if l.VPP > 1 {
		rounds *= d.PP
	}
	l.GlobalBatchSize = l.DP() * rounds
	l.Split = layout.BalancedSplit(m, l.PP, l.VPP)
	switch rapid.IntRange(0, 2).Draw(t, "recompute") {
	case 1:
		l.Recompute = layout.Recompute{Granularity: layout.Selective, Modules: layout.LayerNorm | layout.MoEAct}
		if m.MoE == nil {
			l.Recompute.Modules = layout.LayerNorm
		}
	case 2:
		l.Recompute = layout.FullRecompute
	}
	if l.Split == nil || len(layout.Check(m, l).Errors()) > 0 {
		t.Skip("illegal")
	}
	if s.memory, err = memmodel.New(m, memmodel.DefaultRun(p.SM.Int())); err != nil {
		t.Fatal(err)
	}
	if s.time, err = steptime.New(m, p, steptime.DefaultRun()); err != nil {
		t.Fatal(err)
	}
	s.software = steptime.BringUp()
	if rapid.Bool().Draw(t, "tuned") {
		s.software = s.time.Tuned(l)
	}
	return s
}

func (s *step) lay(t *rapid.T) *Timeline {
	out, err := Of(s.memory, s.time, &s.layout, s.software)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// One rank does one thing at a time, and each pass exactly once.
func TestRanksDoOneThingAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		line := s.lay(t)
		for r, rank := range line.Ranks {
			at := 0.0
			done := map[Event]int{}
			for _, e := range rank.Events {
				if e.Start < at || e.End < e.Start {
					t.Fatalf("rank %d: %+v begins before %g", r, e, at)
				}
				at = e.End
				if e.Kind == Forward || e.Kind == Backward {
					done[Event{Kind: e.Kind, Microbatch: e.Microbatch, Chunk: e.Chunk}]++
				}
			}
			if at > line.Seconds*(1+1e-12) {
				t.Fatalf("rank %d ends at %g, the step at %g", r, at, line.Seconds)
			}
			if want := 2 * line.Chunks * line.Microbatches; len(done) != want {
				t.Fatalf("rank %d runs %d passes of %d", r, len(done), want)
			}
			for e, n := range done {
				if n != 1 {
					t.Fatalf("rank %d runs %+v %d times", r, e, n)
				}
			}
		}
	})
}

// Micro-batches go forward through all cells of the split in their order, and backward against it. Exchanges lie between.
func TestDependencies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		line := s.lay(t)
		pp := len(line.Ranks)
		type key struct {
			kind       Kind
			cell, from int
		}
		pass := map[key]Event{}
		for r, rank := range line.Ranks {
			for _, e := range rank.Events {
				if e.Kind == Forward || e.Kind == Backward {
					pass[key{e.Kind, e.Chunk*pp + r, e.Microbatch}] = e
				}
			}
		}
		for m := range line.Microbatches {
			at := 0.0
			for cell := range pp * line.Chunks {
				e := pass[key{Forward, cell, m}]
				if e.Start < at {
					t.Fatalf("micro-batch %d starts forward through cell %d at %g, its input is there at %g", m, cell, e.Start, at)
				}
				at = e.End
			}
			for cell := pp*line.Chunks - 1; cell >= 0; cell-- {
				e := pass[key{Backward, cell, m}]
				if e.Start < at {
					t.Fatalf("micro-batch %d starts backward through cell %d at %g, its input is there at %g", m, cell, e.Start, at)
				}
				at = e.End
			}
		}
	})
}

// The counter's maximum is the peak that memmodel gives for the stage, to the byte.
func TestMemoryPeaksWhereMemmodelSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		line := s.lay(t)
		scheduled := s.layout
		scheduled.EPOverlap = s.software.EPOverlap
		stages, err := s.memory.Estimate(&scheduled)
		if err != nil {
			t.Fatal(err)
		}
		for r := range line.Ranks {
			if got, want := line.Ranks[r].Peak, stages[r].PeakAllocated; got != want {
				t.Fatalf("%s: stage %d peaks at %d over time, memmodel says %d (%+d)", &s.layout, r, got, want, got-want)
			}
			last := line.Ranks[r].Memory
			if got, want := last[len(last)-1].Bytes, stages[r].AllocatedAfterStep; got != want {
				t.Fatalf("stage %d keeps %d after the step, memmodel says %d", r, got, want)
			}
		}
	})
}

// The price is the simulation in short: the same where stages have one chunk each, and within 1 % where chunks are
// interleaved, of which the price does not follow every rank nor every group of micro-batches.
func TestStepAgreesWithThePrice(t *testing.T) {
	low, high := 1.0, 1.0
	at := [2]string{}
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		line := s.lay(t)
		price := s.time.Price(&s.layout, s.software)
		passes := price.Step - price.Optimizer - price.Communication[steptime.DP].Exposed - price.Communication[steptime.EDP].Exposed
		name := fmt.Sprintf("%s, %d micro-batches, overlap %v", &s.layout, line.Microbatches, s.software.EPOverlap)
		r, tolerance := line.Passes/passes, 0.01
		if s.layout.VPP == 1 {
			tolerance = 1e-9
		}
		if math.Abs(r-1) > tolerance {
			t.Fatalf("%s: passes take %g s, priced %g", name, line.Passes, passes)
		}
		if r < low {
			low, at[0] = r, name
		} else if r > high {
			high, at[1] = r, name
		}
	})
	t.Logf("passes over their price: %.4f (%s) to %.4f (%s)", low, at[0], high, at[1])
}

// Stages that are alike fill as the price says: then both are equal.
func TestEvenStagesTakeThePrice(t *testing.T) {
	for _, c := range []struct {
		pp, vpp, m int
	}{{1, 1, 4}, {2, 1, 8}, {4, 1, 4}, {4, 2, 8}, {8, 1, 16}, {8, 2, 16}, {4, 5, 16}} {
		times := steptime.Passes{Chunks: make([][]steptime.Chunk, c.pp), Hop: 0.01}
		for r := range times.Chunks {
			for range c.vpp {
				times.Chunks[r] = append(times.Chunks[r], steptime.Chunk{Forward: steptime.Pass{Seconds: 1}, Backward: steptime.Pass{Seconds: 2}})
			}
		}
		l := layout.Layout{Degrees: folding.Degrees{World: c.pp, TP: 1, CP: 1, PP: c.pp, EP: 1, ETP: 1}, VPP: c.vpp, MicroBatchSize: 1,
			GlobalBatchSize: c.m, SeqLength: 4096}
		m, err := arch.Lookup("qwen3-30b-a3b")
		if err != nil {
			t.Fatal(err)
		}
		l.Split = layout.BalancedSplit(m, c.pp, c.vpp)
		memory, err := memmodel.New(m, memmodel.DefaultRun(90))
		if err != nil {
			t.Fatal(err)
		}
		s := simulation{l: &l, times: &times, ranks: make([]rankState, c.pp)}
		for r := range s.ranks {
			if s.ranks[r].passes, err = memory.Passes(&l, r); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.run(); err != nil {
			t.Fatal(err)
		}
		stage := 3.02 * float64(c.vpp)
		want := (float64(c.m) + float64(c.pp-1)/float64(c.vpp)) * stage
		if got := s.finish().Passes; math.Abs(got-want) > 1e-9 {
			t.Errorf("pp %d vpp %d m %d: %g s, the formula says %g", c.pp, c.vpp, c.m, got, want)
		}
	}
}

// What is written is JSON in which every event is one that Perfetto knows.
func TestChromeTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		line := s.lay(t)
		var out bytes.Buffer
		if err := line.WriteChrome(&out, `a "title"`); err != nil {
			t.Fatal(err)
		}
		var file struct {
			TraceEvents []struct {
				Ph, Name string
				Pid      *int
				Ts, Dur  *float64
				Args     map[string]any
			}
		}
		if err := json.Unmarshal(out.Bytes(), &file); err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		for _, e := range file.TraceEvents {
			counts[e.Ph]++
			if e.Name == "" || e.Pid == nil || e.Ph != "M" && e.Ts == nil || e.Ph == "X" && (e.Dur == nil || *e.Dur < 0) {
				t.Fatalf("event %+v", e)
			}
		}
		events, steps := 0, 0
		for _, r := range line.Ranks {
			events, steps = events+len(r.Events), steps+len(r.Memory)
		}
		if counts["X"] != events || counts["C"] != steps {
			t.Fatalf("%v of %d events and %d memory steps", counts, events, steps)
		}
	})
}
