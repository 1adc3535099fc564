package megatron

import (
	_ "embed"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// TestWorkedExample compares with the command of layout-rules.md 4.9, which the real parser and validate_args accepted:
// every flag of it is written with its values, and what is more or less is listed here with its reason.
func TestWorkedExample(t *testing.T) {
	const example = `--tensor-model-parallel-size 2 --pipeline-model-parallel-size 8 --context-parallel-size 1
--expert-model-parallel-size 32 --expert-tensor-parallel-size 1 --sequence-parallel
--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
--num-layers 94 --hidden-size 4096 --ffn-hidden-size 12288 --num-attention-heads 64
--group-query-attention --num-query-groups 4 --kv-channels 128 --qk-layernorm
--normalization RMSNorm --norm-epsilon 1e-06 --swiglu --disable-bias-linear --untie-embeddings-and-output-weights
--position-embedding-type rope --rotary-base 1000000 --rotary-percent 1.0
--seq-length 4096 --max-position-embeddings 40960 --attention-dropout 0.0 --hidden-dropout 0.0
--num-experts 128 --moe-ffn-hidden-size 1536 --moe-router-topk 8
--moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 0.001
--moe-token-dispatcher-type alltoall --moe-grouped-gemm --moe-permute-fusion --moe-router-fusion
--moe-router-dtype fp32 --moe-router-force-load-balancing
--micro-batch-size 1 --global-batch-size 256 --train-iters 3 --eval-iters 0 --eval-interval 1000
--lr 1e-4 --min-lr 1e-5 --lr-decay-style cosine --lr-warmup-iters 1
--recompute-granularity selective --recompute-modules moe_act layernorm
--bf16 --transformer-impl transformer_engine --cross-entropy-loss-fusion --cross-entropy-fusion-impl native
--tokenizer-type NullTokenizer --vocab-size 151936 --make-vocab-size-divisible-by 1187
--mock-data --num-workers 1 --no-mmap-bin-files --no-create-attention-mask-in-dataloader
--log-interval 1 --log-memory-interval 1 --no-one-logger --fake-process-group`
	want, err := SplitArgs(strings.Fields(example))
	if err != nil {
		t.Fatal(err)
	}
	// The example's layout in the folded form of Split.String; its GBS 2048 is cut to 256 as its last paragraph says;
	// --log-throughput and --distributed-timeout-minutes say nothing in a fake run. The router's score function is the
	// default, which the catalogue writes out.
	want.Set("--pipeline-model-parallel-layout", "Et*5|(t*6|)*14t*5L")
	want.Set("--moe-router-score-function", "softmax")
	l, m := qwen235(t)
	c, err := CheckCommand(l, m, CheckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	byName := func(a, b Flag) int { return strings.Compare(a.Name, b.Name) }
	got := slices.Clone(c.Args)
	slices.SortFunc(got, byName)
	slices.SortFunc(want, byName)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags differ from the example (-example +ours):\n%s", diff)
	}
	// Rank of the last stage: 7*256/8 (layout-rules.md 4.9).
	for i, run := range []struct{ stage, rank int }{{0, 0}, {7, 224}} {
		r := c.Runs[i]
		env := []Variable{{"WORLD_SIZE", "256"}, {"RANK", strconv.Itoa(run.rank)}, {"LOCAL_RANK", "0"}, {"CUDA_DEVICE_MAX_CONNECTIONS", "1"}}
		if r.Stage != run.stage || r.Rank != run.rank || !slices.Equal(r.Env, env) {
			t.Errorf("run %d is stage %d as rank %d with %v", i, r.Stage, r.Rank, r.Env)
		}
		if !slices.Equal(r.Argv[:2], []string{"python", "pretrain_gpt.py"}) || !slices.Equal(r.Argv[2:], c.Args.Argv()) {
			t.Errorf("run %d is %v", i, r.Argv)
		}
	}
	if len(c.Runs) != 2 || c.Runs[0].Holds != "embedding, layers 1-5, layers 48-53" || c.Runs[1].Holds != "layers 42-47, layers 90-94, output layer" {
		t.Errorf("runs %+v", c.Runs)
	}
}

// TestGolden keeps the whole script readable in review; UPDATE=1 go test rewrites it, then read the diff.
func TestGolden(t *testing.T) {
	l, m := qwen235(t)
	l.Dispatcher = layout.DeepEP
	c, err := CheckCommand(l, m, CheckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "qwen3-235b.golden.sh")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(c.Script()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), c.Script()); diff != "" {
		t.Errorf("script differs (-golden +got):\n%s", diff)
	}
}

