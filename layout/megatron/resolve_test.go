package megatron

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"pgregory.net/rapid"
)

// shown reads the values that the version study printed. Those it printed before the config ran are compared as far as
// validate_args goes.
var shown = map[string]func(r *Resolved) string{
	"data_parallel_size":          func(r *Resolved) string { return strconv.Itoa(r.DP) },
	"expert_tensor_parallel_size": func(r *Resolved) string { return strconv.Itoa(r.Degrees.ETP) },
	"virtual_pipeline_model_parallel_size": func(r *Resolved) string {
		if r.Pipeline.VPP == 0 {
			return "None"
		}
		return strconv.Itoa(r.Pipeline.VPP)
	},
	"num_layers":                         func(r *Resolved) string { return strconv.Itoa(r.Shape.NumLayers) },
	"moe_ffn_hidden_size":                func(r *Resolved) string { return strconv.Itoa(r.Shape.MoEFFN) },
	"sequence_parallel":                  func(r *Resolved) string { return truth(r.SequenceParallel).String() },
	"overlap_p2p_comm":                   func(r *Resolved) string { return truth(r.OverlapP2P).String() },
	"accumulate_allreduce_grads_in_fp32": func(r *Resolved) string { return truth(r.Precision.GradientsInFP32).String() },
	"cuda_graph_impl": func(r *Resolved) string {
		if !r.Settings.Has("cuda_graph_impl") {
			return "-"
		}
		return r.Graph.Impl
	},
	"microbatch_group_size_per_vp_stage": func(r *Resolved) string { return strconv.Itoa(r.Pipeline.GroupSize) },
	"recompute_granularity": func(r *Resolved) string {
		if g := r.Recompute.Granularity; g != "" && !r.Settings.Bool("moe_layer_recompute") { // the config merges that one
			return g
		}
		return "None"
	},
	"moe_flex_dispatcher_backend": func(r *Resolved) string {
		if !r.Settings.Has("moe_flex_dispatcher_backend") {
			return "-"
		}
		return r.FlexBackend
	},
}

// plain are dests that nothing changes: the parser's own value.
var plain = []string{"moe_enable_deepep", "grad_reduce_in_bf16", "cross_entropy_fusion_impl", "eval_interval", "mscale", "mscale_all_dim",
	"rotary_scaling_factor", "moe_hybridep_num_sms", "moe_flex_dispatcher_num_sms", "num_layers_per_virtual_pipeline_stage",
	"experimental_attention_variant", "is_hybrid_model", "padded_vocab_size"}

// unshown are printed values that are not compared, with the reason.
var unshown = map[string]string{
	"recompute_modules":              "printed before the config fills in core_attn",
	"cp_comm_type":                   "a list in Python's form; TestSettings covers lists",
	"main_grads_dtype":               "printed as a torch type",
	"main_params_dtype":              "printed as a torch type",
	"rope_type":                      "0.13.1 has it in the config without a flag",
	"cuda_graph_scope":               "merged into Graph",
	"cuda_graph_modules":             "merged into Graph, printed before the config",
	"check_for_nan_in_loss_and_grad": "no effect on layout or memory",
	"enable_gloo_process_groups":     "what --fake-process-group does to it is no matter of layout",
	"use_gloo_process_groups":        "what --fake-process-group does to it is no matter of layout",
}

// The values that each release derived in the version study are derived here.
func TestRecordedReleaseValues(t *testing.T) {
	compared := 0
	for _, c := range recordedCases(t) {
		world, _ := strconv.Atoi(c.Env["WORLD_SIZE"])
		for _, e := range c.Results {
			rel := mustRelease(e.From)
			s, err := Parse(c.Argv, rel)
			if err != nil || e.Show == nil {
				continue
			}
			r, err := Resolve(s, world, c.Env)
			if err != nil {
				t.Fatal(err)
			}
			for dest, want := range e.Show {
				var got string
				switch read := shown[dest]; {
				case unshown[dest] != "":
					continue
				case slices.Contains(plain, dest):
					got = "-"
					if s.Has(dest) {
						got = s.Value(dest).String()
					}
				case read == nil:
					t.Errorf("%s: nobody compares %s", c.Name, dest)
					continue
				default:
					got = read(r)
				}
				compared++
				f, err := strconv.ParseFloat(got, 64)
				g, err2 := strconv.ParseFloat(want, 64)
				if got != want && (err != nil || err2 != nil || f != g) {
					t.Errorf("%s, %s: %s is %s, recorded %s", c.Name, rel, dest, got, want)
				}
			}
		}
	}
	t.Logf("%d values", compared)
}

