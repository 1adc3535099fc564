package layout

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout/arch"
)

// ruleCase is one layout, or one layout string, that a rule refuses or just accepts.
type ruleCase struct {
	rule   RuleID
	breaks bool
	model  string // "" is qwen3-235b-a22b
	world  int    // 0 is 256
	text   string // of the layout; Parse fills the rest
	tweak  func(m *arch.Model, l *Layout)
	split  string // if given, CheckSplit(split, pp 2, the model's layers, the model's MTP layers) instead
	reason string
}

func noSplit(_ *arch.Model, l *Layout) { l.Split = nil }

func cells(c ...Cell) func(*arch.Model, *Layout) {
	return func(_ *arch.Model, l *Layout) { l.Split = &Split{PP: l.PP, VPP: l.VPP, Cells: c} }
}

var ruleCases = []ruleCase{
	{rule: sizesPositive, breaks: true, text: "tp2", tweak: func(_ *arch.Model, l *Layout) { l.EP = 0 }, reason: "a degree of zero"},
	{rule: sizesPositive, breaks: true, tweak: func(_ *arch.Model, l *Layout) { l.TP, l.CP = 1<<32, 1<<32 }, reason: "their product wraps to 0, by which rules would divide"},
	{rule: sizesPositive, breaks: true, tweak: func(_ *arch.Model, l *Layout) { l.ETP, l.EP = 1<<32, 1<<32 }, reason: "the same of the MoE mesh"},
	{rule: sizesPositive, breaks: true, tweak: func(_ *arch.Model, l *Layout) { l.MicroBatchSize = MaxSize + 1 }, reason: "one more than is read from text"},
	{rule: sizesPositive, text: "tp1", reason: "every degree is 1"},
	{rule: sizesPositive, text: "mbs1048576 gbs=67108864", reason: "the largest batches that are read"},
	{rule: "world-divisible", breaks: true, text: "tp2 pp3", reason: "256 % 6"},
	{rule: "world-divisible", world: 252, text: "tp2 pp3", reason: "252 = 42 * 6"},
	{rule: "world-divisible", breaks: true, world: 4, text: "tp8", reason: "more ranks in a replica than GPUs"},
	{rule: batchPositive, breaks: true, text: "tp2", tweak: func(_ *arch.Model, l *Layout) { l.MicroBatchSize = 0 }, reason: "no sequence"},
	{rule: batchPositive, text: "tp2 mbs1 gbs=1", reason: "one sequence"},
	{rule: "split-symbols", breaks: true, split: "Et*47|s*47L", reason: "s is no layer"},
	{rule: "split-symbols", split: "Et*47|t*47L", reason: "E t L and repetition"},
	{rule: "split-stages", breaks: true, split: "Et*40|t*40|t*14L", reason: "3 stages on PP 2"},
	{rule: "split-stages", split: "Et*40|t*40|t*7|t*7L", reason: "4 stages on PP 2 are VPP 2"},
	{rule: "split-stages", breaks: true, text: "pp2 vpp2", tweak: func(m *arch.Model, l *Layout) { l.Split = BalancedSplit(m, 4, 2) }, reason: "a split for another PP"},
	{rule: "split-stages", text: "pp4 vpp2", tweak: func(m *arch.Model, l *Layout) { l.Split = BalancedSplit(m, 4, 2) }, reason: "the right one"},
	{rule: "pp-divides-layers", breaks: true, text: "pp8", tweak: noSplit, reason: "94 % 8 = 6"},
	{rule: "pp-divides-layers", text: "pp8", reason: "a ragged split is given"},
	{rule: "pp-divides-layers", text: "pp2", tweak: noSplit, reason: "94 = 2 * 47"},
	{rule: "vpp-needs-pp", breaks: true, text: "pp1 vpp2", reason: "nothing to interleave"},
	{rule: "vpp-needs-pp", text: "pp2 vpp2", reason: "the smallest PP"},
	{rule: "heads-divide-hidden", breaks: true, tweak: func(m *arch.Model, _ *Layout) { m.KVChannels, m.NumAttentionHeads = 0, 60 }, reason: "4096 % 60"},
	{rule: "heads-divide-hidden", tweak: func(m *arch.Model, _ *Layout) { m.NumAttentionHeads = 60 }, reason: "the head dimension is given"},
	{rule: "cp-divides-sequence", breaks: true, text: "cp4 seq=4100", reason: "4100 % 8 = 4"},
	{rule: "cp-divides-sequence", text: "cp2 seq=4100", reason: "4100 = 4 * 1025"},
	{rule: "cp-divides-sequence", text: "cp1 seq=4101", reason: "CP 1 does not cut"},
	{rule: "sequence-within-positions", breaks: true, text: "seq=40961", reason: "one token more than 40960 positions"},
	{rule: "sequence-within-positions", text: "seq=40960", reason: "all positions"},
	{rule: "recompute-selective-method", breaks: true, text: "recompute=moe_act", tweak: func(_ *arch.Model, l *Layout) { l.Recompute.Block = true }, reason: "a method with selective"},
	{rule: "recompute-selective-method", text: "recompute=full:block:2", reason: "full has methods"},
	{rule: "sp-without-tp", breaks: true, text: "tp1 sp=on", reason: "will be switched off"},
	{rule: "sp-without-tp", text: "tp2 sp=on", reason: "SP at TP 2"},
	{rule: "ep-needs-experts", breaks: true, model: "llama3.1-8b", text: "ep2", reason: "dense model"},
	{rule: "ep-needs-experts", model: "llama3.1-8b", text: "ep1", reason: "EP 1 is no expert parallelism"},
	{rule: "ep-divides-experts", breaks: true, model: "glm-4.5", text: "ep64", reason: "160 % 64 = 32"},
	{rule: "ep-divides-experts", model: "glm-4.5", text: "ep32", reason: "160 = 32 * 5"},
	{rule: "ep-divides-experts", breaks: true, text: "ep256", reason: "fewer experts than ranks (86)"},
	{rule: "batch-divides", breaks: true, text: "mbs3", reason: "2048 % (3*256)"},
	{rule: "batch-divides", text: "mbs8", reason: "2048 = 8 * 256"},
	{rule: "batch-divides", breaks: true, text: "mbs16", reason: "not one whole micro-batch"},
	{rule: "tp-divides-heads", breaks: true, world: 255, text: "tp3", reason: "64 % 3 = 1"},
	{rule: "tp-divides-heads", text: "tp64", reason: "one head a rank"},
	{rule: "tp-divides-heads", breaks: true, model: "deepseek-v3", text: "tp256", reason: "MLA too: 128 heads"},
	{rule: "tp-fits-kv-groups", breaks: true, text: "tp8", tweak: func(m *arch.Model, _ *Layout) { m.NumQueryGroups = 6 }, reason: "6 and 8 do not divide each other"},
	{rule: "tp-fits-kv-groups", text: "tp8", reason: "TP 8 is twice the 4 groups"},
	{rule: "tp-fits-kv-groups", model: "deepseek-v3", text: "tp8", tweak: func(m *arch.Model, _ *Layout) { m.NumQueryGroups = 6 }, reason: "MLA has no groups"},
	{rule: "gdn-value-heads", breaks: true, model: "qwen3-next-80b-a3b", tweak: func(m *arch.Model, _ *Layout) { m.LinearAttention.NumValueHeads = 24 }, reason: "24 % 16"},
	{rule: "gdn-value-heads", model: "qwen3-next-80b-a3b", reason: "32 value heads on 16 key heads"},
	{rule: "gdn-heads-divisible", breaks: true, model: "qwen3-next-80b-a3b", text: "tp8 cp4", reason: "16 key heads on 32 ranks"},
	{rule: "gdn-heads-divisible", model: "qwen3-next-80b-a3b", text: "tp8 cp2", reason: "one key head a rank"},
	{rule: "recompute-full-layers", breaks: true, text: "recompute=full", tweak: func(_ *arch.Model, l *Layout) { l.Recompute.NumLayers = 0 }, reason: "no number given"},
	{rule: "recompute-full-layers", text: "recompute=full", reason: "one layer a checkpoint"},
	{rule: "recompute-selective-layers", breaks: true, text: "recompute=moe_act", tweak: func(_ *arch.Model, l *Layout) { l.Recompute.NumLayers = 1 }, reason: "a number with selective"},
	{rule: "recompute-selective-layers", text: "recompute=moe_act", reason: "no number"},
	{rule: "recompute-moe-act-needs-experts", breaks: true, model: "llama3.1-8b", text: "recompute=moe_act", reason: "dense model"},
	{rule: "recompute-moe-act-needs-experts", text: "recompute=moe_act", reason: "experts"},
	{rule: "recompute-mla-up-proj-needs-mla", breaks: true, text: "recompute=mla_up_proj", reason: "GQA"},
	{rule: "recompute-mla-up-proj-needs-mla", model: "deepseek-v3", text: "recompute=mla_up_proj", reason: "MLA"},
	{rule: "split-ends", breaks: true, split: "t*47|t*47L", reason: "no E"},
	{rule: "split-ends", split: "Et*47|t*47L", reason: "E first, L last"},
	{rule: "split-ends", breaks: true, text: "pp1", tweak: cells(Cell{Embedding: true, Decoders: 94}), reason: "no loss"},
	{rule: "split-layer-count", breaks: true, split: "Et*47|t*46L", reason: "93 of 94 layers"},
	{rule: "split-layer-count", split: "Et*48|t*46L", reason: "94, however ragged"},
	{rule: "split-layer-count", breaks: true, model: "deepseek-v3", text: "pp1 split=Et*61mL", tweak: func(m *arch.Model, _ *Layout) { m.MTPNumLayers = 0 }, reason: "MTP that the model lacks"},
	{rule: "split-mtp-after-decoders", breaks: true, model: "deepseek-v3", split: "Et*30|t*30mtL", reason: "t after m"},
	{rule: "split-mtp-after-decoders", model: "deepseek-v3", split: "Et*30|t*31mL", reason: "m after all t"},
	{rule: "split-mtp-chunk", breaks: true, model: "deepseek-v3", split: "Et*30|t*31m||L", reason: "m in chunk 1 of 2"},
	{rule: "split-mtp-chunk", model: "deepseek-v3", split: "Et*30|t*31|m|L", reason: "the last chunk of rank 0"},
	{rule: "bias-needs-etp-1", breaks: true, model: "gpt-oss-20b", text: "etp2", reason: "expert biases"},
	{rule: "bias-needs-etp-1", model: "gpt-oss-20b", text: "tp2 etp1", reason: "TP may differ from ETP"},
	{rule: "router-expert-bias", breaks: true, tweak: func(m *arch.Model, _ *Layout) { m.MoE.RouterExpertBias = true }, reason: "softmax scores"},
	{rule: "router-expert-bias", model: "deepseek-v3", reason: "sigmoid scores"},
	{rule: "router-topk-1-softmax", breaks: true, tweak: func(m *arch.Model, _ *Layout) { m.MoE.TopK, m.MoE.RouterPreSoftmax = 1, false }, reason: "softmax of one"},
	{rule: "router-topk-1-softmax", tweak: func(m *arch.Model, _ *Layout) { m.MoE.TopK, m.MoE.RouterPreSoftmax = 1, true }, reason: "softmax before selection"},
	{rule: "router-groups", breaks: true, model: "deepseek-v3", tweak: func(m *arch.Model, _ *Layout) { m.MoE.RouterNumGroups = 7 }, reason: "256 % 7"},
	{rule: "router-groups", model: "deepseek-v3", reason: "8 groups, 4 selected"},
	{rule: "overlap-needs-vpp", breaks: true, text: "pp2 ep2 overlap=on", reason: "PP without VPP"},
	{rule: "overlap-needs-vpp", text: "pp2 vpp2 ep2 overlap=on", reason: "interleaved"},
	{rule: "overlap-needs-vpp", text: "ep2 overlap=on", reason: "no pipeline"},
	{rule: "overlap-needs-ep", breaks: true, text: "overlap=on", reason: "EP 1"},
	{rule: "overlap-needs-ep", text: "ep2 overlap=on", reason: "the smallest EP"},
	{rule: "overlap-needs-all-to-all", breaks: true, text: "ep2 overlap=on dispatcher=allgather", reason: "allgather"},
	{rule: "overlap-needs-all-to-all", text: "ep2 overlap=on dispatcher=hybridep", reason: "flex is fine"},
	{rule: "overlap-full-recompute", breaks: true, text: "ep2 overlap=on recompute=full", reason: "full"},
	{rule: "overlap-full-recompute", text: "ep2 overlap=on recompute=moe_act", reason: "selective"},
	{rule: "overlap-moe-recompute", breaks: true, text: "ep2 overlap=on recompute=moe,layernorm", reason: "whole MoE layers"},
	{rule: "overlap-moe-recompute", text: "ep2 overlap=on recompute=moe_act,layernorm", reason: "parts of them"},
	{rule: "overlap-mtp-layers", breaks: true, model: "deepseek-v3", text: "ep2 overlap=on", tweak: func(m *arch.Model, _ *Layout) { m.MTPNumLayers = 2 }, reason: "two MTP layers"},
	{rule: "overlap-mtp-layers", model: "deepseek-v3", text: "ep2 overlap=on", reason: "one"},
	{rule: folding.RuleOrderUnknownAxis, breaks: true, tweak: func(_ *arch.Model, l *Layout) { l.Order = "tp-cp-xp-dp-pp" }, reason: "xp"},
	{rule: folding.RuleOrderUnknownAxis, text: "order=tp-cp-ep-pp-dp", reason: "Megatron's second order"},
	{rule: folding.RuleExpertWorldDivisible, breaks: true, text: "pp8 ep64 etp1", reason: "256 % 512"},
	{rule: folding.RuleExpertWorldDivisible, text: "pp8 ep32 etp1", reason: "EDP 1"},
	{rule: folding.RuleOrderMissingAxis, breaks: true, text: "cp2 order=tp-ep-dp-pp", reason: "CP 2 has no place"},
	{rule: folding.RuleOrderMissingAxis, text: "cp1 order=tp-ep-dp-pp", reason: "an axis of 1 may be left out"},
	{rule: folding.RuleEDPEqualsDP, breaks: true, text: "tp2 pp2 ep4 order=tp-cp-ep-pp-dp", reason: "DP 64, EDP 32"},
	{rule: folding.RuleEDPEqualsDP, text: "tp4 pp2 ep4 order=tp-cp-ep-pp-dp", reason: "TP = EP = 4"},
	{rule: folding.RuleEDPEqualsDP, text: "tp2 pp2 ep4", reason: "the default order ends in pp"},
	{rule: folding.RulePPGroupsEqual, breaks: true, text: "tp2 cp2 pp2 ep4 order=tp-pp-cp-ep-dp", reason: "stages 2 ranks apart for attention, 1 for experts"},
	{rule: folding.RulePPGroupsEqual, text: "tp2 cp2 pp2 ep4", reason: "pp is slowest in both meshes"},
	{rule: "moe-layer-freq", breaks: true, tweak: func(m *arch.Model, _ *Layout) { m.MoE.LayerFreq = "[1]*93" }, reason: "93 entries for 94 layers"},
	{rule: "moe-layer-freq", tweak: func(m *arch.Model, _ *Layout) { m.MoE.LayerFreq = "[1]*94" }, reason: "94"},
	{rule: "vpp-divides-layers", breaks: true, text: "pp2 vpp2", tweak: noSplit, reason: "47 % 2"},
	{rule: "vpp-divides-layers", text: "pp2 vpp47", tweak: noSplit, reason: "one layer a chunk"},
	{rule: "tp-divides-qkv", breaks: true, text: "tp16", tweak: func(m *arch.Model, _ *Layout) { m.KVChannels, m.NumQueryGroups = 2, 2 }, reason: "64*2 + 2*2*2 = 136 rows on 16 ranks"},
	{rule: "tp-divides-qkv", text: "tp8", tweak: func(m *arch.Model, _ *Layout) { m.KVChannels, m.NumQueryGroups = 2, 2 }, reason: "136 = 8 * 17"},
	{rule: "mamba-tp", breaks: true, model: "nemotron-3-nano", text: "tp16", reason: "8 groups on 16 ranks"},
	{rule: "mamba-tp", model: "nemotron-3-nano", text: "tp8", reason: "one group a rank"},
	{rule: "mamba-cp", breaks: true, model: "nemotron-3-nano", text: "tp8 cp16", reason: "8 heads of a rank on CP 16"},
	{rule: "mamba-cp", model: "nemotron-3-nano", text: "tp8 cp8", reason: "one head a rank, its group copied"},
	{rule: "tp-divides-ffn", breaks: true, model: "llama3.1-8b", text: "tp8", tweak: func(m *arch.Model, _ *Layout) { m.FFNHiddenSize = 14340 }, reason: "14340 % 8 = 4"},
	{rule: "tp-divides-ffn", text: "tp8", tweak: func(m *arch.Model, _ *Layout) { m.FFNHiddenSize = 12289 }, reason: "no dense layer uses it"},
	{rule: "deepep-needs-peers", breaks: true, text: "dispatcher=deepep", reason: "nobody to exchange with"},
	{rule: "deepep-needs-peers", text: "etp2 dispatcher=deepep", reason: "ETP 2 is enough"},
	{rule: "etp-divides-moe-ffn", breaks: true, world: 320, text: "etp5", reason: "1536 % 5"},
	{rule: "etp-divides-moe-ffn", world: 384, text: "etp3", reason: "1536 = 3 * 512"},
	{rule: "shared-experts-bias", breaks: true, model: "deepseek-v3", tweak: func(m *arch.Model, _ *Layout) { m.LinearBias = true }, reason: "biases and a shared expert"},
	{rule: "shared-experts-bias", model: "gpt-oss-20b", reason: "biases, but no shared expert"},
	{rule: "tp-divides-shared-ffn", breaks: true, model: "glm-4.5", text: "tp32", tweak: func(m *arch.Model, _ *Layout) { m.MoE.SharedFFNSize = 1552 }, reason: "1552 % 32 = 16"},
	{rule: "tp-divides-shared-ffn", model: "glm-4.5", text: "tp32", reason: "1536 = 32 * 48"},
	{rule: "split-ends-moved", breaks: true, split: "|Et*94||L", reason: "E in the second stage"},
	{rule: "split-ends-moved", split: "E|t*94||L", reason: "empty stages between are where they seem"},
	{rule: "split-mtp-standalone", breaks: true, model: "deepseek-v3", text: "pp2 split=Et*30|t*31|m|L", reason: "m on rank 0, L on rank 1"},
	{rule: "split-mtp-standalone", model: "deepseek-v3", text: "pp2", reason: "both on the last rank"},
	{rule: "kv-heads-duplicated", breaks: true, text: "tp8", reason: "4 groups on 8 ranks"},
	{rule: "kv-heads-duplicated", text: "tp4", reason: "a group a rank"},
	{rule: "moe-tp-needs-sp", breaks: true, text: "tp2 sp=off", reason: "TP without SP"},
	{rule: "moe-tp-needs-sp", model: "llama3.1-8b", text: "tp2 sp=off", reason: "dense models may"},
	{rule: "sp-divides-sequence", breaks: true, text: "tp8 seq=4092", reason: "4092 % 8 = 4"},
	{rule: "sp-divides-sequence", text: "tp4 seq=4092", reason: "4092 = 4 * 1023"},
	{rule: "vpp-microbatches", breaks: true, text: "pp8 vpp2 gbs=224", reason: "7 micro-batches on PP 8"},
	{rule: "vpp-microbatches", text: "pp8 vpp2 gbs=256", reason: "exactly PP"},
	{rule: "vpp-microbatches", breaks: true, text: "pp8 vpp2 gbs=384", reason: "12 % 8"},
	{rule: "vpp-microbatches", text: "pp8 gbs=384", reason: "without VPP any number goes"},
	{rule: "pipeline-underfilled", breaks: true, text: "pp8 gbs=224", reason: "7 on PP 8"},
	{rule: "pipeline-underfilled", text: "pp8 gbs=256", reason: "8 on PP 8"},
	{rule: "groups-divide-heads", breaks: true, tweak: func(m *arch.Model, _ *Layout) { m.NumQueryGroups = 6 }, reason: "64 % 6"},
	{rule: "groups-divide-heads", reason: "64 = 4 * 16"},
	{rule: "cp-a2a-heads", breaks: true, model: "gpt-oss-20b", text: "tp4 cp4", reason: "8 groups / TP 4 = 2 KV heads on CP 4"},
	{rule: "cp-a2a-heads", model: "gpt-oss-20b", text: "tp4 cp2", reason: "a KV head a rank"},
	{rule: "cp-attention-sinks", breaks: true, model: "gpt-oss-20b", text: "cp2", reason: "sinks with CP"},
	{rule: "cp-attention-sinks", model: "gpt-oss-20b", text: "cp1", reason: "no CP"},
	{rule: "cp-sliding-window", breaks: true, model: "gpt-oss-20b", text: "cp2", tweak: func(m *arch.Model, _ *Layout) { m.SoftmaxType = "" }, reason: "windows with CP"},
	{rule: "cp-sliding-window", model: "gpt-oss-20b", text: "cp2", reason: "sinks say it already"},
	{rule: "split-order", breaks: true, text: "pp1", tweak: cells(Cell{Embedding: true, First: 1, Decoders: 94, Loss: true}), reason: "starts at the second layer"},
	{rule: "split-order", text: "pp1", tweak: cells(Cell{Embedding: true, Decoders: 94, Loss: true}), reason: "starts at the first"},
	{rule: "pipeline-rank-empty", breaks: true, text: "pp2 split=E|t*94L", reason: "rank 0 embeds and waits"},
	{rule: "pipeline-rank-empty", text: "pp2 split=Et|t*93L", reason: "one layer"},
	{rule: "flex-group-over-64", breaks: true, text: "ep128 dispatcher=hybridep", reason: "128 ranks"},
	{rule: "flex-group-over-64", text: "ep64 dispatcher=hybridep", reason: "64"},
	{rule: "recompute-no-effect", breaks: true, text: "recompute=mlp", reason: "no dense layer"},
	{rule: "recompute-no-effect", model: "deepseek-v3", text: "recompute=mlp,moe,shared_experts", reason: "all three occur"},
	{rule: "recompute-core-attn", breaks: true, text: "recompute=core_attn", reason: "fused attention"},
	{rule: "recompute-core-attn", text: "recompute=layernorm", reason: "something else"},
}

