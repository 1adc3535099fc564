package evidence

import (
	"bytes"
	"encoding/json"

	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// deepepContract is a claim that DeepEP is faster than alltoall.
func deepepContract(t testing.TB) *Contract {
	c := testContract(t)
	if err := c.Set("layout.moe_token_dispatcher", "deepep"); err != nil {
		t.Fatal(err)
	}
	c.Variable, c.Base = "layout.moe_token_dispatcher", "alltoall"
	return c
}

func assess(t testing.TB, c *Contract, log string, in Inputs) *Assessment {
	t.Helper()
	return Assess(c, readTestLog(t, log), in)
}

// TestAssess: the logs of testdata/generate.py against the claim of deepepContract.
func TestAssess(t *testing.T) {
	trace := readTestTrace(t, "trace-deepep.json.gz")
	for _, tt := range []struct {
		name, log string
		change    func(*Contract)
		in        Inputs
		want      Judgement
		says      string // in a problem or gap
		reason    string
	}{
		{"validated", "faster.log", nil, Inputs{Trace: trace}, Supported, "", "50 declared steps, sound numbers, the variable proven by a trace"},
		{"unproven", "faster.log", nil, Inputs{}, NotSupported, "the variable under test, is unproven", "a configuration proves nothing"},
		{"another trace", "faster.log", nil, Inputs{Trace: readTestTrace(t, "trace.json.gz")}, Rejected, "no kernels of deepep", "the trace shows alltoall"},
		{"screen", "short.log", nil, Inputs{Strength: Screen}, NotRejected, "unproven", "a screen accepts nothing, so that it needs no proof of the variable"},
		{"baseline screen", "short.log", func(c *Contract) { c.Variable, c.Base = "", "" }, Inputs{Strength: Screen}, NotRejected, "", "7 steady steps, nothing wrong"},
		{"too short to validate", "short.log", nil, Inputs{Trace: trace}, NotSupported, "7 of the 50 steps", "the declared window is not there"},
		{"no window", "faster.log", func(c *Contract) { c.Measure.First, c.Measure.Last = 0, 0 }, Inputs{Trace: trace}, NotSupported, "needs a window that the contract declares", "a window chosen afterwards is no declaration"},
		{"NaN", "nan.log", nil, Inputs{Trace: trace}, Rejected, "1 NaN iteration", "a missing loss is one that is no number"},
		{"profiled", "profiled.log", func(c *Contract) { c.Variable, c.Base = "", ""; c.Layout.Dispatcher = "alltoall" }, Inputs{}, NotSupported, "not taken from a profiled run", "profilers slow a run down"},
		{"fake", "fake-agrees.log", func(c *Contract) { c.Workload.GBS, c.Workload.Data = 768, "mock"; c.Layout.Dispatcher = "alltoall" }, Inputs{}, NotSupported, "fake process group", "its steps do not communicate"},
		{"not as configured", "base.log", nil, Inputs{Trace: trace}, Rejected, "configured with moe_token_dispatcher_type alltoall", "the dump can contradict"},
		{"another layout", "base.log", func(c *Contract) { c.Layout.EP = 64 }, Inputs{}, Rejected, "the contract fixes layout.expert_model_parallel_size", "another layout ran"},
		{"out of memory", "oom.log", nil, Inputs{}, Rejected, "out of memory", "it did not fit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := deepepContract(t)
			if tt.change != nil {
				tt.change(c)
			}
			a := assess(t, c, tt.log, tt.in)
			all := strings.Join(append(slices.Clone(a.Problems), a.Gaps...), "\n")
			if a.Judgement != tt.want || !strings.Contains(all, tt.says) {
				t.Errorf("%s: %s, want %s with %q: %s", a.Judgement, all, tt.want, tt.says, tt.reason)
			}
		})
	}
}