// TestAlways holds what every check command must say, whatever the model and the layout (layout-rules.md 4).
func TestAlways(t *testing.T) {
	eachCommand(t, func(t *testing.T, m *arch.Model, l *layout.Layout, c *Command) {
		one := func(flag string, want ...string) {
			t.Helper()
			if got, ok := c.Args.Get(flag); !ok || !slices.Equal(got, want) {
				t.Errorf("%s is %v (%v), want %v", flag, got, ok, want)
			}
		}
		one("--fake-process-group")
		one("--expert-tensor-parallel-size", strconv.Itoa(l.ETP))
		one("--train-iters", "3")
		one("--eval-interval", "1000")
		one("--tokenizer-type", "NullTokenizer")
		one("--vocab-size", strconv.Itoa(m.VocabSize))
		one("--make-vocab-size-divisible-by", strconv.Itoa(m.MakeVocabSizeDivisibleBy))
		one("--log-interval", "1")
		one("--log-memory-interval", "1")
		one("--attention-dropout", "0.0")
		one("--use-distributed-optimizer")
		if m.MoE != nil {
			one("--moe-token-dispatcher-type", "alltoall")
			one("--moe-router-force-load-balancing")
		}
		for _, flag := range []string{"--moe-flex-dispatcher-backend", "--save", "--load", "--data-path", "--data-cache-path"} {
			if _, ok := c.Args.Get(flag); ok {
				t.Errorf("%s does not go with a fake run", flag)
			}
		}
		if c.Runs[0].Rank != 0 || c.Runs[len(c.Runs)-1].Stage != l.PP-1 {
			t.Errorf("the runs are %+v, want RANK 0 first and the last stage last", c.Runs)
		}
		f, err := folding.New(l.Degrees, l.Order, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Runs {
			p, err := f.Coordinates(r.Rank)
			if err != nil || p.TP != 0 || p.CP != 0 || p.DP != 0 || p.PP != r.Stage {
				t.Errorf("rank %d of stage %d is at %+v, %v: such a rank does not train or reports nothing", r.Rank, r.Stage, p, err)
			}
		}
		gbs, err := strconv.Atoi(c.Args[c.Args.index("--global-batch-size")].Values[0])
		if err != nil || gbs > l.GlobalBatchSize || gbs%(l.MicroBatchSize*l.DP()) != 0 {
			t.Errorf("global batch %d does not come from %d with MBS %d and DP %d", gbs, l.GlobalBatchSize, l.MicroBatchSize, l.DP())
		}
		if micro := gbs / l.MicroBatchSize / l.DP(); l.VPP > 1 && micro%l.PP != 0 && micro != l.NumMicrobatches() {
			t.Errorf("%d micro-batches are no multiple of PP %d", micro, l.PP)
		}
		text := strings.Join(c.Comments, "\n")
		if !strings.Contains(text, "--fake-init-process-group") || (l.Dispatcher != layout.AllToAll && !strings.Contains(text, l.Dispatcher.String())) ||
			(m.Kind == arch.Hybrid) != strings.Contains(text, "pretrain_hybrid.py") {
			t.Errorf("comments leave something out:\n%s", text)
		}
	})
}

//go:embed testdata/schedule.json
var scheduleJSON []byte

// TestBatchReachesThePeak compares with the recorded schedule of the first stage: the cut batch has as many chunks of
// micro-batches in flight as the full one.
func TestBatchReachesThePeak(t *testing.T) {
	var recorded struct{ Rows [][7]int }
	if err := json.Unmarshal(scheduleJSON, &recorded); err != nil {
		t.Fatal(err)
	}
	cut, compared := 0, 0
	for _, row := range recorded.Rows {
		pp, vpp, m, overlap, total, allWarmup, warmup := row[0], row[1], row[2], row[3] == 1, row[4], row[5] == 1, row[6]
		if overlap && vpp == 1 || vpp > 1 && pp == 1 || vpp > 1 && m%pp != 0 {
			continue // refused by the framework: rules 114, 51 and 53
		}
		inFlight := warmup + 1
		if allWarmup {
			inFlight = total
		}
		l := layout.Layout{Degrees: folding.Degrees{World: pp, TP: 1, CP: 1, PP: pp, EP: 1, ETP: 1}, VPP: vpp, MicroBatchSize: 1,
			GlobalBatchSize: m, EPOverlap: overlap}
		got := checkMicrobatches(&l)
		if got > m || (vpp > 1 && got%pp != 0) {
			t.Errorf("PP %d, VPP %d, M %d: %d micro-batches", pp, vpp, m, got)
		}
		if got < m {
			cut++
		}
		if got*vpp < inFlight {
			t.Errorf("PP %d, VPP %d, M %d, overlap %v: %d micro-batches are %d chunks, %d are in flight", pp, vpp, m, overlap, got, got*vpp, inFlight)
		}
		compared++
	}
	if compared < 50 || cut < 10 {
		t.Errorf("only %d recordings compared, %d of them cut", compared, cut)
	}
	t.Logf("%d recordings, %d cut", compared, cut)
}

func TestStages(t *testing.T) {
	m, err := arch.Lookup("deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	split, err := layout.ParseSplit("Et*15|t*16|t*15|t*15m|L", 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := &layout.Layout{Degrees: folding.Degrees{World: 40, TP: 1, CP: 1, PP: 5, EP: 8, ETP: 1}, VPP: 1, Split: split,
		MicroBatchSize: 1, GlobalBatchSize: 80, SeqLength: 4096}
	c, err := CheckCommand(l, m, CheckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var ranks []int
	for _, r := range c.Runs {
		ranks = append(ranks, r.Rank)
	}
	// Stages 0, 3 (MTP) and 4, 8 ranks each: p*W/PP (layout-rules.md 4.3).
	if !slices.Equal(ranks, []int{0, 24, 32}) {
		t.Errorf("ranks %v", ranks)
	}
	if text := strings.Join(c.Comments, "\n"); !strings.Contains(text, "Not seen: pipeline stages 1 to 2.") {
		t.Errorf("the unseen stages are missing:\n%s", text)
	}
	l.Order = folding.TPPPDPOrder
	l.TP, l.EP = 2, 2 // TP*CP = ETP*EP, which this order needs
	if c, err = CheckCommand(l, m, CheckOptions{}); err != nil {
		t.Fatal(err)
	}
	// p*TP*CP with --use-tp-pp-dp-mapping (layout-rules.md 4.3).
	if c.Runs[1].Rank != 3*2 || c.Runs[2].Rank != 4*2 {
		t.Errorf("ranks %d and %d", c.Runs[1].Rank, c.Runs[2].Rank)
	}
}

func TestUnseenStages(t *testing.T) {
	for _, tt := range []struct {
		pp     int
		stages []int
		want   string
	}{
		{1, []int{0}, ""},
		{2, []int{0, 1}, ""},
		{3, []int{0, 2}, "pipeline stages 1"},
		{8, []int{0, 7}, "pipeline stages 1 to 6"},
		{8, []int{0, 3, 7}, "pipeline stages 1 to 2 and 4 to 6"},
		{4, []int{0, 2, 3}, "pipeline stages 1"},
	} {
		var runs []Run
		for _, s := range tt.stages {
			runs = append(runs, Run{Stage: s})
		}
		if got := unseenStages(tt.pp, runs); got != tt.want {
			t.Errorf("PP %d, runs on %v: %q, want %q", tt.pp, tt.stages, got, tt.want)
		}
	}
}

func TestHybridPattern(t *testing.T) {
	m, err := arch.Lookup("nemotron-3-super")
	if err != nil {
		t.Fatal(err)
	}
	l := forModel(t, layout.Layout{Degrees: folding.Degrees{World: 32, TP: 1, CP: 1, PP: 4, EP: 8, ETP: 1}, VPP: 2,
		MicroBatchSize: 1, GlobalBatchSize: 64, SeqLength: 4096}, m)
	c, err := CheckCommand(l, m, CheckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pattern, _ := c.Args.Get("--hybrid-layer-pattern")
	main, mtp, _ := strings.Cut(pattern[0], "/")
	original, _, _ := strings.Cut(m.HybridLayerPattern, "/")
	if strings.Count(main, "|") != 7 || strings.ReplaceAll(main, "|", "") != original || mtp != "*E" {
		t.Errorf("pattern %s of 8 chunks and the MTP layer *E", pattern[0])
	}
	for _, flag := range []string{"--num-virtual-stages-per-pipeline-rank", "--pipeline-model-parallel-layout"} {
		if _, ok := c.Args.Get(flag); ok {
			t.Errorf("%s is refused beside a pattern (layout-rules.md rule 75)", flag)
		}
	}
	if c.Launcher != "pretrain_hybrid.py" {
		t.Errorf("launcher %s", c.Launcher)
	}
}

func TestCheckErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(l *layout.Layout, m *arch.Model, o *CheckOptions)
		want   string
	}{
		{"one iteration", func(_ *layout.Layout, _ *arch.Model, o *CheckOptions) { o.Iterations = 1 }, "at least 2 iterations"},
		{"no split", func(l *layout.Layout, _ *arch.Model, _ *CheckOptions) { l.Split = nil }, "no pipeline split"},
		{"split of another VPP", func(l *layout.Layout, _ *arch.Model, _ *CheckOptions) { l.VPP = 1 }, "VPP 2"},
		{"another model's split", func(_ *layout.Layout, m *arch.Model, _ *CheckOptions) { m.NumLayers = 95 }, "places 94 decoder layers"},
		{"MTP without a place", func(_ *layout.Layout, m *arch.Model, _ *CheckOptions) { m.MTPNumLayers = 1 }, "places 0 MTP layers"},
		{"order", func(l *layout.Layout, _ *arch.Model, _ *CheckOptions) { l.Order = "cp-tp-ep-dp-pp" }, "no flag produces"},
		{"illegal mesh", func(l *layout.Layout, _ *arch.Model, _ *CheckOptions) { l.EP = 48 }, folding.RuleExpertWorldDivisible},
		{"batch", func(l *layout.Layout, _ *arch.Model, _ *CheckOptions) { l.GlobalBatchSize = 8 }, "does not fill"},
		{"model without flags", func(_ *layout.Layout, m *arch.Model, _ *CheckOptions) { m.MegatronFlags = nil }, "no Megatron flags"},
		{"stray value", func(_ *layout.Layout, m *arch.Model, _ *CheckOptions) { m.MegatronFlags = []string{"94"} }, "without a flag"},
		{"short pattern", func(_ *layout.Layout, m *arch.Model, _ *CheckOptions) {
			m.Kind, m.HybridLayerPattern = arch.Hybrid, "M*"
		}, "pattern of 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, shared := qwen235(t)
			m := *shared
			var o CheckOptions
			tt.change(l, &m, &o)
			if _, err := CheckCommand(l, &m, o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name       string
		tp, cp     int
		overlap    bool
		capability int
		want       []Variable
	}{
		{"TP on Hopper", 2, 1, false, 9, []Variable{{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}}},
		{"CP on an unknown GPU", 1, 2, false, 0, []Variable{{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}}},
		{"neither", 1, 1, false, 9, nil},
		{"Blackwell is exempt", 2, 1, false, 10, nil},
		{"the overlap wants many queues", 2, 1, true, 9, []Variable{{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}}},
	} {
		l := &layout.Layout{Degrees: folding.Degrees{TP: tt.tp, CP: tt.cp}, EPOverlap: tt.overlap}
		if got := environment(l, CheckOptions{ComputeCapability: tt.capability}); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestRunWithoutPrediction: what a run is expected to allocate is always a key, null until somebody predicts it, and the stage
// has the name that it has everywhere.
func TestRunWithoutPrediction(t *testing.T) {
	for _, tt := range []struct {
		expect *int64
		want   string
	}{{nil, "null"}, {new(int64(50 << 30)), "53687091200"}} {
		text, err := json.Marshal(Run{Rank: 32, Stage: 1, ExpectPeakAllocated: tt.expect})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"rank":32,"pipeline_rank":1,`, `"expect_peak_allocated":` + tt.want} {
			if !strings.Contains(string(text), want) {
				t.Errorf("no %s in %s", want, text)
			}
		}
	}
}