// cloneModel copies a catalogue model, so that a case may change it.
func cloneModel(t testing.TB, name string) *arch.Model {
	m := *model(t, name)
	if m.MoE != nil {
		e := *m.MoE
		m.MoE = &e
	}
	if m.LinearAttention != nil {
		la := *m.LinearAttention
		m.LinearAttention = &la
	}
	return &m
}

func (c *ruleCase) check(t testing.TB) Violations {
	if c.model == "" {
		c.model = "qwen3-235b-a22b"
	}
	if c.world == 0 {
		c.world = 256
	}
	m := cloneModel(t, c.model)
	if c.split != "" {
		return CheckSplit(c.split, 2, m.NumLayers, m.MTPNumLayers)
	}
	l, err := Parse(c.text, Defaults{World: c.world, Model: m})
	if err != nil {
		t.Fatalf("%s %q: %v", c.rule, c.text, err)
	}
	if c.tweak != nil {
		c.tweak(m, &l)
	}
	return Check(m, &l)
}

func TestRules(t *testing.T) {
	for _, c := range ruleCases {
		vs := c.check(t)
		i := slices.IndexFunc(vs, func(v Violation) bool { return v.Rule == c.rule })
		if (i >= 0) != c.breaks {
			t.Errorf("%s on %q %q (%s): broken %v, want %v; all: %v", c.rule, c.text, c.split, c.reason, i >= 0, c.breaks, vs)
		}
		if i >= 0 && (vs[i].Message == "" || vs[i].Repairs == nil || strings.Contains(vs[i].Message, "%!")) {
			t.Errorf("%s: %+v", c.rule, vs[i])
		}
	}
}