// TestWindow: warm-up, capture and intervals.
func TestWindow(t *testing.T) {
	its := func(numbers ...int) (out []Iteration) {
		for _, n := range numbers {
			out = append(out, Iteration{Number: n, Seconds: known(1)})
		}
		return out
	}
	count := func(from, to, step int) (out []int) {
		for i := from; i <= to; i += step {
			out = append(out, i)
		}
		return out
	}
	contract := func(first, last int) *Contract {
		c := &Contract{}
		c.Measure.WarmUp, c.Measure.First, c.Measure.Last = 5, first, last
		return c
	}
	capture := &Log{Events: []Event{{Kind: GraphCaptured, Iteration: 7}}}
	for _, tt := range []struct {
		name               string
		c                  *Contract
		log                *Log
		its                []Iteration
		first, last, steps int
		complete           bool
		reason             string
	}{
		{"found", contract(0, 0), &Log{}, its(count(1, 20, 1)...), 6, 20, 15, false, "5 warm-up iterations are left out"},
		{"declared", contract(11, 15), &Log{}, its(count(1, 20, 1)...), 11, 15, 5, true, "no more and no less"},
		{"declared, cut", contract(11, 30), &Log{}, its(count(1, 20, 1)...), 11, 20, 10, false, "the end is missing"},
		{"capture", contract(0, 0), capture, its(count(1, 20, 1)...), 9, 20, 12, false, "iteration 8 captures"},
		{"resumed", contract(0, 0), &Log{}, its(count(1001, 1020, 1)...), 1006, 1020, 15, false, "warm-up counts from the start of the process"},
		{"resumed behind the declared window", contract(6, 55), &Log{}, its(count(1001, 1020, 1)...), 0, 0, 0, false, "none of it is in the log, and no iteration was left out"},
		{"intervals of 10", contract(0, 0), &Log{}, its(append([]int{1}, count(10, 50, 10)...)...), 11, 50, 40, false, "the line at 10 holds iterations of the warm-up"},
		{"intervals of 10 from the first line", contract(0, 0), &Log{}, its(count(10, 50, 10)...), 11, 50, 40, false, "older releases log the tenth first"},
		{"resumed at 80, intervals of 10", contract(0, 0), &Log{}, its(81, 90, 100, 110), 91, 110, 20, false, "81 is the first iteration, though a multiple of 9: warm-up ends at 85"},
		{"declared amid intervals", contract(15, 45), &Log{}, its(count(10, 50, 10)...), 21, 40, 20, false, "an interval counts if it is wholly inside"},
		{"nothing", contract(0, 0), &Log{}, nil, 0, 0, 0, false, "no iterations"},
		{"only warm-up", contract(0, 0), &Log{}, its(1, 2, 3), 0, 0, 0, false, "nothing is steady"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, w := window(tt.c, tt.log, tt.its)
			if int(w.First) != tt.first || int(w.Last) != tt.last || w.Steps != tt.steps || w.Complete != tt.complete || w.Lines != len(lines) || w.Left < 0 {
				t.Errorf("%+v, want %d-%d %d %v: %s", w, tt.first, tt.last, tt.steps, tt.complete, tt.reason)
			}
		})
	}
}

// TestTimes: the statistics against sorted lists by hand, and their laws.
func TestTimes(t *testing.T) {
	times := func(list ...float64) (its []Iteration) {
		for _, v := range list {
			its = append(its, Iteration{Seconds: known(v)})
		}
		return its
	}
	s := timesOf(times(5, 1, 2, 3, 4))
	if s.Median.V != 3 || s.Low.V != 2 || s.High.V != 4 || s.Min.V != 1 || s.Max.V != 5 {
		t.Errorf("%+v", s)
	}
	if want := 1.2533 * 1.4826 * 1 / math.Sqrt(5); math.Abs(s.Error.V-want) > 1e-12 {
		t.Errorf("error %g, want %g", s.Error.V, want)
	}
	if timesOf(nil).Median.Known {
		t.Error("nothing has a median")
	}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Float64Range(0.1, 100), 1, 40).Draw(t, "times")
		s := timesOf(times(list...))
		if !(s.Min.V <= s.Low.V && s.Low.V <= s.Median.V && s.Median.V <= s.High.V && s.High.V <= s.Max.V && s.Error.V >= 0) {
			t.Fatalf("%+v", s)
		}
		twice := make([]float64, len(list))
		for i := range list {
			twice[i] = 2 * list[i]
		}
		if d := timesOf(times(twice...)); math.Abs(d.Median.V-2*s.Median.V) > 1e-9 {
			t.Fatalf("twice the times, %g for %g", d.Median.V, s.Median.V)
		}
	})
}

