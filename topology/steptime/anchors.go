package steptime

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology"
)

// anchorsJSON are the measured runs that the constants were fitted to, and what the notes' own model predicts for them.
//
//go:embed testdata/golden.json
var anchorsJSON []byte

// Anchor is one measured run of the set that [Calibration] names.
type Anchor struct {
	ID, Source string
	// Name is the model's, which may be one of the catalogue cut down to a few layers.
	Name     string
	Model    *arch.Model
	Platform *topology.Platform
	Layout   layout.Layout // its split is anchorSplit's: the sources do not record them
	Software Software
	Tokens   float64 // measured, per second and GPU
	// Fitted is false for the one run kept out of the fit: GB200 alltoall of 2025.
	Fitted bool
}

// Anchors returns the measured runs in their stable order. The slice and what it points to are shared and read-only.
func Anchors() []Anchor { return anchors() }

var anchors = sync.OnceValue(func() []Anchor {
	list, err := readAnchors()
	if err != nil {
		panic("bug: embedded anchors: " + err.Error())
	}
	return list
})

func readAnchors() ([]Anchor, error) {
	var file struct {
		Rows []struct {
			Config anchorConfig `json:"config"`
			Source string       `json:"source"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(anchorsJSON, &file); err != nil {
		return nil, err
	}
	list := make([]Anchor, len(file.Rows))
	for i := range file.Rows {
		r := &file.Rows[i]
		c := &r.Config
		m, err := anchorModel(c.Model)
		if err != nil {
			return nil, err
		}
		p, err := topology.LookupPlatform(c.Platform)
		if err == nil && c.NIC > 0 {
			p, err = p.With(topology.Override{Figure: topology.FigureNIC, Value: 8 * c.NIC})
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.ID, err)
		}
		l, sw, err := c.layout()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.ID, err)
		}
		if l.Split = anchorSplit(m, c.PP, c.VPP, r.Source); l.Split == nil {
			return nil, fmt.Errorf("%s: no split of %d layers over PP %d x VPP %d", c.ID, m.NumLayers, c.PP, c.VPP)
		}
		list[i] = Anchor{ID: c.ID, Source: r.Source, Name: c.Model, Model: m, Platform: p, Layout: l, Software: sw,
			Tokens: c.Tokens, Fitted: c.Usable}
	}
	return list, nil
}

// anchorSplit is where a run's layers stood. SimuMax ran Megatron-LM without a layout string, so evenly; the published
// recipes give every stage about the same to do, and layout.BalancedSplit agrees with all their layout strings that it is
// tested against.
func anchorSplit(m *arch.Model, pp, vpp int, source string) *layout.Split {
	if strings.HasPrefix(source, "SimuMax") {
		if even := layout.EvenSplit(m, pp, vpp); even != nil {
			return even
		}
	}
	return layout.BalancedSplit(m, pp, vpp)
}

// anchorConfig is a run as the file writes it.
type anchorConfig struct {
	ID       string   `json:"id"`
	Platform string   `json:"plat"`
	Model    string   `json:"model"`
	N        int      `json:"N"`
	MBS      int      `json:"mbs"`
	GBS      int      `json:"gbs"`
	Seq      int      `json:"s"`
	TP       int      `json:"tp"`
	PP       int      `json:"pp"`
	VPP      int      `json:"vpp"`
	CP       int      `json:"cp"`
	EP       int      `json:"ep"`
	ETP      int      `json:"etp"`
	Prec     string   `json:"prec"`
	Disp     string   `json:"disp"`
	Overlap  bool     `json:"ov"`
	Delay    bool     `json:"dw"`
	Graph    int      `json:"graph"`
	RC       []string `json:"rc"`
	Since    int      `json:"sw"`
	Fuse     bool     `json:"fuse"`
	DDP      bool     `json:"ddp_ov"`
	NIC      float64  `json:"nic"` // GB/s, 0: the platform's; of EP only
	Usable   bool     `json:"fitok"`
	Tokens   float64  `json:"tok"` // measured tokens/s/GPU
}

var (
	anchorModules = map[string]layout.Modules{
		"core_attn": layout.CoreAttn, "moe_act": layout.MoEAct, "layernorm": layout.LayerNorm,
		"mla_up_proj": layout.MLAUpProj, "mlp": layout.MLP, "moe": layout.MoE, "shared_experts": layout.SharedExperts,
	}
	anchorDispatchers = map[string]layout.Dispatcher{"a2a": layout.AllToAll, "deepep": layout.DeepEP, "hybridep": layout.HybridEP}
)

// layout is the run's layout without a split, and its software.
func (c *anchorConfig) layout() (layout.Layout, Software, error) {
	l := layout.Layout{
		Degrees: folding.Degrees{World: c.N, TP: c.TP, CP: c.CP, PP: c.PP, EP: c.EP, ETP: c.ETP},
		VPP:     c.VPP, MicroBatchSize: c.MBS, GlobalBatchSize: c.GBS, SeqLength: c.Seq, SequenceParallel: c.TP > 1,
	}
	if c.Prec == "fp8" {
		l.Precision = layout.MXFP8
	}
	for _, name := range c.RC {
		l.Recompute.Granularity = layout.Selective
		if name == "full" {
			l.Recompute = layout.FullRecompute
			break
		}
		module, ok := anchorModules[name]
		if !ok {
			return l, Software{}, fmt.Errorf("recompute %q", name)
		}
		l.Recompute.Modules |= module
	}
	dispatcher, ok := anchorDispatchers[c.Disp]
	if !ok {
		return l, Software{}, fmt.Errorf("dispatcher %q", c.Disp)
	}
	return l, Software{
		Dispatcher: dispatcher, EPOverlap: c.Overlap, DelayWgrad: c.Delay, Graph: Graph(c.Graph),
		Since2606: c.Since != 0, FusedPermute: c.Fuse, OverlapDP: c.DDP,
	}, nil
}

// anchorModel is a catalogue model, or one of the cut-down ones of the SimuMax controls: n layers, the first of them
// dense.
func anchorModel(name string) (*arch.Model, error) {
	id, layers, freq := name, 0, ""
	switch name {
	case "DeepSeek-V3-noMTP":
		id, layers, freq = "deepseek-v3", 61, "([0]*3+[1]*58)"
	case "DeepSeek-V3-L4":
		id, layers, freq = "deepseek-v3", 4, "([0]*1+[1]*3)"
	case "DeepSeek-V2-L4":
		id, layers, freq = "deepseek-v2", 4, "([0]*1+[1]*3)"
	case "Llama3-70B-L12":
		id, layers = "llama3.1-70b", 12
	case "Llama3-405B-L4":
		id, layers = "llama3.1-405b", 4
	}
	m, err := arch.Lookup(id)
	if err != nil || layers == 0 {
		return m, err
	}
	cut := *m
	cut.NumLayers, cut.MTPNumLayers = layers, 0
	if m.MoE != nil {
		moe := *m.MoE
		moe.LayerFreq = arch.LayerFreq(freq)
		cut.MoE = &moe
	}
	return &cut, nil
}