// TestEveryRule: unique kebab-case ID, a place in the firing order, complete texts, a source with a line, and a case on
// either side of the line.
func TestEveryRule(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	source := regexp.MustCompile(`^[\w/@. -]+\.py:\d+$`)
	seen := map[RuleID]bool{}
	for _, r := range Rules() {
		if seen[r.ID] || !kebab.MatchString(string(r.ID)) {
			t.Errorf("rule %q: repeated or not kebab-case", r.ID)
		}
		seen[r.ID] = true
		if r.Title == "" || r.Why == "" || !source.MatchString(r.Source) || r.Severity == "" || r.NoticedAt == "" {
			t.Errorf("rule %s is incomplete: %+v", r.ID, r)
		}
		if !slices.Contains(firingOrder, r.ID) {
			t.Errorf("rule %s has no place in the firing order", r.ID)
		}
		for _, breaks := range []bool{true, false} {
			if !slices.ContainsFunc(ruleCases, func(c ruleCase) bool { return c.rule == r.ID && c.breaks == breaks }) {
				t.Errorf("rule %s has no case with breaks=%v", r.ID, breaks)
			}
		}
	}
	if len(firingOrder) != len(seen) {
		t.Errorf("%d rules, %d in the firing order", len(seen), len(firingOrder))
	}
	for _, c := range ruleCases {
		if !seen[c.rule] || c.reason == "" {
			t.Errorf("case of %q: unknown rule or no reason", c.rule)
		}
	}
}

