package plan

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology"
)

// ask is a question in a test: a model and GPUs by their short names.
func ask(t testing.TB, model, gpu string, gpus int) Request {
	t.Helper()
	m, err := arch.Lookup(model)
	if err != nil {
		t.Fatal(err)
	}
	p, err := topology.LookupPlatform(gpu)
	if err != nil {
		t.Fatal(err)
	}
	return Request{Model: m, Platform: p, GPUs: gpus}
}

func answer(t testing.TB, r Request) *Result {
	t.Helper()
	out, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The five questions of the first issue. Each first plan is held against the tuned layout of the same model on the
// nearest GPU count and kind in moeplan's research data (recipes.json, kinds benchmark-recipe, modelzoo and
// verification; record numbers below), or the reason for the difference is stated.
func TestFirstQuestions(t *testing.T) {
	for _, c := range []struct {
		model, gpu string
		gpus       int
		bf16Grads  bool
		tp, pp, ep int
		reason     string
	}{
		{"qwen3-235b", "h100", 256, false, 2, 8, 32, "ModelZoo best practice: TP2 PP8 VPP4 EP32, 245 TFLOPS"},
		{"deepseek-v3", "gb200", 256, false, 1, 4, 64, "benchmark recipe: TP1 PP4 VPP4 EP64, mla_up_proj"},
		{"qwen3-30b-a3b", "h100", 16, true, 1, 1, 16, "r0338: TP1 PP1 EP16 MBS1 without recompute, gradients in bf16"},
		{"qwen3-30b-a3b", "h100", 16, false, 2, 1, 16, "r0338 but with fp32 gradients, which do not fit at TP1 without full recompute"},
		{"mixtral-8x7b", "h200", 8, false, 2, 1, 8, "no tuned record; EP8 in the node, and TP2 because TP1 needs whole-layer recompute"},
		{"llama3-70b", "h100", 64, false, 4, 4, 1, "r0182: TP4 PP4 VPP5 (CP2 at its 8192 tokens)"},
	} {
		r := ask(t, c.model, c.gpu, c.gpus)
		r.BF16Gradients = c.bf16Grads
		out := answer(t, r)
		if len(out.Plans) == 0 {
			t.Errorf("%s on %d %s: nothing fits", c.model, c.gpus, c.gpu)
			continue
		}
		l := &out.Plans[0].Layout
		if l.TP != c.tp || l.PP != c.pp || l.EP != c.ep || l.CP != 1 || l.ETP != 1 {
			t.Errorf("%s on %d %s: first plan %s, want tp%d pp%d ep%d: %s", c.model, c.gpus, c.gpu, out.Plans[0].Key, c.tp, c.pp, c.ep, c.reason)
		}
		sane(t, &r, out)
	}
}

// sane checks what must hold of any answer: every plan legal and within memory, TP inside the domain on top, meshes
// distinct, numbered, equals first.
func sane(t *testing.T, r *Request, out *Result) {
	t.Helper()
	seen := map[mesh]bool{}
	equal := true
	limit := int64((out.Request.MemoryGiB - out.Request.HeadroomGiB - out.Request.ReserveGiB) * float64(gib))
	for i := range out.Plans {
		p := &out.Plans[i]
		if broken := layout.Check(r.Model, &p.Layout).Errors(); len(broken) > 0 {
			t.Errorf("plan %s is not legal: %v", p.Key, broken)
		}
		for j := range p.Stages {
			if peak := p.Stages[j].Memory.PeakAllocated; peak > limit {
				t.Errorf("plan %s: stage %d allocates %d, limit %d", p.Key, j, peak, limit)
			}
		}
		if p.Layout.TP > out.Request.NVLinkDomain {
			t.Errorf("plan %s puts TP across NVLink domains of %d", p.Key, out.Request.NVLinkDomain)
		}
		if seen[meshOf(&p.Layout)] {
			t.Errorf("plan %s repeats a mesh", p.Key)
		}
		seen[meshOf(&p.Layout)] = true
		if p.Rank != i+1 {
			t.Errorf("plan %d has rank %d", i+1, p.Rank)
		}
		if p.EqualToBest && !equal {
			t.Errorf("plan %d is called equal behind one that is not", p.Rank)
		}
		equal = p.EqualToBest
		if !equal && i > 0 && p.TunedTimeMS < out.Plans[i-1].TunedTimeMS && !out.Plans[i-1].EqualToBest {
			t.Errorf("plan %d is faster than the one before", p.Rank)
		}
		if !(p.StepTimeMS > 0) || !(p.TunedTimeMS > 0) || p.TunedTimeMS > p.StepTimeMS*1.0001 {
			t.Errorf("plan %s: %g ms now, %g tuned", p.Key, p.StepTimeMS, p.TunedTimeMS)
		}
	}
	s := &out.Searched
	illegal := 0
	for _, n := range s.RejectedByRule {
		illegal += n
	}
	if s.Layouts != s.Legal+illegal || s.Fit > s.Legal || s.FitMeshes > s.Meshes {
		t.Errorf("counts do not add up: %+v", s)
	}
}

// The same question gives the same answer whatever the number of workers.
func TestWorkersDoNotMatter(t *testing.T) {
	var first []byte
	for _, workers := range []int{1, 2, 5} {
		r := ask(t, "qwen3-30b", "h100", 64)
		r.Workers = workers
		out := answer(t, r)
		out.Searched.Seconds = 0
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = text
		}
		if string(text) != string(first) {
			t.Errorf("%d workers answer differently", workers)
		}
	}
}

