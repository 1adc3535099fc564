package launch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/memmodel"
)

const small = "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 16 --vocab-size 50257 "

func read(t *testing.T, args string, env map[string]string, h Hardware) (Setup, error) {
	t.Helper()
	settings, err := megatron.Parse(strings.Fields(small+args), megatron.Main)
	if err != nil {
		t.Fatal(err)
	}
	r, err := megatron.Resolve(settings, 8, env)
	if err != nil {
		t.Fatal(err)
	}
	return Read(r, h)
}

// TestRead: what flags and variables mean to memory. Sources are those of the fields of memmodel.Run.
func TestRead(t *testing.T) {
	for _, c := range []struct {
		reason, args string
		env          map[string]string
		h            Hardware
		ok           func(*memmodel.Run) bool
	}{
		{"Megatron's defaults: dropout 0.1, a mask from the loader, an unfused cross entropy, no distributed optimizer", "--bf16", nil, Hardware{},
			func(r *memmodel.Run) bool {
				return r.HiddenDropout && r.AttentionDropout && r.CausalMask && r.CrossEntropy == memmodel.UnfusedCE && !r.DistributedOptimizer && r.SequentialExperts && !r.NoGradientFusion
			}},
		{"bf16 keeps fp32 gradients by itself", "--bf16", nil, Hardware{}, func(r *memmodel.Run) bool { return r.GradientBytes == 4 }},
		{"and bf16 ones if asked", "--bf16 --grad-reduce-in-bf16", nil, Hardware{}, func(r *memmodel.Run) bool { return r.GradientBytes == 2 }},
		{"neither --bf16 nor --fp16 is fp32", "", nil, Hardware{}, func(r *memmodel.Run) bool { return r.FP32 && r.GradientBytes == 4 }},
		{"the native cross entropy is the default fusion", "--bf16 --cross-entropy-loss-fusion", nil, Hardware{}, func(r *memmodel.Run) bool { return r.CrossEntropy == memmodel.NativeFusedCE }},
		{"TE's depends on its version", "--bf16 --cross-entropy-loss-fusion --cross-entropy-fusion-impl te", nil, Hardware{TEFusedCE: memmodel.TEFusedBF16CE},
			func(r *memmodel.Run) bool { return r.CrossEntropy == memmodel.TEFusedBF16CE }},
		{"a backend that is named goes before what is known of the run", "--bf16 --attention-backend flash", nil, Hardware{Attention: memmodel.UnfusedAttention},
			func(r *memmodel.Run) bool { return r.Attention == memmodel.FlashAttention2 }},
		{"what is known goes before the default", "--bf16", nil, Hardware{Attention: memmodel.UnfusedAttention},
			func(r *memmodel.Run) bool { return r.Attention == memmodel.UnfusedAttention }},
		{"TE's switch: no fused attention leaves flash", "--bf16", map[string]string{"NVTE_FUSED_ATTN": "0"}, Hardware{},
			func(r *memmodel.Run) bool { return r.Attention == memmodel.FlashAttention2 }},
		{"deterministic mode asks for a cuBLAS workspace of 8 x 4 MiB", "--bf16 --deterministic-mode", nil, Hardware{SM: 80},
			func(r *memmodel.Run) bool { return r.TorchWorkspace == 32<<20 }},
		{"and so does the variable alone", "--bf16", map[string]string{"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}, Hardware{SM: 80},
			func(r *memmodel.Run) bool { return r.TorchWorkspace == 32<<20 }},
		{":16:8 is eight buffers of 16 KiB", "--bf16", map[string]string{"CUBLAS_WORKSPACE_CONFIG": ":16:8"}, Hardware{SM: 80},
			func(r *memmodel.Run) bool { return r.TorchWorkspace == 128<<10 }},
		{"the precision-aware optimizer keeps half of a bf16 master copy", "--bf16 --use-distributed-optimizer --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16", nil, Hardware{},
			func(r *memmodel.Run) bool {
				return r.PrecisionAware && r.MasterBytes == 2 && r.MomentBytes == 2 && r.SecondMomentBytes == 2
			}},
		{"but a whole fp32 one under an FP8 recipe with blocks (memory-model.md 2.3)", "--bf16 --use-distributed-optimizer --use-precision-aware-optimizer --fp8-format e4m3 --fp8-recipe mxfp8", nil, Hardware{},
			func(r *memmodel.Run) bool { return !r.PrecisionAware && r.MasterBytes == 4 }},
		{"SwiGLU reads its own fusion switch", "--bf16 --swiglu --no-bias-gelu-fusion", nil, Hardware{}, func(r *memmodel.Run) bool { return !r.NoActivationFusion }},
		{"and so it goes", "--bf16 --swiglu --no-bias-swiglu-fusion", nil, Hardware{}, func(r *memmodel.Run) bool { return r.NoActivationFusion }},
		{"expandable segments are PyTorch's variable", "--bf16", map[string]string{"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,garbage_collection_threshold:0.8"}, Hardware{},
			func(r *memmodel.Run) bool { return r.ExpandableSegments }},
		{"Muon shards by layer under the distributed optimizer's flag", "--bf16 --use-distributed-optimizer --optimizer muon", nil, Hardware{},
			func(r *memmodel.Run) bool {
				return r.Optimizer == memmodel.Muon && r.LayerWise && r.LayerWiseLayout && !r.DistributedOptimizer
			}},
		{"modules of activation offload", "--bf16 --fine-grained-activation-offloading --offload-modules core_attn moe_act", nil, Hardware{},
			func(r *memmodel.Run) bool {
				return r.Offload.Modules == memmodel.OffloadCoreAttn|memmodel.OffloadMoEAct && r.Offload.MinimumElements == 1<<20
			}},
		{"optimizer offload by fraction", "--bf16 --use-distributed-optimizer --use-precision-aware-optimizer --optimizer-cpu-offload --optimizer-offload-fraction 0.5", nil, Hardware{},
			func(r *memmodel.Run) bool { return r.Offload.OptimizerFraction == 0.5 }},
		{"FSDP's strategy", "--bf16 --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params", nil, Hardware{},
			func(r *memmodel.Run) bool { return r.FSDP == memmodel.ShardAll }},
		{"context parallelism by all-to-all", "--bf16 --context-parallel-size 2 --cp-comm-type a2a", nil, Hardware{}, func(r *memmodel.Run) bool { return r.CPAllToAll && !r.CPGather }},
		{"micro-batch groups", "--bf16 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --microbatch-group-size-per-virtual-pipeline-stage 3", nil, Hardware{},
			func(r *memmodel.Run) bool { return r.GroupSize == 3 && !r.NoP2POverlap }},
	} {
		s, err := read(t, c.args, c.env, c.h)
		if err != nil {
			t.Errorf("%s: %v", c.reason, err)
			continue
		}
		if !c.ok(&s.Run) {
			t.Errorf("%s: %s gives %+v", c.reason, c.args, s.Run)
		}
	}
}

// What is asked for and not priced is named; what arithmetic does not define is an error.
func TestReadSaysWhatItLeavesOut(t *testing.T) {
	const offload = "--bf16 --fine-grained-activation-offloading --offload-modules core_attn gdp_qkv "
	for _, c := range []struct {
		reason, args string
		want         []string
	}{
		{"switches, sorted", "--bf16 --tp-comm-overlap --fp32-residual-connection --sequence-parallel --tensor-model-parallel-size 2",
			[]string{"--fp32-residual-connection", "--tp-comm-overlap"}},
		{"a module that is not priced, beside one that is", offload, []string{"--offload-modules gdp_qkv"}},
		{"part of what is offloaded stays on the GPU", offload + "--activation-offload-fraction 0.5 --delta-offload-bytes-across-pp-ranks 1024 --fine-grained-offloading-max-inflight-offloads 2",
			[]string{"--activation-offload-fraction 0.5", "--delta-offload-bytes-across-pp-ranks 1024", "--fine-grained-offloading-max-inflight-offloads 2", "--offload-modules gdp_qkv"}},
		{"which has no effect without offload", "--bf16 --activation-offload-fraction 0.5", nil},
		{"weight shards, of experts too", "--bf16 --num-experts 8 --tensor-parallel-num-weight-shards 2 --expert-tensor-parallel-num-weight-shards 4",
			[]string{"--expert-tensor-parallel-num-weight-shards (4 shards of each)", "--tensor-parallel-num-weight-shards (2 shards of each)"}},
	} {
		s, err := read(t, c.args, nil, Hardware{SM: 90})
		if err != nil || !slices.Equal(s.Unmodelled, c.want) {
			t.Errorf("%s: %q, want %q, %v", c.reason, s.Unmodelled, c.want, err)
		}
	}
	settings, err := megatron.Parse(strings.Fields("--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1"), megatron.Main)
	if err != nil {
		t.Fatal(err)
	}
	r, err := megatron.Resolve(settings, 8, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(r, Hardware{}); !errors.Is(err, megatron.ErrVocabulary) {
		t.Errorf("an unknown vocabulary gives %v", err)
	}
	if _, err := read(t, "--bf16 --pipeline-model-parallel-size 3", nil, Hardware{}); !errors.Is(err, megatron.ErrSplit) {
		t.Errorf("four layers on three stages give %v", err)
	}
}

// TestOddNumbersPrice: what a command line can say is priced or refused by name, whatever a launch would make of it.
func TestOddNumbersPrice(t *testing.T) {
	const experts, chunks = "--bf16 --num-experts 8 ", "--bf16 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
	for _, c := range []struct{ reason, args, same, refused string }{
		{"a negative number of layers offloads nothing", "--bf16 --cpu-offloading-num-layers -1", "--bf16", ""},
		{"a negative capacity is none", experts + "--moe-expert-capacity-factor -1", experts, ""},
		{"a negative number of layers recomputes none", "--bf16 --recompute-granularity full --recompute-method block --recompute-num-layers -1", "--bf16", ""},
		{"no capacity can be reckoned with", experts + "--moe-expert-capacity-factor nan", "", "capacity factor NaN"},
		{"nor with an infinite one", experts + "--moe-expert-capacity-factor inf", "", "capacity factor +Inf"},
		{"more state than there is", "--bf16 --use-precision-aware-optimizer --optimizer-cpu-offload --optimizer-offload-fraction 5", "", "optimizer offload fraction 5"},
		{"a group of none is PP's", chunks + "--microbatch-group-size-per-virtual-pipeline-stage 0", chunks, ""},
		{"a group below it is none", chunks + "--microbatch-group-size-per-virtual-pipeline-stage -1", "", "groups of -1 micro-batches"},
	} {
		got, err := priced(t, c.args)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v does not name %q", c.reason, err, c.refused)
			}
			continue
		}
		want, errSame := priced(t, c.same)
		if err != nil || errSame != nil || got != want {
			t.Errorf("%s: peak %d, of %q %d, %v, %v", c.reason, got, c.same, want, err, errSame)
		}
	}
}

