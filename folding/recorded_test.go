package folding

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
)

//go:embed testdata/rank_groups.json
var recordedJSON []byte

type recordedCase struct {
	World     int            `json:"w"`
	Degrees   [5]*int        `json:"d"`
	Order     Order          `json:"o"`
	Instances int            `json:"n"`
	Exception string         `json:"e"`
	Groups    map[string]int `json:"g"`
}

type recordedFamily struct {
	Count, Size int
	Hash        string
}

func (f *recordedFamily) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&f.Count, &f.Size, &f.Hash})
}

type recordings struct {
	Values []recordedFamily `json:"values"`
	Cases  []recordedCase   `json:"cases"`
}

func (c recordedCase) degrees() Degrees {
	d := Degrees{World: c.World, TP: *c.Degrees[0], CP: *c.Degrees[1], PP: *c.Degrees[2], EP: *c.Degrees[3]}
	d.ETP = d.TP // what the framework does when it is not given
	if c.Degrees[4] != nil {
		d.ETP = *c.Degrees[4]
	}
	return d
}

// families maps the framework's own group names to ours. The two GTP_WEIGHT_REMAT families are singletons here and
// have no kind; nor have those of parted.
var families = map[string]GroupKind{
	"TENSOR_MODEL_PARALLEL_GROUP":                           GroupTP,
	"CONTEXT_PARALLEL_GROUP":                                GroupCP,
	"DATA_PARALLEL_GROUP":                                   GroupDP,
	"DATA_PARALLEL_GROUP_WITH_CP":                           GroupDPCP,
	"PIPELINE_MODEL_PARALLEL_GROUP":                         GroupPP,
	"TENSOR_AND_CONTEXT_PARALLEL_GROUP":                     GroupTPCP,
	"MODEL_PARALLEL_GROUP":                                  GroupTPPP,
	"TENSOR_AND_DATA_PARALLEL_GROUP":                        GroupTPDP,
	"TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP":                GroupTPDPCP,
	"EXPERT_MODEL_PARALLEL_GROUP":                           GroupEP,
	"EXPERT_TENSOR_PARALLEL_GROUP":                          GroupETP,
	"EXPERT_DATA_PARALLEL_GROUP":                            GroupEDP,
	"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP":                GroupETPEP,
	"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP":           GroupETPEPPP,
	"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP_WITH_EGTP": GroupETPEPPP,
	"EMBEDDING_GROUP":                                       GroupEmbedding,
	"POSITION_EMBEDDING_GROUP":                              GroupPositionEmbedding,
	"INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP":            GroupOptimizerInstance,
}

// parted maps the families that part a data parallel group between optimizer instances, which exist only with several of them.
// They have no kind, because they are no nested progressions in every order; here they are cut out of a family that has one,
// as the framework does: shards of one instance are consecutive members, replicas of one shard have the same place in each.
var parted = map[string]struct {
	of       GroupKind
	replicas bool
}{
	"INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP":  {GroupDPCP, false},
	"HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0": {GroupEDP, false},
	"HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1": {GroupEDP, true},
}

func part(groups [][]int, instances int, replicas bool) (out [][]int) {
	for _, g := range groups {
		shards := len(g) / instances
		if !replicas {
			for i := range instances {
				out = append(out, g[i*shards:(i+1)*shards])
			}
			continue
		}
		for shard := range shards {
			var same []int
			for i := range instances {
				same = append(same, g[i*shards+shard])
			}
			out = append(out, same)
		}
	}
	return out
}

// hash is the recording's form: sha256 of the ranks of all groups as "r,r;r,r".
func hash(groups [][]int) string {
	var text []byte
	for i, g := range groups {
		if i > 0 {
			text = append(text, ';')
		}
		for j, r := range g {
			if j > 0 {
				text = append(text, ',')
			}
			text = strconv.AppendInt(text, int64(r), 10)
		}
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// TestRecorded replays every recorded call of the real initialize_model_parallel: 236 verdicts, and for the 175
// accepted ones every group of every family.
func TestRecorded(t *testing.T) {
	var rec recordings
	if err := json.Unmarshal(recordedJSON, &rec); err != nil {
		t.Fatal(err)
	}
	refused, accepted, compared := 0, 0, 0
	for i, c := range rec.Cases {
		d := c.degrees()
		f, err := New(d, c.Order, c.Instances)
		if (err != nil) != (c.Exception != "") {
			t.Errorf("case %d: %v order %q instances %d: got %v, framework raised %q", i, d, c.Order, c.Instances, err, c.Exception)
			continue
		}
		if err != nil {
			var r *Refusal
			if !errors.As(err, &r) || r.Rule == "" || r.Message == "" || r.Source == "" {
				t.Errorf("case %d: refusal %#v is not complete", i, err)
			} else if want := exceptionOf[r.Rule]; want != c.Exception && (r.Rule != RuleOrderMissingAxis || c.Exception != "ValueError") {
				t.Errorf("case %d: first refusal %s raises %s, framework raised %s", i, r.Rule, want, c.Exception)
			}
			refused++
			continue
		}
		accepted++
		for desc, at := range c.Groups {
			kind, ok := families[desc]
			cut, isParted := parted[desc]
			if isParted {
				kind = cut.of
			} else if !ok {
				continue
			}
			want := rec.Values[at]
			groups, err := f.Groups(kind)
			if err != nil {
				t.Errorf("case %d: %s: %v", i, kind, err)
				continue
			}
			if isParted {
				groups = part(groups, f.OptimizerInstances(), cut.replicas)
			}
			if len(groups) != want.Count || len(groups[0]) != want.Size || hash(groups) != want.Hash {
				t.Errorf("case %d: %v order %q instances %d: %s has %d groups of %d that differ from the %d of %d of %s",
					i, d, c.Order, c.Instances, kind, len(groups), len(groups[0]), want.Count, want.Size, desc)
			}
			compared++
		}
	}
	if refused != 61 || accepted != 175 || compared != 175*18+10*3 {
		t.Errorf("replayed %d refused, %d accepted, %d families; the recording has 61, 175 and %d", refused, accepted, compared, 175*18+10*3)
	}
	t.Logf("%d refused, %d accepted, %d group families equal", refused, accepted, compared)
}

// exceptionOf is the Python exception that each rule raises in the framework; a missing tp is a ValueError.
var exceptionOf = map[string]string{
	RuleWorldDivisible:          "RuntimeError",
	RuleExpertWorldDivisible:    "RuntimeError",
	RuleOrderMissingAxis:        "RuntimeError",
	RuleOrderUnknownAxis:        "KeyError",
	RuleEDPEqualsDP:             "AssertionError",
	RulePPGroupsEqual:           "AssertionError",
	RuleOptimizerInstances:      "AssertionError",
	RuleOptimizerInstancesOfEDP: "AssertionError",
}
