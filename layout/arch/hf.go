package arch

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// FromHF reads a model's shape from a Hugging Face config.json. name is what the caller calls the model ("Qwen/Qwen3-8B",
// "config.json"); it becomes the ID, and a size in it ("235B-A22B") is compared with what the shape has. The Import says
// key by key what was read, what was assumed because the file is silent, and what was left out and why.
//
// A configuration that Model cannot represent is refused: an architecture that is not in the table (hf_architectures.go),
// a key that would change the shape and is not known, two keys that contradict each other. Training settings, numbers for
// generation and the like are listed as ignored. A vision or audio tower is left out, and said to be. The quantisation of
// a checkpoint says nothing about how the model is trained.
//
// The mapping is that of NVIDIA-NeMo/Megatron-Bridge@067f987df models/conversion/model_bridge.py:456 and its bridges, and
// for keys that those do not read, Hugging Face's own model code.
//
// Errors: *HFError, and what r returns.
func FromHF(r io.Reader, name string) (*Model, *Import, error) {
	top, err := decodeHF(r, name)
	if err != nil {
		return nil, nil, err
	}
	c := &hfConfig{name: name, top: top, language: top, used: map[string]bool{}, imported: &Import{}}
	c.descend()
	a, err := c.architecture()
	if err != nil {
		return nil, nil, err
	}
	c.imported.Architecture = a.class
	m := &Model{
		ID: hfID(name), HFID: c.hfID(), Architecture: a.class, Kind: GPT, Activation: SwiGLU, Normalization: RMSNorm,
		Launcher: "pretrain_gpt.py", Sources: []string{"config.json read as " + name},
	}
	a.read(c, m)
	c.padding(m, a)
	if c.err == nil {
		c.rest()
	}
	if c.err != nil {
		return nil, nil, c.err
	}
	if err := m.Validate(); err != nil {
		return nil, nil, &HFError{Name: name, Reason: err.Error()}
	}
	m.MegatronFlags = c.flags(m)
	c.imported.Size = checkSize(c.sizeNames(), m)
	return m, c.imported, nil
}

// Import is the record of one FromHF.
type Import struct {
	Architecture string   `json:"architecture"` // config.json architectures[0], or what model_type stands for
	Read         []HFNote `json:"read"`
	Assumed      []HFNote `json:"assumed"`
	Ignored      []HFNote `json:"ignored"`
	// Size compares the size that the name states with the shape; nil if the name states none.
	Size *SizeCheck `json:"size_check"`
}

// HFNote is one key of a configuration, or one field that no key gave.
type HFNote struct {
	Key    string `json:"key"`   // with its group: "text_config.head_dim"
	Value  string `json:"value"` // as written, shortened
	Reason string `json:"reason"`
}

// HFError is a configuration that cannot be imported.
type HFError struct {
	Name   string
	Key    string // the key at fault; "" if it is the file or the model as a whole
	Reason string
}

func (e *HFError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s: %s", e.Name, e.Reason)
	}
	return fmt.Sprintf("%s: %s: %s", e.Name, e.Key, e.Reason)
}

// hfID makes a catalogue-like ID of a name.
func hfID(name string) string {
	base := path.Base(strings.ReplaceAll(name, "\\", "/"))
	if base == "config.json" {
		if dir := path.Base(path.Dir(name)); dir != "." && dir != "/" {
			base = dir
		}
	}
	return strings.ToLower(base)
}

func (c *hfConfig) hfID() string {
	if v, ok := c.top["_name_or_path"].(string); ok && strings.Count(v, "/") == 1 && !strings.HasPrefix(v, "/") && !strings.HasPrefix(v, ".") {
		return v
	}
	if strings.Count(c.name, "/") == 1 && !strings.HasSuffix(c.name, ".json") {
		return c.name
	}
	return ""
}

// sizeNames are the names that may state a size, the caller's first.
func (c *hfConfig) sizeNames() []string {
	names := []string{c.name}
	if v, ok := c.top["_name_or_path"].(string); ok {
		names = append(names, v)
	}
	return names
}

// padding is the unit to which the vocabulary is padded, which no config.json says: the largest power of two up to 128
// that divides it, or the architecture's own (layout-rules.md section 5.1, Megatron-Bridge).
func (c *hfConfig) padding(m *Model, a *hfArchitecture) {
	unit := a.vocabUnit
	if unit == 0 || m.VocabSize%unit != 0 {
		unit = 128
		for unit > 1 && m.VocabSize%unit != 0 {
			unit /= 2
		}
	}
	m.MakeVocabSizeDivisibleBy = unit
	c.assume("make_vocab_size_divisible_by", unit, "a config.json does not say it; Megatron-Bridge's rule")
}