func TestCompare(t *testing.T) {
	run := deepepContract(t)
	base, err := BaseOf(run)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, log string
		change    func(run, base *Contract)
		want      Effect
		says      string
		reason    string
	}{
		{"faster", "faster.log", nil, Faster, "", "12.5 % in 50 steps"},
		{"the same", "same.log", nil, InsideNoise, "inside the noise", "0.2 % is no difference"},
		{"two arguments", "two-changes.log", nil, NoVerdict, "1 more setting than the variable", "the logs show a second change"},
		{"two fields", "faster.log", func(_, base *Contract) { base.Workload.GBS = 1024 }, NoVerdict, "1 more setting", "the contracts differ twice"},
		{"no difference", "faster.log", func(run, base *Contract) { base.Layout.Dispatcher = "deepep" }, NoVerdict, "nothing is under test", "the same contract twice"},
		{"screen", "short.log", nil, NoVerdict, "a screen can only reject", "12 steps do not accept"},
		{"rejected", "nan.log", nil, NoVerdict, "rejected by itself", "a run with NaN is no proof of speed"},
		{"profiled", "profiled.log", nil, NoVerdict, "1 more setting", "the profiler is a second difference"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, b := *run, *base
			if tt.change != nil {
				tt.change(&r, &b)
			}
			c := Compare(assess(t, &r, tt.log, Inputs{}), assess(t, &b, "base.log", Inputs{}))
			if c.Effect != tt.want || !strings.Contains(c.Why, tt.says) {
				t.Errorf("%s: %q, want %s with %q: %s", c.Effect, c.Why, tt.want, tt.says, tt.reason)
			}
		})
	}
	t.Run("slower even as a screen", func(t *testing.T) {
		r, b := *run, *base
		r.Layout.Dispatcher, b.Layout.Dispatcher = "alltoall", "deepep" // the other way round
		r.Variable, r.Base = "layout.moe_token_dispatcher", "deepep"
		c := Compare(assess(t, &r, "base.log", Inputs{}), assess(t, &b, "short.log", Inputs{}))
		if c.Effect != Slower || c.Holds(Screen) {
			t.Errorf("%+v", c)
		}
	})
	t.Run("across precisions", func(t *testing.T) {
		r, b := *base, *base
		r.Workload.Precision, r.Variable, r.Base = "fp8-blockwise", "workload.precision", "bf16"
		log := readTestLog(t, "base.log")
		fast := *log
		fast.Iterations = slices.Clone(log.Iterations)
		for i := range fast.Iterations {
			fast.Iterations[i].Seconds.V /= 1.2
			fast.Iterations[i].TFLOPS.V *= 1.2
		}
		c := Compare(Assess(&r, &fast, Inputs{PeakTFLOPS: known(1979)}), Assess(&b, log, Inputs{PeakTFLOPS: known(989.5)}))
		if c.Effect != Faster || math.Abs(c.TokensChange.V-0.2) > 0.001 || math.Abs(c.MFUChange.V+0.4) > 0.001 {
			t.Errorf("1.2 times the tokens at twice the peak is 0.6 times the MFU: %+v", c)
		}
	})
}

func TestRegress(t *testing.T) {
	c := &Contract{}
	c.Measure.WarmUp = DefaultWarmUp
	r := Regress(assess(t, c, "faster.log", Inputs{}), assess(t, c, "base.log", Inputs{}))
	if !r.Worse || r.Effects[0].What != "median step" || len(r.Differences) != 2 || !strings.Contains(r.Conclusion, "none is called the cause") {
		t.Errorf("%+v", r)
	}
	if r := Regress(assess(t, c, "base.log", Inputs{}), assess(t, c, "faster.log", Inputs{})); r.Worse {
		t.Errorf("faster is no regression: %+v", r)
	}
	if r := Regress(assess(t, c, "base.log", Inputs{}), assess(t, c, "base.log", Inputs{})); r.Worse || len(r.Differences) > 0 {
		t.Errorf("the same log twice: %+v", r)
	}
}