// priced is the largest peak of a command line.
func priced(t *testing.T, args string) (int64, error) {
	t.Helper()
	s, err := read(t, args, nil, Hardware{SM: 90})
	if err != nil {
		t.Fatal(err)
	}
	e, err := memmodel.New(s.Model, s.Run)
	if err != nil {
		return 0, err
	}
	peak, _ := e.Peak(&s.Layout)
	return peak, nil
}

// A layout that moeplan writes as a command line reads back as the run that it priced, but for what only Megatron has.
func TestOwnCommandsReadBack(t *testing.T) {
	s, err := read(t, "--bf16 --swiglu --use-distributed-optimizer --attention-dropout 0 --hidden-dropout 0 --no-create-attention-mask-in-dataloader --cross-entropy-loss-fusion --cross-entropy-fusion-impl native --moe-grouped-gemm --moe-permute-fusion --overlap-p2p-communication-warmup-flush", nil, Hardware{SM: 90})
	if err != nil {
		t.Fatal(err)
	}
	want := memmodel.DefaultRun(90)
	want.GroupSize, want.OptimizerInstances, want.FusedPermute = 1, 1, true
	want.NoP2POverlap, want.WarmupFlushOverlap = true, true // without VPP nothing overlaps
	if s.Run != want {
		t.Errorf("reads back as\n%+v, not\n%+v", s.Run, want)
	}
	if s.Layout.Precision != layout.BF16 || len(s.Unmodelled) > 0 {
		t.Errorf("precision %v, unmodelled %v", s.Layout.Precision, s.Unmodelled)
	}
}

// Every switch that is called unpriced is one of the newest parser's, so that none of them waits for a name that no
// command line has.
func TestUnpricedSwitchesExist(t *testing.T) {
	for _, dest := range switchesNotPriced {
		if megatron.OptionOf(dest, megatron.Main) == nil {
			t.Errorf("no option sets %s", dest)
		}
	}
}