// When nothing fits, the miss is the legal layout that exceeds the limit by least, and the remedies and the larger
// cluster really fit.
func TestNearestMiss(t *testing.T) {
	r := ask(t, "qwen3-235b", "h100", 32)
	out := answer(t, r)
	if len(out.Plans) != 0 || out.NearestMiss == nil {
		t.Fatalf("%d plans fit, miss %v", len(out.Plans), out.NearestMiss)
	}
	m := out.NearestMiss
	if m.OverBytes <= 0 || m.PeakBytes-m.LimitBytes != m.OverBytes {
		t.Errorf("miss %+v does not add up", m)
	}
	for _, w := range m.Remedies {
		if w.Key == "" {
			t.Errorf("remedy %+v names no layout", w)
		}
	}
	if m.SmallestGPUs == nil {
		t.Fatal("no smallest cluster")
	}
	if *m.SmallestGPUs <= 32 || *m.SmallestGPUs%8 != 0 {
		t.Errorf("smallest cluster %d: want whole nodes above the 32 GPUs asked for", *m.SmallestGPUs)
	}
	bigger := ask(t, "qwen3-235b", "h100", *m.SmallestGPUs)
	if again := answer(t, bigger); len(again.Plans) == 0 {
		t.Errorf("nothing fits on the %d GPUs that are said to do", *m.SmallestGPUs)
	}
}

// What cannot be priced is refused by name.
func TestRefusedByName(t *testing.T) {
	for _, c := range []struct{ model, gpu, want, reason string }{
		{"qwen3-235b", "mi300x", "--memory-gib", "the platform's memory is unknown; AMD cards need no --sm"},
		{"qwen3-235b", "h20", "--nic-gbit", "the network's rate is unknown"},
	} {
		_, err := Search(context.Background(), ask(t, c.model, c.gpu, 64))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s on %s: error %q, want one line that names %q (%s)", c.model, c.gpu, err, c.want, c.reason)
		}
	}
}

// Models with linear layers are planned, and the answer says that their time was not measured.
func TestLinearModels(t *testing.T) {
	for _, model := range []string{"nemotron-3-nano", "qwen3-next"} {
		r := answer(t, ask(t, model, "gb200", 64))
		if len(r.Plans) == 0 || !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "counted, not fitted") }) {
			t.Errorf("%s: %d plans, notes %q", model, len(r.Plans), r.Notes)
		}
	}
}

// Pins hold for every plan, and nothing legal is an error that says so.
func TestPins(t *testing.T) {
	r := ask(t, "qwen3-235b", "h100", 256)
	r.Pins = layout.Pins{TP: layout.Exactly(4), PP: layout.Exactly(8, 16)}
	r.Recompute = &layout.FullRecompute
	for _, p := range answer(t, r).Plans {
		if p.Layout.TP != 4 || p.Layout.PP != 8 && p.Layout.PP != 16 || p.Layout.Recompute != layout.FullRecompute {
			t.Errorf("plan %s ignores the pins", p.Key)
		}
	}
	r.Pins.TP = layout.Exactly(3)
	if _, err := Search(context.Background(), r); err == nil || !strings.Contains(err.Error(), "TP 3") {
		t.Errorf("TP 3 with 64 heads: error %v", err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := ask(t, "deepseek-v3", "h100", 1024)
	r.Wide = true
	if _, err := Search(ctx, r); err != context.Canceled {
		t.Errorf("cancelled search: %v", err)
	}
}

// The answer survives JSON: what another program reads is what was found.
func TestResultRoundTrip(t *testing.T) {
	out := answer(t, ask(t, "mixtral-8x7b", "h200", 8))
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	for i := range out.Plans {
		out.Plans[i].Layout = layout.Layout{} // its text form, key, is what travels
	}
	if !reflect.DeepEqual(*out, back) {
		t.Error("the result changes on its way through JSON")
	}
}

// BenchmarkWide prices the wide space of the first question: the issue asks for under two seconds on two cores.
func BenchmarkWide(b *testing.B) {
	for _, c := range []struct {
		name, model, gpu string
		gpus             int
	}{
		{"qwen3-235b/256", "qwen3-235b", "h100", 256},
		{"deepseek-v3/2048", "deepseek-v3", "gb200", 2048},
		{"deepseek-v3/16384", "deepseek-v3", "gb200", 16384},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := ask(b, c.model, c.gpu, c.gpus)
			r.Wide = true
			r, _ = r.filled()
			space, err := r.space()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			layouts := int64(0)
			for b.Loop() {
				found, err := sweep(context.Background(), &r, space)
				if err != nil {
					b.Fatal(err)
				}
				layouts = found.legal()
			}
			b.ReportMetric(float64(layouts)*float64(b.N)/b.Elapsed().Seconds(), "layouts/s")
		})
	}
}

// Gradients of fp16 runs are fp16 whatever is asked, so reducing them in bf16 buys nothing in time.
func TestFP16Gradients(t *testing.T) {
	r := ask(t, "qwen3-30b-a3b", "h100", 16)
	r.Precision, r.Top = layout.FP16, 1
	wide := answer(t, r)
	if wide.BF16Gradients != "" {
		t.Errorf("fp16: %q", wide.BF16Gradients)
	}
	r.BF16Gradients = true
	if narrow := answer(t, r); narrow.Plans[0].StepTimeMS != wide.Plans[0].StepTimeMS {
		t.Errorf("%g ms, with bf16 gradients %g", wide.Plans[0].StepTimeMS, narrow.Plans[0].StepTimeMS)
	}
}
