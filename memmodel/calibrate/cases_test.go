package calibrate

import (
	"math"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/memmodel/launch"
)

const gib = float64(1 << 30)

// planned prices a layout of a catalogue model as moeplan plans it.
func planned(t *testing.T, model, text string, world, gbs, seq int, run memmodel.Run) []memmodel.Stage {
	t.Helper()
	m, err := arch.Lookup(model)
	if err != nil {
		t.Fatal(err)
	}
	l, err := layout.Parse(text, layout.Defaults{World: world, Run: layout.Run{GlobalBatchSize: gbs, SeqLength: seq}, Model: m})
	if err != nil {
		t.Fatal(err)
	}
	return estimate(t, m, run, &l)
}

func estimate(t *testing.T, m *arch.Model, run memmodel.Run, l *layout.Layout) []memmodel.Stage {
	t.Helper()
	e, err := memmodel.New(m, run)
	if err != nil {
		t.Fatal(err)
	}
	stages, err := e.Estimate(l)
	if err != nil {
		t.Fatal(err)
	}
	return stages
}

func worst(stages []memmodel.Stage) memmodel.Stage {
	w := stages[0]
	for _, s := range stages[1:] {
		if s.PeakAllocated > w.PeakAllocated {
			w = s
		}
	}
	return w
}

// TestReportedMemory: runs of cases.json (kind oom) whose configuration is complete, with what their trainers showed. The
// trainers of ms-swift show the largest reservation over the ranks; the brackets are the collection's own.
func TestReportedMemory(t *testing.T) {
	for _, c := range []struct {
		id, model, text string
		world, gbs, seq int
		sm              int
		precisionAware  bool
		low, high       float64 // GiB, reserved
		reason          string
	}{
		{"oom-101", "qwen3-30b-a3b", "pp2 ep8 recompute=full", 16, 16, 8192, 80, false, 48, 63, "60 GiB shown"},
		{"oom-103", "qwen3-30b-a3b", "tp4 pp2 ep4 recompute=full", 8, 4, 8192, 80, false, 61, 80, "76 GiB shown; layers 25+23"},
		{"oom-104", "moonlight-16b-a3b", "pp2 ep4 recompute=full", 8, 16, 8192, 80, false, 48, 63, "60 GiB shown"},
		{"oom-016", "qwen3-30b-a3b", "ep8 recompute=full", 8, 256, 4096, 90, false, 75, 96, "out of memory on 80 GB, fits on 96 GB"},
	} {
		run := memmodel.DefaultRun(c.sm)
		s := worst(planned(t, c.model, c.text, c.world, c.gbs, c.seq, run))
		low, high := float64(s.PeakAllocated)/gib, float64(s.Device.Reserved)/gib
		t.Logf("%s %s %s: allocated %.1f GiB, reserved up to %.1f, device %.1f to %.1f; wanted %.0f to %.0f (%s)", c.id, c.model, c.text, low, high,
			float64(s.Device.Low)/gib, float64(s.Device.High)/gib, c.low, c.high, c.reason)
		if high < c.low || low > c.high {
			t.Errorf("%s: %.1f to %.1f GiB is outside %.0f to %.0f", c.id, low, high, c.low, c.high)
		}
	}
}

var goldenArgs = "--bf16 --use-distributed-optimizer --attention-dropout 0 --hidden-dropout 0 --swiglu --disable-bias-linear --position-embedding-type rope --normalization RMSNorm --untie-embeddings-and-output-weights --max-position-embeddings 8192 "

