package plan

import (
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

// The public reports of the notes' cases.json of the kinds "locality" and "layout-question", as tests of direction: which
// of two layouts is faster, what fits, what is refused, what to change. One row a case; open says what of it we cannot
// judge because it is not modelled, "" if nothing.
var publicCases = []struct {
	id, says string
	open     string
	check    func(t *testing.T)
}{
	{"loc-001", "EP 4 in one box: DeepEP is slower than alltoall, so take alltoall",
		"by how much: the model does not tell dispatchers apart inside a domain, and says so", caseDispatcherInside},
	{"loc-003", "Qwen3-235B on 256 H100: EP 32 over 4 boxes, better with overlap, beats EP 8 in the box with TP 4 or PP 32",
		"the FSDP layout of equal speed: FSDP has no step time", caseEPAcrossBoxes},
	{"loc-007", "an EP group uses min(EP, 64) ranks of an NVL72 domain", "", caseHybridDomain},
	{"loc-008", "dispatch grows 2.0 and 3.6 times from EP 8 in the box to EP 16 and 32 over boxes", "", caseDispatchOverBoxes},
	{"loc-010", "boxes of 4 GPUs: EP above 4 leaves the box",
		"the slow 64 GB machine itself: neither its network nor the model's experts are stated", caseBoxOfFour},
	{"loc-011", "TP 8 x PP 2 does not run on 8 GPUs", "", caseTooFewGPUs},
	{"loc-012", "Mixtral 8x7B on 16 H100: EP 8 in the box with PP 2, not ETP", "", caseMixtral},
	{"loc-017", "EP overlap takes a 16-GPU step from 24.7 to 21.0 s", "", caseOverlapPays},
	{"loc-018", "across two boxes the flex dispatcher is at least twice as fast as NCCL, also when routing is uneven", "", caseFlexAcross},
	{"loc-019", "Kimi-K2 on 256 B300 with TP 8 PP 8 EP 32 is legal; flex beyond 64 ranks deserves a warning", "", caseFlexLimit},
	{"loc-020", "activations dominate: CP 2 halves them, EP 16 leaves them, PP 48 hardly helps", "", caseWhatHelps},
	{"loc-022", "Qwen3-235B from 16K to 128K with CP 1 to 8: legal, fits 80 GB, TFLOPS rise with length", "", caseLongContext},
	{"loc-023", "EP 64 of DeepSeek-V3 stays in one NVL72 domain over 16 hosts; GB300 beats GB200", "", caseNVL72},
	{"loc-024", "EP 64 on NVL72 leaves 8 of 72 GPUs idle: the segment must hold 64", "GLM-5.2 itself, which the catalogue does not have", caseSegment},
	{"lq-001", "a 32B model at 16K on 16 H100 with TP 4 CP 4 fits; 8 GPUs do with more tensor parallelism or full recompute",
		"Adam on the CPU (bf16 state stands for it), and Qwen2.5-32B (Qwen3-32B does)", caseFewestGPUs},
	{"lq-002", "a 744B GLM-5 trains at 8K on 512 GPUs of 140 GB", "", caseGLM5},
	{"lq-005", "Qwen3-30B on 16 A100 with TP 2 EP 8: ETP 1 and ETP 2 are both legal, with other expert state; ETP 1 is faster", "", caseETPDefault},
	{"lq-007", "Llama-7B on 8 A100 at micro-batch 2: 50.5 GB of state, tight at best", "", caseLlama7B},
	{"lq-008", "six smallest numbers of GPUs: PP x max(TP x CP, EP x ETP), not the product of all", "", caseSmallestWorlds},
	{"lq-010", "CP 16 on 32 ranks: two CP groups, DP pairs 16 apart, dense optimizer over all 32", "", caseGroups},
	{"lq-011", "EP 64 with PP 4 on 256 GPUs runs, EDP 1", "GLM-5.3 itself, which the catalogue does not have", caseEDP1},
	{"lq-012", "10 bytes a parameter with bf16 gradients and moments: 117 GB for 748B on 64 GPUs", "", caseTenBytes},
	{"oom-007", "Qwen3-30B at 100K on 8 A100: CP 4 needs less than CP 2, logits are a large part",
		"its Adam on the CPU: the comparison is of activations, which that does not change", caseHundredThousand},
}

func TestPublicCases(t *testing.T) {
	for _, c := range publicCases {
		t.Run(c.id, func(t *testing.T) {
			t.Log(c.says)
			if c.open != "" {
				t.Log("not judged: " + c.open)
			}
			c.check(t)
		})
	}
}

func caseModel(t *testing.T, id string) *arch.Model {
	t.Helper()
	m, err := arch.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func casePlatform(t *testing.T, id string) *topology.Platform {
	t.Helper()
	p, err := topology.LookupPlatform(id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// caseLayout reads a layout's text for a number of GPUs; unnamed batch and sequence are the defaults.
func caseLayout(t *testing.T, m *arch.Model, world int, text string) layout.Layout {
	t.Helper()
	l, err := layout.Parse(text, layout.Defaults{World: world, Model: m})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// casePrice prices a layout; change may switch software on.
func casePrice(t *testing.T, m *arch.Model, gpu string, l *layout.Layout, change func(*steptime.Software)) steptime.Price {
	t.Helper()
	est, err := steptime.New(m, casePlatform(t, gpu), steptime.DefaultRun())
	if err != nil {
		t.Fatal(err)
	}
	sw := steptime.BringUp()
	if change != nil {
		change(&sw)
	}
	p := est.Price(l, sw)
	if !p.Known {
		t.Fatalf("%v: %v", l.Degrees, p.Notes.Texts())
	}
	return p
}

// casePeak is the allocated peak of a layout under a run, bytes, and all stages.
func casePeak(t *testing.T, m *arch.Model, run memmodel.Run, l *layout.Layout) (int64, []memmodel.Stage) {
	t.Helper()
	e, err := memmodel.New(m, run)
	if err != nil {
		t.Fatal(err)
	}
	stages, err := e.Estimate(l)
	if err != nil {
		t.Fatal(err)
	}
	var peak int64
	for i := range stages {
		peak = max(peak, stages[i].PeakAllocated)
	}
	return peak, stages
}

func caseLegal(t *testing.T, m *arch.Model, l *layout.Layout) {
	t.Helper()
	if errs := layout.Check(m, l).Errors(); len(errs) > 0 {
		t.Errorf("%v: %v", l.Degrees, errs)
	}
}

// caseSpans lays a mesh over the domains that a platform uses for it.
func caseSpans(t *testing.T, p *topology.Platform, d folding.Degrees) topology.Spans {
	t.Helper()
	domain, err := p.UsableDomain(d)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := topology.SpansOf(d, folding.DefaultOrder, domain)
	if !ok {
		t.Fatalf("%v: no spans", d)
	}
	return s
}

func flex(d layout.Dispatcher) func(*steptime.Software) {
	return func(sw *steptime.Software) { sw.Dispatcher = d }
}

func flexOverlap(d layout.Dispatcher) func(*steptime.Software) {
	return func(sw *steptime.Software) { sw.Dispatcher, sw.EPOverlap, sw.DelayWgrad = d, true, true }
}

// needOf is what the fullest of all stages takes.
func needOf(stages []memmodel.Stage) (n memmodel.Need) {
	for i := range stages {
		n = n.Max(stages[i].Need())
	}
	return n
}