func TestResolveByRelease(t *testing.T) {
	base := small + "--bf16 --tensor-model-parallel-size 2 "
	for _, c := range []struct {
		release, argv string
		holds         func(r *Resolved) bool
		reason        string
	}{
		{"main", "", func(r *Resolved) bool { return r.Degrees.ETP == 2 && r.ETPFromTP && len(r.Changes) > 0 }, "ETP follows TP, and that is said"},
		{"main", "", func(r *Resolved) bool {
			return r.Dispatcher == "allgather" && r.Settings.Float("attention_dropout") == 0.1
		}, "Megatron's own defaults"},
		{"main", "", func(r *Resolved) bool {
			return r.Batch.GlobalBatchSize == 4 && r.Batch.NumMicrobatches == 1 && r.Batch.Whole
		}, "one micro-batch per data parallel rank"},
		{"main", "--tokenizer-type NullTokenizer", func(r *Resolved) bool { return r.Shape.PaddedVocab == 1024 }, "exactly the vocabulary from 0.18.2"},
		{"0.17.1", "--tokenizer-type NullTokenizer --vocab-size 1024", func(r *Resolved) bool { return r.Shape.PaddedVocab == 1280 }, "one more entry before, padded to 256"},
		{"main", "--no-pad-vocab-size", func(r *Resolved) bool { return r.Shape.PaddedVocab == 0 }, "nobody sets the padded size then"},
		{"main", "--num-virtual-stages-per-pipeline-rank 1", func(r *Resolved) bool { return r.Pipeline.VPP == 0 }, "1 becomes None from 0.14.0"},
		{"0.13.1", "--num-virtual-stages-per-pipeline-rank 1", func(r *Resolved) bool { return r.Pipeline.VPP == 1 }, "and stays before"},
		{"main", "--recompute-granularity full --recompute-activations", func(r *Resolved) bool { return r.Recompute.Granularity == "selective" }, "the old spelling overwrites"},
		{"main", "--moe-layer-recompute", func(r *Resolved) bool {
			return r.Recompute.Granularity == "selective" && slices.Equal(r.Recompute.Modules, []string{"core_attn", "moe"})
		}, "the config merges it"},
		{"0.11.0", "--moe-layer-recompute", func(r *Resolved) bool { return slices.Equal(r.Recompute.Modules, []string{"moe"}) }, "0.11 recomputes the layer and nothing else"},
		{"main", "--recompute-modules moe", func(r *Resolved) bool { return r.Recompute.Granularity == "" && len(r.Changes) > 1 }, "ignored without granularity, and that is said"},
		{"main", "--cuda-graph-scope full_iteration --cuda-graph-impl local", func(r *Resolved) bool { return r.Graph.Impl == "full_iteration" && len(r.Graph.Modules) == 0 }, "the scope became an implementation"},
		{"0.14.0", "--external-cuda-graph --cuda-graph-scope attn", func(r *Resolved) bool {
			return r.Graph.Impl == "transformer_engine" && slices.Equal(r.Graph.Modules, []string{"attn"})
		}, "the old switches"},
		{"0.12.3", "--moe-token-dispatcher-type flex --moe-enable-deepep", func(r *Resolved) bool { return r.FlexBackend == "deepep" }, "the only backend"},
		{"main", "--grad-reduce-in-bf16", func(r *Resolved) bool { return !r.Precision.GradientsInFP32 }, "asked for"},
		{"main", "--use-tp-pp-dp-mapping", func(r *Resolved) bool { return r.Order == folding.TPPPDPOrder }, ""},
		{"main", "--tensor-parallel-num-weight-shards 4", func(r *Resolved) bool { return r.WeightRemat == 2 && r.DP == 2 }, "the shards take part of DP"},
		{"main", "--optimizer muon --use-distributed-optimizer", func(r *Resolved) bool { return !r.DistributedOptimizer && r.LayerWiseOptimizer }, "sharded by layer"},
		{"main", "--spec local --yaml-cfg x", func(r *Resolved) bool { return slices.Equal(r.External, []string{"--yaml-cfg", "--spec"}) }, "not read here"},
		{"0.16.1", "--hybrid-override-pattern M*M* --is-hybrid-model", func(r *Resolved) bool { return r.Shape.Hybrid.Main() == "M*M*" }, "the old name of the pattern"},
	} {
		s, err := Parse(strings.Fields(base+c.argv), mustRelease(c.release))
		if err != nil {
			t.Errorf("%s: %v", c.argv, err)
			continue
		}
		r, err := Resolve(s, 8, nil)
		if err != nil || !c.holds(r) {
			t.Errorf("%s %s: %+v, %v (%s)", c.release, c.argv, r, err, c.reason)
		}
	}
	if _, err := Resolve(newSettings(Main), 0, nil); !errors.Is(err, ErrWorld) {
		t.Errorf("no GPUs: %v", err)
	}
}

