package evidence

import (
	"fmt"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/folding"
)

// testClaim predicts 40 GiB on stage 0 and one less on each stage after it.
func testClaim(t testing.TB) *Claim {
	m, l := testLayout(t)
	c := &Claim{Model: m, Layout: l, Fits: true, Tolerance: 0.05, Grade: func(int64) string { return "fits" }}
	for s := range l.PP {
		peak := int64(40-s) << 30
		c.Stages = append(c.Stages, Expectation{Stage: s, PeakAllocated: peak, AfterStep: peak / 2, PeakDevice: peak + 8<<30, Parameters: 100})
	}
	return c
}

func verify(t testing.TB, c *Claim, text string) *Verification {
	t.Helper()
	v, err := Verify(c, []*Log{readText(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVerify(t *testing.T) {
	twice := func(rank int, gibs float64) string {
		n := int64(gibs * gib)
		return memoryLine(rank, 1, n-4<<30) + "\n" + memoryLine(rank, 2, n) + "\n"
	}
	oom := "[rank40]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free." +
		" Process 1 has 78.00 GiB memory in use. Of the allocated memory 36.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n"
	balanced := func(c *Claim) {
		for _, e := range c.Stages {
			e.PeakAllocated += 10 << 30
			c.FakeStages = append(c.FakeStages, e)
		}
	}
	for _, tt := range []struct {
		name, text string
		change     func(*Claim)
		want       Outcome
		stage      int // of the first rank
		reason     string
	}{
		{"stage 0", twice(0, 40.5), nil, Agrees, 0, "1.25 % off"},
		{"stage 1 by the default order", twice(32, 39), nil, Agrees, 1, "256 / 8 ranks a stage"},
		{"stage 1 by the other order", twice(2, 39), func(c *Claim) { c.Layout.Order = folding.TPPPDPOrder }, Agrees, 1, "PP's stride is TP*CP; this order needs EDP = DP, which this test does not"},
		{"too high", twice(0, 42.5), nil, Deviates, 0, "6 % over"},
		{"too low", twice(0, 37), nil, Deviates, 0, "7 % under"},
		{"first report only, low", memoryLine(0, 1, 30<<30) + "\n", nil, Inconclusive, 0, "a lower bound"},
		{"first report only, high", memoryLine(0, 1, 50<<30) + "\n", nil, Deviates, 0, "a lower bound above the prediction"},
		{"one report after two iterations", memoryLine(0, 2, 40<<30) + "\n", nil, Agrees, 0, "--log-interval 2 of releases up to 0.15"},
		{"rank outside", twice(256, 40), nil, AnotherRun, -1, "the layout has 256 ranks"},
		{"nothing", "hello\n", nil, Inconclusive, -1, "no memory line"},
		{"out of memory", oom, nil, Deviates, 1, "it was to fit"},
		{"out of memory, as predicted", oom, func(c *Claim) { c.Fits = false }, Agrees, 1, "38 GiB needed of 39 predicted, and it was not to fit"},
		{"out of memory, needs more", strings.Replace(oom, "36.00 GiB is", "70.00 GiB is", 1), func(c *Claim) { c.Fits = false }, Deviates, 1, "72 GiB of 39 predicted"},
		{"a fake run is held against what it runs", "---- arguments ----\n  fake_process_group .............................. True\n" + twice(0, 50), balanced, Agrees, 0, "alltoall and balanced routing take 50 GiB"},
		{"a real run is not", twice(0, 50), balanced, Deviates, 0, "the layout itself takes 40 GiB"},
		{"parameters", twice(0, 40) + " > number of parameters on (tensor, pipeline) model parallel rank (1, 3): 101\n", nil, Deviates, 0, "counts are exact"},
		{"arguments", "---- arguments ----\n  tensor_model_parallel_size ...................... 4\n" + twice(0, 40), nil, AnotherRun, 0, "TP 4 ran"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := testClaim(t)
			if tt.change != nil {
				tt.change(c)
			}
			if c.Layout.Order == folding.TPPPDPOrder { // a layout that this order allows: TP*CP = ETP*EP
				c.Layout.EP = 2
			}
			v := verify(t, c, tt.text)
			if v.Outcome != tt.want {
				t.Errorf("%s, want %s: %s\n%+v", v.Outcome, tt.want, tt.reason, v)
			}
			if tt.stage >= 0 && int(v.Ranks[0].Stage) != tt.stage {
				t.Errorf("stage %d, want %d", v.Ranks[0].Stage, tt.stage)
			}
		})
	}
}

// TestWorst: the rank that an outcome is explained by is one that was compared.
func TestWorst(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       int // rank, -1: none
		reason     string
	}{
		{"steady", memoryLine(0, 2, 40<<30) + "\n" + memoryLine(32, 2, 40<<30) + "\n", 32, "a GiB off, the other is not"},
		{"a first report beside one that deviates", memoryLine(0, 1, 20<<30) + "\n" + memoryLine(32, 2, 44<<30) + "\n", 32, "half of the prediction, and no more than a lower bound"},
		{"a first report beside one that agrees", memoryLine(0, 1, 20<<30) + "\n" + memoryLine(32, 2, 39<<30) + "\n", 32, "likewise"},
		{"only a first report", memoryLine(0, 1, 20<<30) + "\n", -1, "nothing was compared"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := -1
			if w := verify(t, testClaim(t), tt.text).Worst(); w != nil {
				got = int(w.Rank)
			}
			if got != tt.want {
				t.Errorf("rank %d, want %d: %s", got, tt.want, tt.reason)
			}
		})
	}
}

func TestCoverage(t *testing.T) {
	fake := "---- arguments ----\n  fake_process_group .............................. True\n---- end of arguments ----\n"
	v := verify(t, testClaim(t), fake+memoryLine(0, 2, 40<<30)+"\n"+memoryLine(224, 2, 33<<30)+"\n")
	if v.Coverage.Covered.N != 40<<30 || v.Coverage.Of != 48<<30 || !v.Coverage.Fake {
		t.Errorf("%+v", v.Coverage)
	}
	missing := strings.Join(v.Coverage.Missing, "; ")
	for _, want := range []string{"NCCL", "flex", "imbalance", "stages 1-6"} {
		if !strings.Contains(missing, want) {
			t.Errorf("%q lacks %s", missing, want)
		}
	}
	if v := verify(t, testClaim(t), memoryLine(0, 2, 40<<30)+"\n"); strings.Contains(strings.Join(v.Coverage.Missing, ""), "NCCL") {
		t.Error("a real run has NCCL's buffers")
	}
}

// TestTheory: the framework's line comes out of the layout's flags to its two decimals, or is said not to.
func TestTheory(t *testing.T) {
	c := testClaim(t)
	f, err := footprint(c, &Log{})
	if err != nil {
		t.Fatal(err)
	}
	w, a, total := f.ReportMiB()
	line := func(w float64) string {
		return fmt.Sprintf("Theoretical memory footprints: weight and optimizer=%.2f MB, activation=%.2f MB, total=%.2f MB\n", w, a, total)
	}
	if v := verify(t, c, line(w)+line(w)); len(v.Theory) != 1 || !v.Theory[0].Agrees {
		t.Errorf("%+v", v.Theory)
	}
	if v := verify(t, c, line(w+1)); v.Theory[0].Agrees {
		t.Errorf("1 MB off agrees: %+v", v.Theory)
	}
}