// TestCheckOrder: all violations come back, in the framework's order: arguments, batch, config, process groups, build,
// first step, schedule.
func TestCheckOrder(t *testing.T) {
	m := model(t, "qwen3-235b-a22b")
	l, err := Parse("tp3 pp8 vpp2 ep7 mbs5 sp=off overlap=on recompute=full", Defaults{World: 240, Run: Run{GlobalBatchSize: 1001}})
	if err != nil {
		t.Fatal(err)
	}
	var got []RuleID
	for _, v := range Check(m, &l) {
		got = append(got, v.Rule)
	}
	want := []RuleID{"pp-divides-layers", "ep-divides-experts", "batch-divides", "tp-divides-heads", "tp-fits-kv-groups", "overlap-full-recompute",
		"expert-world-divisible", "moe-tp-needs-sp"}
	if !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	if vs := Check(m, &Layout{}); len(vs) != 1 || vs[0].Rule != sizesPositive {
		t.Errorf("the zero layout: %v", vs)
	}
}

// TestRepairs: a repair that is one word of a layout's text does away with the violation it is offered for.
func TestRepairs(t *testing.T) {
	models := arch.All()
	word := regexp.MustCompile(`^((tp|cp|pp|vpp|ep|etp|mbs)\d+|(gbs|seq|sp|dispatcher|overlap|recompute)=\S+)$`)
	tried := 0
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(models).Draw(t, "model")
		l := drawLayout(t)
		l.Split = BalancedSplit(m, l.PP, l.VPP)
		for _, v := range Check(m, &l) {
			for _, r := range v.Repairs {
				if !word.MatchString(r) {
					continue
				}
				tried++
				repaired := l
				apply(t, &repaired, r)
				if repaired.PP != l.PP || repaired.VPP != l.VPP {
					if repaired.Split = BalancedSplit(m, repaired.PP, repaired.VPP); l.Split == nil {
						repaired.Split = nil
					}
				}
				for _, w := range Check(m, &repaired) {
					if w.Rule == v.Rule {
						t.Fatalf("%s %s\n%s; repair %s leaves %s", m.ID, l.Key(), v.Message, r, w.Message)
					}
				}
			}
		}
	})
	if tried == 0 {
		t.Error("no repair was tried")
	}
}

// apply changes one word of a layout's text.
func apply(t *rapid.T, l *Layout, word string) {
	n, err := Parse(word, Defaults{World: l.World})
	if err != nil {
		t.Fatalf("repair %q: %v", word, err)
	}
	name := strings.TrimRight(strings.SplitN(word, "=", 2)[0], "0123456789")
	switch name {
	case "tp":
		l.TP = n.TP
	case "cp":
		l.CP = n.CP
	case "pp":
		l.PP = n.PP
	case "vpp":
		l.VPP = n.VPP
	case "ep":
		l.EP = n.EP
	case "etp":
		l.ETP = n.ETP
	case "mbs":
		l.MicroBatchSize = n.MicroBatchSize
	case "gbs":
		l.GlobalBatchSize = n.GlobalBatchSize
	case "seq":
		l.SeqLength = n.SeqLength
	case "sp":
		l.SequenceParallel = n.SequenceParallel
	case "dispatcher":
		l.Dispatcher = n.Dispatcher
	case "overlap":
		l.EPOverlap = n.EPOverlap
	case "recompute":
		l.Recompute = n.Recompute
	}
}
