package layout

import (
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/folding"
)

// TestCheckMeshes: what folding refuses comes as violations, with what a layout's rule adds. Words and order are folding's.
func TestCheckMeshes(t *testing.T) {
	for _, tt := range []struct {
		name      string
		d         folding.Degrees
		order     folding.Order
		instances int
		rules     []RuleID
		at        NoticedAt // of the first
		repair    string    // one of the first's; "": it has none
	}{
		{"legal", folding.Degrees{World: 64, TP: 2, CP: 1, PP: 1, EP: 8, ETP: 1}, "", 1, nil, "", ""},
		{"both meshes", folding.Degrees{World: 64, TP: 3, CP: 1, PP: 1, EP: 1, ETP: 5}, folding.DefaultOrder, 1,
			[]RuleID{folding.RuleWorldDivisible, folding.RuleExpertWorldDivisible}, AtArguments, "tp2"},
		{"an order that needs equal meshes", folding.Degrees{World: 64, TP: 1, CP: 1, PP: 8, EP: 2, ETP: 1}, folding.TPPPDPOrder, 1,
			[]RuleID{folding.RuleEDPEqualsDP, folding.RulePPGroupsEqual}, AtProcessGroups, "order=tp-cp-ep-dp-pp"},
		{"a rule that no layout has", folding.Degrees{World: 64, TP: 1, CP: 1, PP: 1, EP: 1, ETP: 1}, folding.DefaultOrder, 3,
			[]RuleID{folding.RuleOptimizerInstances, folding.RuleOptimizerInstancesOfEDP}, AtProcessGroups, ""},
		{"a degree of nothing", folding.Degrees{World: 64, CP: 1, PP: 1, EP: 1, ETP: 1}, folding.DefaultOrder, 1,
			[]RuleID{folding.RuleDegreePositive}, AtArguments, ""},
	} {
		got := CheckMeshes(tt.d, tt.order, tt.instances)
		var rules []RuleID
		for i := range got {
			rules = append(rules, got[i].Rule)
			if got[i].Repairs == nil || got[i].Severity != Error || strings.Contains(got[i].Source, "@") {
				t.Errorf("%s: %+v", tt.name, got[i])
			}
		}
		if !slices.Equal(rules, tt.rules) {
			t.Errorf("%s: %v, want %v", tt.name, rules, tt.rules)
			continue
		}
		if len(got) > 0 && (got[0].NoticedAt != tt.at || tt.repair != "" && !slices.Contains(got[0].Repairs, tt.repair) || tt.repair == "" && len(got[0].Repairs) > 0) {
			t.Errorf("%s: at %s, repairs %q", tt.name, got[0].NoticedAt, got[0].Repairs)
		}
	}
}