func TestFeatures(t *testing.T) {
	line := func(s string) string { return s + "\n" + iterationLine(1, 1000) + "\n" }
	for _, tt := range []struct {
		name, log, trace string
		change           func(*Contract)
		feature          string
		want             State
		by, reason       string
	}{
		{"fallback", line("WARNING: DeepEP is only applicable to Ampere, Hopper, and Blackwell (B200/B300) GPUs. Current GPU: X. Falling back to alltoall."), "", nil, "dispatcher deepep", Contradicted, "Falling back", "Bridge says so"},
		{"not installed", line("ImportError: DeepEP is not installed. Please install"), "", nil, "dispatcher deepep", Contradicted, "not installed", "it cannot have run"},
		{"trace", line(""), "trace-deepep.json.gz", nil, "dispatcher deepep", Proven, "8 kernels of deepep", "its kernels ran"},
		{"gradient overlap", line(""), "trace-deepep.json.gz", nil, "gradient overlap", Proven, "100.0 % of DP reduce-scatter and all-reduce", "all of it is hidden"},
		{"parameter gather", line(""), "trace-deepep.json.gz", nil, "parameter gather overlap", Unproven, "no DP all-gather", "reduced gradients prove no gather"},
		{"allgather", line(""), "trace.json.gz", func(c *Contract) { c.Layout.Dispatcher = "allgather" }, "dispatcher allgather", Contradicted, "8 exchanges", "tokens went by all-to-all"},
		{"EP overlap", line(""), "trace.json.gz", func(c *Contract) { c.Layout.EPOverlap, c.Layout.Dispatcher = true, "alltoall" }, "EP overlap", Proven, "50.0 % of EP", "half of it is hidden"},
		{"alltoall", line(""), "trace.json.gz", func(c *Contract) { c.Layout.Dispatcher = "alltoall" }, "dispatcher alltoall", Proven, "8 exchanges", "groups are named"},
		{"alltoall, unnamed", line(""), "trace-unnamed.jsonl.gz", func(c *Contract) { c.Layout.Dispatcher = "alltoall" }, "dispatcher alltoall", Unproven, "names no NCCL kernel", "a guess proves nothing"},
		{"fp8", line(""), "trace.json.gz", func(c *Contract) { c.Workload.Precision = "fp8-blockwise" }, "fp8-blockwise kernels", Proven, "8 matrix products", "operands are e4m3"},
		{"fp4", line(""), "trace.json.gz", func(c *Contract) { c.Workload.Precision = "nvfp4" }, "nvfp4 kernels", Contradicted, "no matrix products in FP4", "there are none"},
		{"capture", line("CUDA graph capture done for training!!!"), "", func(c *Contract) { c.Layout.GraphImpl = "full_iteration" }, "graph replay", Unproven, "captured, replay not shown", "a capture is no replay"},
		{"no layers", line("TECudaGraphHelper: No graphable layers found. Skipping CUDA graph capture."), "", func(c *Contract) { c.Layout.GraphImpl = "transformer_engine" }, "graph replay", Contradicted, "No graphable layers", "nothing was captured"},
		{"no replay", line(""), "trace.json.gz", func(c *Contract) { c.Layout.GraphImpl = "local" }, "graph replay", Contradicted, "no graph launches", "a trace without launches"},
		{"TP overlap off", line("Disabling tensor parallel communication overlap due to TP size < 2."), "", func(c *Contract) { c.Layout.TPOverlap = true }, "TP overlap", Contradicted, "TP size < 2", "Bridge says so"},
		{"delayed wgrad", line(""), "trace.json.gz", func(c *Contract) { c.Layout.DelayWgrad = true }, "delayed weight gradients", Unproven, "compare runs", "nothing shows it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := deepepContract(t)
			if tt.change != nil {
				tt.change(c)
			}
			var in Inputs
			if tt.trace != "" {
				in.Trace = readTestTrace(t, tt.trace)
			}
			for _, f := range Assess(c, readText(t, tt.log), in).Features {
				if f.Name == tt.feature {
					if f.State != tt.want || !strings.Contains(f.By, tt.by) || tt.trace == "" && f.State == Contradicted && f.Line == 0 || f.Source == "" {
						t.Errorf("%+v, want %s by %q: %s", f, tt.want, tt.by, tt.reason)
					}
					return
				}
			}
			t.Error("no such feature")
		})
	}
}

func TestCheckpoint(t *testing.T) {
	saved := "  [2026-08-22 10:00:30.000000] successfully saved checkpoint from iteration      30 to /c [ t 1/2, p 1/8 ]\n"
	loaded := "  successfully loaded checkpoint from /c [ t 1/2, p 1/8 ] at iteration 30\n"
	for _, tt := range []struct {
		log     string
		checked bool
		says    string
	}{
		{saved + loaded, true, "saved and loaded"},
		{saved, false, "never loaded"},
		{loaded, false, "never saved"},
		{"", false, "none saved and none loaded"},
		{"---- arguments ----\n  no_load_optim ................................... True\n---- end of arguments ----\n" + saved + loaded, false, "no_load_optim"},
		{"    will not load any checkpoints and will start from random\n", false, "none was found"},
	} {
		if c := checkpoint(readText(t, tt.log)); c.Checked != tt.checked || !strings.Contains(c.Text, tt.says) {
			t.Errorf("%q: %+v", tt.log, c)
		}
	}
}

// TestJSON: what is unknown is null, and nothing that JSON cannot hold breaks an answer.
func TestJSON(t *testing.T) {
	a := assess(t, deepepContract(t), "fake-agrees.log", Inputs{})
	var b bytes.Buffer
	for _, v := range []any{a, readTestLog(t, "fake-agrees.log"), readTestTrace(t, "trace.json.gz"), testContract(t)} {
		if err := json.NewEncoder(&b).Encode(v); err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
	for _, want := range []string{`"mfu":null`, `"grad_norm":"NaN"`, `"nccl_version":null`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestDumpedFields: each path is a contract's, and each argument is decided by one field or shared on purpose.
func TestDumpedFields(t *testing.T) {
	c := testContract(t)
	for _, d := range dumpedFields {
		if fieldAt(d.path) == nil {
			t.Errorf("%s is no field", d.path)
		}
		for name := range d.args(c) {
			if strings.Contains(name, "-") {
				t.Errorf("%s: arguments are written with underscores", name)
			}
		}
	}
	log := readTestLog(t, "base.log")
	if d := contradictions(c, log); len(d) > 0 {
		t.Errorf("the log of the contract's own run contradicts it: %v", d)
	}
}