func TestSplits(t *testing.T) {
	gpt := "--hidden-size 64 --num-attention-heads 4 --micro-batch-size 1 --global-batch-size 64 --seq-length 32 --max-position-embeddings 32 --vocab-size 1000 --bf16 --pipeline-model-parallel-size 4 "
	for _, c := range []struct{ argv, want, reason string }{
		{"--num-layers 8", "Et*2|tt|tt|ttL", "even"},
		{"--num-layers 8 --mtp-num-layers 1 --position-embedding-type rope", "Ett|tt|tt|ttmL", "MTP on the last stage"},
		{"--num-layers 16 --num-layers-per-virtual-pipeline-stage 2", "Ett|tt|tt|tt|tt|tt|tt|ttL", "layers of a chunk"},
		{"--num-layers 16 --num-virtual-stages-per-pipeline-rank 2", "Ett|tt|tt|tt|tt|tt|tt|ttL", "chunks of a rank"},
		{"--num-layers 12 --decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3", "Et|t*4|t*4|t*3L", "both ends"},
		{"--num-layers 13 --decoder-first-pipeline-num-layers 1", "Et|t*4|t*4|t*4L", "the first alone"},
		{"--num-layers 13 --decoder-last-pipeline-num-layers 1", "Et*4|t*4|t*4|tL", "the last alone"},
		{"--num-layers 24 --decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers 2 --num-virtual-stages-per-pipeline-rank 2", "Et|t*5|t*5|t|t|t*5|t*5|tL", "with chunks"},
		{"--num-layers 6 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", "Et|tt|tt|tL", "embedding and loss count as layers"},
		{"--num-layers 14 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split --num-layers-per-virtual-pipeline-stage 2", "Et|tt|tt|tt|tt|tt|tt|tL", "with chunks"},
		{"--num-layers 6 --pipeline-model-parallel-layout E|t*3|t*3|L", "E|t*3|t*3|L", "a layout string"},
		{"--hybrid-layer-pattern M*|ME|M*|ME/*E --num-experts 4 --position-embedding-type none", "Ett|tt|tt|ttmL", "pipes of a hybrid pattern"},
		{"--hybrid-layer-pattern M*|M||E|M*|ME||M --num-experts 4", "Ett|t||t|tt|tt||tL", "eight segments are two chunks"},
		{"--hybrid-layer-pattern M*MEM*ME --num-experts 4", "Ett|tt|tt|ttL", "no pipes: even"},
		{"--num-layers 6", "", "6 layers on 4 stages"},
		{"--num-layers 12 --decoder-first-pipeline-num-layers 9 --decoder-last-pipeline-num-layers 9", "", "more layers than there are, which the framework would build"},
		{"--num-layers 6 --pipeline-model-parallel-layout t|t*3|t*3|L", "", "no embedding"},
		{"--num-layers 16 --num-virtual-stages-per-pipeline-rank 0", "", "no chunk at all"},
		{"--num-layers 8 --pipeline-model-parallel-size 0", "", "no stage"},
		{"--hybrid-layer-pattern M*|M*|M*", "", "three segments on four stages"},
	} {
		l, err := Layout(resolve(t, 64, strings.Fields(gpt+c.argv)...))
		switch {
		case c.want == "" && (err == nil || l.Split != nil):
			t.Errorf("%s: %v (%s)", c.argv, l.Split, c.reason)
		case c.want == "":
		case err != nil:
			t.Errorf("%s: %v (%s)", c.argv, err, c.reason)
		default:
			want, err := layout.ParseSplit(c.want, 4, -1)
			if err != nil || !l.Split.Equal(want) {
				t.Errorf("%s: %s, want %s, %v (%s)", c.argv, l.Split, c.want, err, c.reason)
			}
		}
	}
}

