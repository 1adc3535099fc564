package megatron

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
)

// difference is a set of records whose first refusal is another in a real launch than in the recording: rule, or none where
// it is "". Records are those of a list of artefacts.json, or given.
type difference struct {
	list    string
	records []string
	rule    layout.RuleID
	reason  string
}

// differences are all that normal mode may do other than the recordings. Of several entries with a record the first holds,
// and they stand in the order in which a launch would notice.
var differences = []difference{
	// Cases of a list that break an earlier or another rule than the list is about.
	{records: []string{"main 1408", "main 1500", "main 2323", "main 2387", "main 420", "main 1810"}, rule: "local-no-cp", reason: "the local attention is never built by the recorder with its CP; a launch notices before the schedule (53)"},
	{records: []string{"main 2306", "main 2362", "main 1330"}, rule: "local-norm-no-sp", reason: "nor is its norm with SP"},
	{records: []string{"main 1184", "main 962", "main 1876"}, rule: "instances-need-optimizer", reason: "DDP is not wrapped by the recorder; a launch notices before the schedule (53)"},
	{records: []string{"main 1385", "main 2055"}, rule: "precision-aware-sharded", reason: "the optimizer is not made by the recorder"},
	{records: []string{"main 1933"}, rule: "vpp-divides-layers", reason: "in a list of rule 133 too, but the build comes first"},
	{records: []string{"main 1167"}, rule: "grouped-gemm-bias", reason: "in a list of rule 16 too, but the build comes first"},
	{records: []string{"main 119"}, rule: "fp8-widths", reason: "dense MLP width 200 / TP 2 = 100"},
	{records: []string{"main 1020"}, rule: "instances-need-optimizer", reason: "its FP8 shapes are fine"},
	// The lists.
	{list: "harness accept / real reject 44 transformer_block.py:157", rule: "block-pp", reason: "not built: too many experts for the recorder"},
	{list: "harness reject 53 / real reject 44 transformer_block.py:157", rule: "block-pp", reason: "not built: too many experts for the recorder"},
	{list: "harness accept / real reject 47 transformer_block.py:176", rule: "vpp-divides-layers", reason: "not built"},
	{list: "harness reject 53 / real reject 47 transformer_block.py:176", rule: "vpp-divides-layers", reason: "not built"},
	{list: "harness reject 53 / real reject 88 shared_experts.py:124", rule: "shared-experts-bias", reason: "not built"},
	{list: "env: token_dispatcher.py:1283 -> real verdict: reject rule 88", rule: "shared-experts-bias", reason: "DeepEP was missing where it was recorded"},
	{list: "env: token_dispatcher.py:1283 -> real verdict: reject rule 53", rule: "vpp-microbatches", reason: "DeepEP was missing"},
	{list: "env: token_dispatcher.py:1283 -> real verdict: accept", reason: "DeepEP was missing"},
	{list: "env: transformer_block.py:321 -> real verdict: reject rule 30", rule: "moe-tp-needs-sp", reason: "Transformer Engine was missing"},
	{list: "env: transformer_block.py:321 -> real verdict: accept", reason: "Transformer Engine was missing"},
	{list: "accept but rule 89 (TEGroupedMLP bias + bias_dropout_fusion, experts.py:205)", rule: "grouped-gemm-bias", reason: "only the local layers were built"},
	{list: "harness accept / real reject 30 moe_layer.py:637", rule: "moe-tp-needs-sp", reason: "stage not built"},
	{list: "accept: --transformer-impl local with CP>1 (dot_product_attention.py:57 refuses)", rule: "local-no-cp", reason: "built with CP 1"},
	{list: "accept: --transformer-impl local with SP (torch_norm refuses; only Apex LayerNorm passes)", rule: "local-norm-no-sp", reason: "built without SP in the norms"},
	{list: "accept but rule 6 (unrun stage) broken", rule: "instances-need-optimizer", reason: "DDP not wrapped"},
	{list: "accept but rule 133 (unrun stage) broken", rule: "precision-aware-sharded", reason: "optimizer not made"},
	{list: "accept but rule 33 (unrun stage) broken", rule: "sp-divides-sequence", reason: "no forward"},
	{list: "accept but topk//group_topk exceeds the experts per group (torch.topk fails at the first step, moe_utils.py:712)", rule: "router-groups-too-small", reason: "no forward"},
	{list: "harness accept / real reject 53 schedules.py:1168", rule: "shards-need-te", reason: "the recorder left weight shards out of the micro-batches; a launch with TE 2.9 does not get that far"},
	{list: "accept but rule 16 (unrun stage) broken", rule: "groups-divide-heads", reason: "TE not run"},
	{list: "accept but rule 36 (unrun stage) broken", rule: "cp-comm-type-names", reason: "TE not run"},
	{list: "accept but rule 39 (unrun stage) broken", rule: "cp-sinks-exchange", reason: "TE not run"},
	// The extra file has no list of artefacts.
	{records: []string{"extra 69", "extra 70", "extra 71", "extra 74", "extra 577", "extra 580", "extra 583"}, rule: "shards-need-te", reason: "TE was answered as 2.9, weight shards need 2.19"},
	{records: []string{"extra 146", "extra 147", "extra 148"}, rule: "groups-divide-heads", reason: "TE not run"},
	{records: []string{"extra 309", "extra 315", "extra 316", "extra 317", "extra 323", "extra 325", "extra 326", "extra 327", "extra 624", "extra 625"}, rule: "mamba-tp",
		reason: "hybrid models were not built: 2 Mamba heads, 8 groups by default"},
	{records: []string{"extra 368"}, reason: "DeepEP was missing"},
}

