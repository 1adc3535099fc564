package megatron

import (
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// publicCase is a case of the research data cases.json (kinds illegal and fake-pg) with the answer that a planner should give.
type publicCase struct {
	id    string
	model string // of the catalogue; "" is the base that the words begin with
	words string // as in ruleCase
	// wants are the errors and hazards that must be there; no other error may be. Nil: legal.
	wants  []layout.RuleID
	repair string // one that must be offered for the first of them
	reason string
}

const catalogueRun = " --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --bf16 --attention-dropout 0.0 --hidden-dropout 0.0 --use-distributed-optimizer --vocab-size 32000 --no-rope-fusion "

var publicCases = []publicCase{
	{id: "ill-003", words: "E rel=0.15.3 tp4 --sequence-parallel etp1 heads16 --kv-channels 256 --group-query-attention --num-query-groups 2", wants: []layout.RuleID{"tp-divides-kv-groups"},
		repair: "--tensor-model-parallel-size 2", reason: "up to 0.15 TP divides the KV groups"},
	{id: "ill-003", words: "E tp4 --sequence-parallel etp1 heads16 --kv-channels 256 --group-query-attention --num-query-groups 2", reason: "from 0.16 a multiple will do"},
	{id: "ill-005", model: "glm-4.5-air", words: " @64 tp8 --sequence-parallel pp4 ep16 etp1 mbs2 gbs16 --no-rope-fusion mtp0", wants: []layout.RuleID{"pp-divides-layers"}, repair: "--pipeline-model-parallel-layout Et*11|(t*12|)*2t*11L",
		reason: "46 % 4; a layout string places them. The case also offers first and last counts of 11, which leave 24 for 2 stages"},
	{id: "ill-006", words: "E @4 pp2 ep2 etp1 L48 vs24 gbs64", reason: "the case as written is legal: ETP 1 * EP 2 * PP 2 = 4; what ran was not what the name of the run says"},
	{id: "ill-007", words: "E @4 tp4 --sequence-parallel ep4 etp1 gbs4", reason: "with ETP 1 it is legal"},
	{id: "ill-007", words: "E @4 tp4 --sequence-parallel ep4 gbs4", wants: []layout.RuleID{"expert-world-divisible", "etp-follows-tp"}, repair: "--expert-tensor-parallel-size 1", reason: "ETP follows TP: 16 ranks"},
	{id: "ill-008", words: "E @4 tp2 --sequence-parallel ep4 gbs4", wants: []layout.RuleID{"expert-world-divisible", "etp-follows-tp"}, repair: "--expert-tensor-parallel-size 1", reason: "Megatron's command line takes ETP from TP; Bridge's later default does not"},
	{id: "ill-010", words: "D @8 pp8 L60 vs4 gbs64", wants: []layout.RuleID{"block-pp"}, reason: "60 % 8; with a number of virtual stages only the build notices"},
	{id: "ill-010", words: "D @8 pp8 L60 vs4 gbs64 first4 last8", reason: "4 + 6 * 8 + 8, each a multiple of VPP 4"},
	{id: "ill-011", words: "E @16 pp2 L40 vs12 ep8 etp1", wants: []layout.RuleID{"vpp-divides-layers"}, repair: "--num-virtual-stages-per-pipeline-rank 10", reason: "20 % 12; 10 and 20 are next"},
	{id: "ill-013", words: "D @2 pp2 L48 first11 last13", wants: []layout.RuleID{"middle-layers-and-stages"}, repair: "--decoder-last-pipeline-num-layers 37", reason: "24 layers for no stage"},
	{id: "ill-013", words: "D @2 rel=0.15.3 pp2 L48 first11 last13", wants: []layout.RuleID{"layers-dropped-or-added"}, reason: "0.15 builds 24 of 48 layers without a word: a hazard"},
	{id: "ill-016", words: "D @8 pp8 L40 lpvs2", wants: []layout.RuleID{"virtual-stage-divides"}, repair: "--num-layers-per-virtual-pipeline-stage 1", reason: "5 % 2"},
	{id: "ill-017", words: "D @6 pp6 L12 vs2 gbs3", wants: []layout.RuleID{"vpp-microbatches"}, repair: "--global-batch-size 6", reason: "3 micro-batches on PP 6"},
	{id: "ill-019", words: "D @8 pp4 vs2 gbs12", wants: []layout.RuleID{"vpp-last-group"}, repair: "--global-batch-size 8", reason: "6 micro-batches leave 2, fewer than PP 4"},
	{id: "ill-020", words: "E @16 cp2 ep8 etp1", reason: "CP and EP are axes of different meshes"},
	{id: "ill-023", words: "D tp2", reason: "a dense model runs without SP"},
	{id: "ill-024", words: "D @32 tp2 --sequence-parallel pp2 cp8", reason: "the layout is legal: short packed samples must be padded to 2 * CP, and to CP * TP with SP, by whoever packs them"},
	{id: "ill-025", words: "D @16 tp8 --sequence-parallel cp2 seq24", wants: []layout.RuleID{"sp-divides-sequence"}, reason: "a multiple of 2 * CP but not of CP * TP = 16"},
	{id: "ill-025", words: "D @16 tp8 --sequence-parallel cp2 seq16", reason: "CP * lcm(2, TP) = 16"},
	{id: "ill-025", words: "D @12 tp3 heads6 --kv-channels 32 --ffn-hidden-size 384 --sequence-parallel cp4 seq24 gbs12", reason: "4 * lcm(2, 3) = 24"},
	{id: "ill-025", words: "D cp4 seq8", reason: "4 * 2 = 8 at TP 1"},
	{id: "ill-026", words: "D tp2 --sequence-parallel pp2", reason: "the layout is legal; sequences of variable length must be padded to TP, which no flag says"},
	{id: "ill-027", words: "E @128 tp8 --sequence-parallel cp2 ep128 etp1 --num-experts 128 seq262144 pos262144 gbs16 mtp1", reason: "the layout is legal; the data path is at fault"},
	{id: "ill-031", words: "D @32 tp8 --sequence-parallel cp2 seq24576 pos24576", reason: "the layout is legal: a fault of the framework"},
	{id: "ill-033", words: "D @4 tp4 --vocab-size 151669", reason: "the vocabulary is padded to 128 * TP, so the layout is legal; the case is about converting a checkpoint"},
	{id: "ill-034", model: "deepseek-v3", words: " @32 pp32 ep1 gbs32 mtp1 --pipeline-model-parallel-layout E(|tt)*30,|mL L60 --moe-layer-freq ([0]*3+[1]*57)",
		reason: "an MTP layer alone with the loss is legal in Core; 60 layers, because the string of the case holds 60 t for a model of 61"},
	{id: "ill-034", model: "deepseek-v3", words: " @32 pp32 ep1 gbs32 mtp1 --pipeline-model-parallel-layout E(|tt)*30,|mL", wants: []layout.RuleID{"split-layer-count"}, reason: "with the case's 61 layers the string is one short: the case is wrong there"},
	{id: "ill-035", words: "D pp2 --pipeline-model-parallel-layout Et*3|t*2|t*3L", wants: []layout.RuleID{"split-stages"}, reason: "3 stages for PP 2: a string left over from another PP"},
	{id: "ill-037", words: "D @8 tp8 heads24 --kv-channels 256 --group-query-attention --num-query-groups 4 --attention-output-gate --num-attention-heads 24", wants: []layout.RuleID{"kv-heads-duplicated"},
		reason: "legal in Core; ranks share KV heads, which is said. That the gate was wrong in 0.16.0 is a fault no rule of main describes"},
	{id: "ill-039", words: "E @32 pp2 ep16 --num-experts 16 --use-tp-pp-dp-mapping", wants: []layout.RuleID{"edp-equals-dp", "pp-groups-equal"}, repair: "drop --use-tp-pp-dp-mapping", reason: "EDP 1, DP 16"},
	{id: "ill-040", words: "D @32 tp4 pp4 --cpu-offloading-num-layers 2", wants: []layout.RuleID{"layer-offload-no-pp"}, repair: "drop --cpu-offloading-num-layers", reason: "offload of layers needs PP 1"},
	{id: "ill-041", words: "E pp2 --overlap-moe-expert-parallel-comm --moe-token-dispatcher-type allgather --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 mtp2 --moe-shared-expert-overlap ~--bf16",
		wants: []layout.RuleID{"overlap-needs-vpp", "overlap-needs-ep", "overlap-needs-all-to-all", "overlap-full-recompute", "overlap-no-recompute-method", "overlap-no-recompute-layers",
			"overlap-needs-16-bit", "overlap-no-shared-overlap", "overlap-mtp-layers"}, repair: "drop --overlap-moe-expert-parallel-comm", reason: "all of them, one by one"},
	{id: "ill-042", words: "D @8 tp8 heads20 --kv-channels 128", wants: []layout.RuleID{"tp-divides-heads", "tp-fits-kv-groups"}, repair: "--tensor-model-parallel-size 4", reason: "20 % 8"},
	{id: "ill-045", model: "kimi-k2", words: " @128 pp4 ep64 etp1 vs4 first4 last1 gbs128", wants: []layout.RuleID{"vpp-divides-last-stage", "expert-world-divisible"},
		reason: "illegal twice, as the case says: 256 ranks of the expert mesh, and one layer on 4 chunks"},
	{id: "ill-046", words: "E tp4 --sequence-parallel ep2 etp1", reason: "Megatron has no EP >= TP"},
	{id: "ill-048", words: "E @32 cp4 ep8 etp1", reason: "folded: DP 8, EDP 4"},
	{id: "ill-049", words: "D pp2 mtp1 --pipeline-model-parallel-layout Et*4|t*4m||L", wants: []layout.RuleID{"split-mtp-chunk"}, reason: "m in a chunk that is not the last of its rank"},
	{id: "ill-050", words: "E @8 ep8 --num-experts 12 --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep", wants: []layout.RuleID{"ep-divides-experts"}, reason: "12 % 8"},
	{id: "ill-051", words: "D @4 pp4 L6 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split gbs4", reason: "6 layers on PP 4 as 1, 2, 2, 1 (TestSplits)"},

	{id: "fpg-003", model: "deepseek-v3", words: " @1024 tp2 --sequence-parallel pp16 ep64 etp1 gbs8192 mtp0 --pipeline-model-parallel-layout Et*3|(tt|)*29|L --fake-process-group --moe-token-dispatcher-type alltoall",
		reason: "32 stages, one of them empty; DP 32, EDP 1"},
	{id: "fpg-004", words: "D --fake-process-group --use-megatron-fsdp --ckpt-format fsdp_dtensor CUDA_DEVICE_MAX_CONNECTIONS=", reason: "main accepts it; that older cores fail is why no check is written with FSDP"},
	{id: "fpg-005", words: "E ep2 --fake-process-group --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep", wants: []layout.RuleID{"fake-no-flex"}, repair: "--moe-token-dispatcher-type alltoall", reason: "no peers"},
	{id: "fpg-006", words: "E @240 tp8 --sequence-parallel pp15 L15 cp2 ep16 --num-experts 16 etp1 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1", reason: "DP 1, EDP 1, PP no power of two"},
	{id: "fpg-009", words: "E @768 pp12 L12 ep16 --num-experts 16", reason: "DP 64, EDP 4"},
}

// noCommandLine are cases of both kinds that are about something else than a command line's legality.
var noCommandLine = map[string]string{
	"fpg-002": "how a check is written: check_test.go",
	"fpg-008": "an option of the check",
	"fpg-011": "Bridge has no fake process group",
}

// argv writes a case out.
func (c *publicCase) argv(t *testing.T) ([]string, int, map[string]string, Release, CheckSettings) {
	if c.model == "" {
		return launchOf(t, c.words)
	}
	m, err := arch.Lookup(c.model)
	if err != nil {
		t.Fatal(err)
	}
	old, had := bases['C']
	defer func() {
		if delete(bases, 'C'); had {
			bases['C'] = old
		}
	}()
	bases['C'] = strings.Join(m.MegatronFlags, " ") + catalogueRun
	return launchOf(t, "C"+c.words)
}

func TestPublicCases(t *testing.T) {
	seen := map[string]bool{}
	for i := range publicCases {
		c := &publicCases[i]
		seen[c.id] = true
		argv, world, env, release, o := c.argv(t)
		o.NoRepairs = c.repair == ""
		_, vs, err := CheckArgv(argv, release, world, env, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range c.wants {
			if !has(vs, id) {
				t.Errorf("%s: %s is missing (%s): %v", c.id, id, c.reason, vs)
			}
		}
		for _, v := range vs.Errors() {
			if !slices.Contains(c.wants, v.Rule) {
				t.Errorf("%s: %v is not expected (%s)", c.id, v.Error(), c.reason)
			}
		}
		if c.repair != "" && !slices.ContainsFunc(vs, func(v layout.Violation) bool { return v.Rule == c.wants[0] && slices.Contains(v.Repairs, c.repair) }) {
			t.Errorf("%s: %q is not offered for %s: %v", c.id, c.repair, c.wants[0], vs[0].Repairs)
		}
	}
	t.Logf("%d cases, %d without a command line", len(seen), len(noCommandLine))
}

// A command line for main in an older release: which flags are missing, and until when.
func TestMissing(t *testing.T) {
	args, err := SplitArgs(strings.Fields(bases['E'] + " --pipeline-model-parallel-layout Et*4|t*4L --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep --cuda-graph-modules attn"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		release, flag, says string
		kind                ProblemKind
	}{
		{"0.12.3", "--pipeline-model-parallel-layout", "it came with 0.13.1", NotYet},
		{"0.15.3", "--moe-flex-dispatcher-backend", "it came with 0.16.1", NotYet},
		{"0.17.1", "--cuda-graph-modules", "it came with 0.18.2", NotYet},
		{"0.11.0", "--moe-token-dispatcher-type", "which came with 0.12.0", BadChoice},
	} {
		problems := args.Missing(mustRelease(c.release))
		if !slices.ContainsFunc(problems, func(p Problem) bool {
			return p.Flag == c.flag && p.Kind == c.kind && strings.Contains(p.Message, c.says)
		}) {
			t.Errorf("%s: no %s for %s: %v", c.release, c.says, c.flag, problems)
		}
	}
	if problems := args.Missing(Main); problems != nil {
		t.Errorf("main: %v", problems)
	}
	gone := Args{{Name: "--use-custom-fsdp"}}
	if p := gone.Missing(Main); len(p) != 1 || p[0].Kind != Gone || !strings.Contains(p[0].Message, "0.13.1") {
		t.Errorf("a flag that is gone: %v", p)
	}
}