func TestLayoutNamesWhatItCannotHold(t *testing.T) {
	base := small + "--bf16 --num-experts 4 --pipeline-model-parallel-size 2 "
	for _, c := range []struct{ argv, part string }{
		{"--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend ncclep", "ncclep"},
		{"--recompute-granularity selective --recompute-modules gdn_norm_out moe_act", "gdn_norm_out"},
		{"--fp8-format hybrid", "--fp8-recipe delayed"},
	} {
		l, err := Layout(resolve(t, 8, strings.Fields(base+c.argv)...))
		var unmodelled *UnmodelledError
		if !errors.As(err, &unmodelled) || !strings.Contains(err.Error(), c.part) || l.Split == nil {
			t.Errorf("%s: %+v, %v", c.argv, l, err)
		}
	}
}

// checkTotal: whatever a command line says, nothing panics and nothing grows.
func checkTotal(t *rapid.T) {
	sizes := rapid.SampledFrom([]string{"0", "1", "2", "3", "4", "8", "-1", "1048576", "1048577", "4611686018427387904", "9223372036854775807", "-9223372036854775808"})
	texts := rapid.SampledFrom([]string{"Et*4|t*4L", "E(t|)*9999999L", "M*|ME/*E", "////", "|||", "", "([0]*2+[1]*2)", "[0]*3", "0", "-1", "127,0", "p2p", "/M/E", "M/*E/ME"})
	var argv []string
	for range rapid.IntRange(0, 12).Draw(t, "flags") {
		o := rapid.SampledFrom(Options(Main)).Draw(t, "option")
		if rapid.Bool().Draw(t, "relevant") {
			o, _ = LookupFlag(rapid.SampledFrom(relevant).Draw(t, "flag"), Main)
		}
		argv = append(argv, o.Name)
		if !o.TakesValue() {
			continue
		}
		for range max(1, o.MinValues) {
			switch {
			case o.Choices != nil:
				argv = append(argv, rapid.SampledFrom(o.Choices).Draw(t, "choice"))
			case o.Type == Integer || o.Type == Number:
				argv = append(argv, sizes.Draw(t, "size"))
			default:
				argv = append(argv, texts.Draw(t, "text"))
			}
		}
	}
	r := Release{uint8(rapid.IntRange(0, len(releases)).Draw(t, "release"))}
	s, err := Parse(argv, r)
	if err != nil {
		return
	}
	res, err := Resolve(s, rapid.IntRange(1, 1<<20).Draw(t, "world"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := Model(res); err == nil {
		if err := m.Validate(); err != nil {
			t.Fatalf("%q: a model that is none: %v", argv, err)
		}
	}
	if l, err := Layout(res); err == nil && (l.Split == nil || len(l.Split.Cells) != l.PP*l.VPP) {
		t.Fatalf("%q: %+v", argv, l)
	}
	_, _ = Theoretical(res, res.Batch.NumMicrobatches)
}

var relevant = []string{"--num-layers", "--hidden-size", "--num-attention-heads", "--tensor-model-parallel-size", "--pipeline-model-parallel-size",
	"--context-parallel-size", "--expert-model-parallel-size", "--expert-tensor-parallel-size", "--num-experts", "--moe-layer-freq", "--mtp-num-layers",
	"--hybrid-layer-pattern", "--mtp-hybrid-override-pattern", "--pipeline-model-parallel-layout", "--num-virtual-stages-per-pipeline-rank",
	"--num-layers-per-virtual-pipeline-stage", "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers", "--vocab-size", "--swiglu",
	"--make-vocab-size-divisible-by", "--micro-batch-size", "--global-batch-size", "--seq-length", "--max-position-embeddings", "--padded-vocab-size",
	"--mamba-head-dim", "--window-size", "--window-attn-skip-freq", "--linear-attention-freq", "--experimental-attention-variant", "--multi-latent-attention",
	"--tensor-parallel-num-weight-shards", "--account-for-loss-in-pipeline-split"}

func TestResolutionIsTotal(t *testing.T) { rapid.Check(t, checkTotal) }

func FuzzResolution(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkTotal)) }

// equalShapes compares two models in everything a command line holds, but for the named fields.
func equalShapes(a, b any, except ...string) error {
	x, y := reflect.Indirect(reflect.ValueOf(a)), reflect.Indirect(reflect.ValueOf(b))
	for i := range x.NumField() {
		name := x.Type().Field(i).Name
		if slices.Contains(notShape, name) || slices.Contains(except, name) || equalField(x.Field(i).Interface(), y.Field(i).Interface()) {
			continue
		}
		return fmt.Errorf("%s: %+v and %+v", name, indirect(x.Field(i)), indirect(y.Field(i)))
	}
	return nil
}