// noDifference are the lists of artefacts that say only what was not run.
var noDifference = []string{"accept without model_build", "accept flex", "accept with fp8 (GEMM shape rule 129 not run)",
	"accept with GTP>1 though TE answered 2.9.0 (needs 2.19, initialize.py:372); num_microbatches recorded without GTP", "harness accept / real reject 33 mappings.py:177"}

// In normal mode a command line is refused or accepted as recorded, for the same reason, except for the differences, each
// of which is there.
func TestNormalVerdicts(t *testing.T) {
	file := loadValidity(t)
	expected := map[string]difference{}
	for _, d := range differences {
		records := d.records
		for _, n := range file.Artefacts[d.list] {
			records = append(records, fmt.Sprintf("main %d", n))
		}
		if len(records) == 0 {
			t.Errorf("no records under %q", d.list)
		}
		for _, r := range records {
			if _, ok := expected[r]; !ok {
				expected[r] = d
			}
		}
	}
	for list := range file.Artefacts {
		if !slices.Contains(noDifference, list) && !slices.ContainsFunc(differences, func(d difference) bool { return d.list == list }) {
			t.Errorf("nobody expects %q", list)
		}
	}
	agree, known := 0, map[layout.RuleID]int{}
	for i := range file.Cases {
		c := &file.Cases[i]
		o := c.settings(Normal)
		if o.TransformerEngine == "" {
			o.TransformerEngine = "2.9.0"
		}
		var rule layout.RuleID
		var source string
		if errs := c.check(t, o).Errors(); len(errs) > 0 {
			rule, source = errs[0].Rule, errs[0].Source
		}
		d, differs := expected[c.Record]
		switch {
		case differs && (rule != d.rule || source == c.Where):
			t.Errorf("%s: %q at %s, recorded %q; expected to differ by %q (%s)", c.Record, rule, source, c.Where, d.rule, d.reason)
		case differs:
			known[rule]++
		case source != c.Where:
			t.Errorf("%s: %q at %s, recorded %q", c.Record, rule, source, c.Where)
		default:
			agree++
		}
	}
	total := 0
	for _, n := range known {
		total += n
	}
	t.Logf("%d records, %d agree, %d known differences: %v", len(file.Cases), agree, total, known)
	for _, d := range differences {
		if d.reason == "" || d.list == "" && len(d.records) == 0 || strings.HasPrefix(d.list, " ") {
			t.Errorf("difference without a reason: %+v", d)
		}
	}
}
