package megatron

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout/arch"
)

// resolve reads a command line of main.
func resolve(t testing.TB, world int, argv ...string) *Resolved {
	t.Helper()
	s, err := Parse(argv, Main)
	if err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	r, err := Resolve(s, world, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// notShape are the fields of a model that no command line holds.
var notShape = []string{"ID", "HFID", "Architecture", "MegatronFlags", "Sources", "Unverified", "Notes", "RecordedTotal", "RecordedActive"}

// unsaid are differences between a catalogue model and what its own flags say.
var unsaid = []struct{ model, field, reason string }{
	{"*", "MaxPositionEmbeddings", "the catalogue's flags leave it to the run"},
	{"olmoe-1b-7b", "QKNorm", "Megatron's spec norms per head, this model's weights norm all heads at once"},
	{"minimax-m2.5", "QKNorm", "the same, per layer"},
}

// Every catalogue model's flags read as that model.
func TestCatalogueFlagsAreTheModels(t *testing.T) {
	used := map[int]bool{}
	for _, want := range arch.All() {
		got, err := Model(resolve(t, 1, want.MegatronFlags...))
		if err != nil {
			t.Errorf("%s: %v", want.ID, err)
			continue
		}
		if a, b := flagWords(want.MegatronFlags), flagWords(got.MegatronFlags); !slices.Equal(a, b) {
			t.Errorf("%s: flags %q, of %q", want.ID, b, a)
		}
		a, b := reflect.ValueOf(*want), reflect.ValueOf(*got)
		for i := range a.NumField() {
			name := a.Type().Field(i).Name
			if slices.Contains(notShape, name) || equalField(a.Field(i).Interface(), b.Field(i).Interface()) {
				continue
			}
			known := slices.IndexFunc(unsaid, func(u struct{ model, field, reason string }) bool {
				return u.field == name && (u.model == "*" || u.model == want.ID)
			})
			if known < 0 {
				t.Errorf("%s: %s is %+v in the catalogue, %+v by its flags", want.ID, name, indirect(a.Field(i)), indirect(b.Field(i)))
			}
			used[known] = true
		}
	}
	for i, u := range unsaid {
		if !used[i] {
			t.Errorf("the difference %v is none any more", u)
		}
	}
}

// flagWords joins each flag with its values, sorted. Whole numbers are written plainly.
func flagWords(argv []string) []string {
	args, _ := SplitArgs(argv)
	var words []string
	for _, f := range args {
		words = append(words, strings.Join(append([]string{f.Name}, f.Values...), " "))
	}
	slices.Sort(words)
	return words
}

// Every name in the list of architecture flags is a flag of some release.
func TestArchitectureFlagsExist(t *testing.T) {
	for _, name := range architectureFlags {
		if table().record(name) == nil {
			t.Errorf("%s is no flag", name)
		}
	}
}

func equalField(a, b any) bool {
	if x, ok := a.(*arch.MoE); ok && x != nil {
		p, q := *x, *b.(*arch.MoE)
		if p.LayerFreq == "" {
			p.LayerFreq = "1"
		}
		return p == q
	}
	return reflect.DeepEqual(a, b)
}

func indirect(v reflect.Value) any {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return v.Interface()
}

const small = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --micro-batch-size 1 --seq-length 32 --max-position-embeddings 32 --vocab-size 1000 "

func TestModelDefaults(t *testing.T) {
	for _, c := range []struct {
		argv   string
		holds  func(m *arch.Model) bool
		reason string
	}{
		{"", func(m *arch.Model) bool { return m.FFNHiddenSize == 256 && m.KVChannels == 16 && m.NumQueryGroups == 4 }, "4h, h/heads, heads"},
		{"--swiglu", func(m *arch.Model) bool { return m.FFNHiddenSize == 128 }, "int(4*64*2/3/64)*64"},
		{"--quick-geglu", func(m *arch.Model) bool { return m.FFNHiddenSize == 256 && m.Activation == arch.QuickGEGLU }, "gated, but 4h"},
		{"", func(m *arch.Model) bool { return m.LearnedPositions && m.LinearBias && m.QKVBias && m.TiedEmbeddings }, "Megatron's own defaults"},
		{"--disable-bias-linear", func(m *arch.Model) bool { return !m.LinearBias && !m.QKVBias }, "no bias at all"},
		{"--disable-bias-linear --add-qkv-bias", func(m *arch.Model) bool { return !m.LinearBias && m.QKVBias }, "QKV alone"},
		{"--num-query-groups 2", func(m *arch.Model) bool { return m.NumQueryGroups == 4 }, "without --group-query-attention it is ignored"},
		{"--group-query-attention", func(m *arch.Model) bool { return m.NumQueryGroups == 1 }, "the default of --num-query-groups"},
		{"--num-experts 8", func(m *arch.Model) bool { return m.MoE.FFNHiddenSize == 256 && m.MoE.TopK == 2 }, "expert ffn follows ffn"},
		{"--num-experts 8 --moe-layer-freq=+2", func(m *arch.Model) bool { return m.MoE.LayerFreq == "2" }, "Python's int reads a sign"},
		{"--num-experts 8 --moe-layer-freq=1_0", func(m *arch.Model) bool { return m.MoE.LayerFreq == "10" }, "and underscores"},
		{"--num-experts 0", func(m *arch.Model) bool { return m.MoE == nil }, "0 experts is None"},
		{"--use-rotary-position-embeddings", func(m *arch.Model) bool { return !m.LearnedPositions }, "the old spelling of rope"},
		{"--padded-vocab-size 4096", func(m *arch.Model) bool { return m.PaddedVocab(1) == 4096 && m.PaddedVocab(2) == 4096 }, "taken as it is"},
		{"--multi-latent-attention", func(m *arch.Model) bool { return m.MLA.KVLoraRank == 32 && m.MLA.QLoraRank == 0 }, "the CLI's own defaults"},
		{"--hybrid-layer-pattern M*-E/*E --num-experts 4 --mamba-head-dim 16", func(m *arch.Model) bool {
			return m.Kind == arch.Hybrid && m.NumLayers == 4 && m.MTPNumLayers == 1 && m.MTPHybridPattern == "*E" && m.Mamba.NumHeads == 8
		}, "layers and MTP follow from the pattern, heads from 2h"},
		{"--hybrid-layer-pattern ++ --kv-lora-rank 8", func(m *arch.Model) bool { return m.MLA != nil && m.HybridLayerPattern == "**" }, "+ is latent attention"},
		{"--experimental-attention-variant gated_delta_net --linear-attention-freq ([1]*3+[0])", func(m *arch.Model) bool {
			return m.LinearAttention.Variant == "gdn" && m.LinearAttention.Freq == 4
		}, "a list that says what 4 says"},
	} {
		m, err := Model(resolve(t, 8, strings.Fields(small+c.argv)...))
		if err != nil || !c.holds(m) {
			t.Errorf("%s: %+v, %v (%s)", c.argv, m, err, c.reason)
		}
	}
}

func TestModelErrors(t *testing.T) {
	m, err := Model(resolve(t, 1, strings.Fields(strings.Replace(small, "--vocab-size 1000", "", 1))...))
	if !errors.Is(err, ErrVocabulary) || m == nil || m.VocabSize != 0 {
		t.Errorf("without a vocabulary: %v, %v", m, err)
	}
	var unmodelled *UnmodelledError
	m, err = Model(resolve(t, 1, strings.Fields(small+"--experimental-attention-variant dsa --multi-latent-attention")...))
	if !errors.As(err, &unmodelled) || m == nil {
		t.Errorf("sparse attention: %v, %v", m, err)
	}
	for _, argv := range []string{"--num-layers 4", small + "--num-layers 0", small + "--hidden-size -1", small + "--num-experts 4 --moe-layer-freq [0]*3",
		small + "--hidden-size 99999999999999999", small + "--hybrid-layer-pattern MX", small + "--mtp-num-layers 20000 --position-embedding-type rope",
		small + "--mtp-num-layers 1024 --mtp-hybrid-override-pattern " + strings.Repeat("M", 1<<20)} { // the last would be written out to a GiB
		if m, err := Model(resolve(t, 1, strings.Fields(argv)...)); err == nil || m != nil {
			t.Errorf("%s: %v, %v", argv, m, err)
		}
	}
}