// TestRecordedLargeRuns: larger runs of the framework's own tests than the embedded measurements hold, from cases.json; the
// last rank of the last stage. The collection asks for 10 %. Left out is oom-201, whose number of GPUs is unknown and whose
// directory and arguments name different TP sizes. World and fusions that the collection does not give are assumed.
func TestRecordedLargeRuns(t *testing.T) {
	for _, c := range []struct {
		id          string
		world       int
		sm          int
		args        string
		peak, after float64 // GiB
	}{
		{"oom-210", 8, 90, goldenArgs + "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --vocab-size 131073 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 8 --seq-length 8192 --micro-batch-size 1 --global-batch-size 8", 56.55, 23.11},
		{"oom-211", 8, 90, goldenArgs + "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --vocab-size 131073 --tensor-model-parallel-size 4 --seq-length 8192 --micro-batch-size 2 --global-batch-size 8", 53.22, 19.24},
		{"oom-206", 64, 90, goldenArgs + "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --vocab-size 32000 --num-experts 8 --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 4 --expert-model-parallel-size 8 --expert-tensor-parallel-size 1 --num-virtual-stages-per-pipeline-rank 8 --seq-length 4096 --micro-batch-size 1 --global-batch-size 256", 33.07, 18.39},
		{"oom-207", 64, 80, goldenArgs + "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --vocab-size 32000 --num-experts 8 --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 4 --expert-model-parallel-size 8 --expert-tensor-parallel-size 1 --num-virtual-stages-per-pipeline-rank 8 --seq-length 4096 --micro-batch-size 1 --global-batch-size 256", 33.43, 17.78},
	} {
		settings, err := megatron.Parse(strings.Fields(c.args), megatron.Main)
		if err != nil {
			t.Fatal(err)
		}
		r, err := megatron.Resolve(settings, c.world, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := launch.Read(r, launch.Hardware{SM: c.sm})
		if err != nil {
			t.Fatal(c.id, err)
		}
		stages := estimate(t, s.Model, s.Run, &s.Layout)
		last := stages[len(stages)-1]
		after, peak := float64(last.AllocatedAfterStep)/gib, float64(last.PeakAllocated)/gib
		t.Logf("%s: after step %.2f (recorded %.2f), peak %.2f (recorded %.2f)", c.id, after, c.after, peak, c.peak)
		if math.Abs(after/c.after-1) > 0.1 || math.Abs(peak/c.peak-1) > 0.1 {
			t.Errorf("%s is off by more than 10 %%", c.id)
		}
	}
}

// The largest stage decides, and what other estimators got wrong (cases.json, kind estimator-error).
func TestEstimatorErrors(t *testing.T) {
	run := memmodel.DefaultRun(90)
	t.Run("est-005: expert parallelism trades tokens, it does not reduce what is stored", func(t *testing.T) {
		var first int64
		for i, ep := range []string{"ep1", "ep2", "ep4", "ep8"} {
			m, _ := arch.Lookup("qwen3-30b-a3b")
			l, err := layout.Parse(ep+" etp1", layout.Defaults{World: 8, Run: layout.Run{GlobalBatchSize: 64, SeqLength: 4096}, Model: m})
			if err != nil {
				t.Fatal(err)
			}
			e, _ := memmodel.New(m, run)
			var n int64
			for _, x := range e.LayerTensors(&l, m.Layers()[1]) {
				if x.Name == "expert fc1 input (dispatched tokens)" || x.Name == "expert fc1 output" {
					n += x.Bytes
				}
			}
			if i == 0 {
				first = n
			} else if n != first {
				t.Errorf("%s stores %d bytes of dispatched tokens, EP 1 %d", ep, n, first)
			}
		}
	})
	t.Run("est-015 and est-020: 6 + 12/N bytes a parameter, and 18 without the distributed optimizer", func(t *testing.T) {
		s := planned(t, "llama3.1-8b", "tp2", 16, 128, 4096, run)[0]
		per := float64(s.Weights+s.Gradients+s.Optimizer) / float64(s.Parameters.Total())
		if math.Abs(per-(6+12.0/8)) > 1e-4 {
			t.Errorf("%g bytes a parameter over 8 ranks", per)
		}
		plain := run
		plain.DistributedOptimizer = false
		s = planned(t, "llama3.1-8b", "tp2", 16, 128, 4096, plain)[0]
		if per := float64(s.Weights+s.Gradients+s.Optimizer) / float64(s.Parameters.Total()); per != 18 {
			t.Errorf("%g bytes a parameter without it", per)
		}
	})
	t.Run("context parallelism shards optimizer state as data parallelism does", func(t *testing.T) {
		a := planned(t, "llama3.1-8b", "tp2 cp4", 16, 128, 16384, run)[0]
		b := planned(t, "llama3.1-8b", "tp2", 16, 128, 16384, run)[0]
		if a.Optimizer != b.Optimizer {
			t.Errorf("optimizer state %d with CP 4, %d without", a.Optimizer, b.Optimizer)
		}
	})
	t.Run("experts are divided by ETP and EP, not by TP", func(t *testing.T) {
		a := planned(t, "qwen3-30b-a3b", "tp4 ep8 etp1", 32, 128, 4096, run)[0]
		b := planned(t, "qwen3-30b-a3b", "tp1 ep8 etp1", 32, 128, 4096, run)[0]
		if a.Parameters.Expert != b.Parameters.Expert {
			t.Errorf("TP changes expert parameters: %d and %d", a.Parameters.Expert, b.Parameters.Expert)
		}
	})
	t.Run("oom-003 and oom-008: experts on 8 GPUs keep 18 bytes a parameter at EDP 1", func(t *testing.T) {
		s := planned(t, "qwen3-30b-a3b", "ep8", 8, 64, 4096, run)[0]
		if got := float64(s.ExpertState) / gib; got < 58 || got > 64 {
			t.Errorf("expert state %.1f GiB, the report says about 61", got)
		}
		if s.PeakAllocated < 70<<30 {
			t.Errorf("%.1f GiB would fit 80 GB", float64(s.PeakAllocated)/gib)
		}
	})
	t.Run("oom-032: expert state follows EDP", func(t *testing.T) {
		// Qwen3-30B-A3B EP 8 on 8, 16, 32 and 64 GPUs: another trainer's peak falls by 29.2, 14.2 and 7.1 GiB, halving
		// each time (the bytes per parameter are its own).
		var before, fell float64
		for i, world := range []int{8, 16, 32, 64} {
			s := planned(t, "qwen3-30b-a3b", "ep8 mbs8", world, 8*world, 4096, run)[0]
			now := float64(s.PeakAllocated) / gib
			if i > 1 && math.Abs((before-now)/fell-0.5) > 0.03 {
				t.Errorf("%d GPUs: %.2f GiB less, after %.2f", world, before-now, fell)
			}
			before, fell = now, before-now
		}
	})
	t.Run("oom-025: the embedding is on the MTP stage too", func(t *testing.T) {
		stages := planned(t, "deepseek-v3", "pp4 ep32", 256, 1024, 4096, run)
		m, _ := arch.Lookup("deepseek-v3")
		v := int64(m.PaddedVocab(1)) * int64(m.HiddenSize)
		if last := stages[3].Parameters.Dense; last < 2*v {
			t.Errorf("the last stage holds %d dense parameters, embedding and output layer are %d", last, 2*v)
		}
	})
	t.Run("oom-009: full recompute turns the verdict", func(t *testing.T) {
		with := worst(planned(t, "qwen3-235b-a22b", "tp4 pp8 ep4 recompute=full", 32, 64, 6868, run))
		without := worst(planned(t, "qwen3-235b-a22b", "tp4 pp8 ep4", 32, 64, 6868, run))
		if with.Activations*4 > without.Activations {
			t.Errorf("full recompute leaves %d of %d activation bytes", with.Activations, without.Activations)
		}
	})
	t.Run("oom-017 and oom-022: unfused attention grows with the square of the sequence", func(t *testing.T) {
		unfused := run
		unfused.Attention = memmodel.UnfusedAttention
		var before int64
		for _, seq := range []int{8192, 16384, 32768} {
			a := worst(planned(t, "qwen3-8b", "tp4", 4, 64, seq, unfused)).Activations
			if before > 0 && float64(a) < 3*float64(before) {
				t.Errorf("sequence %d: activations grow by %.1f", seq, float64(a)/float64(before))
			}
			before = a
		}
	})
	t.Run("oom-023: imbalance raises the peak of a MoE stage", func(t *testing.T) {
		uneven := run
		uneven.Imbalance = 2
		even, more := worst(planned(t, "deepseek-v2", "pp4 ep8", 64, 256, 4096, run)), worst(planned(t, "deepseek-v2", "pp4 ep8", 64, 256, 4096, uneven))
		if more.PeakAllocated <= even.PeakAllocated {
			t.Error("imbalance 2 costs nothing")
		}
	})
}
