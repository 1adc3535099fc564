package megatron

import (
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// launch is what the rules of a command line look at: everything that is derived from it, once.
type launch struct {
	*Resolved
	s          *Settings
	rel        Release
	column     int // of the release in the table of flags
	checks     Checks
	o          *CheckSettings
	te, torch  version
	capability int

	model   *arch.Model       // as it stands on the command line, whether or not Validate accepts it
	layers  []arch.Layer      // nil where the kinds of the layers cannot be told
	l       layout.Layout     // VPP at least 1; Split only if it is legal
	judge   layout.Judge      // looks at all layers
	looking arch.Layer        // what judge is limited to; the zero Layer for all
	stage   int               // in build order, while the walk over the layers asks
	text    layout.Violations // what CheckSplit says of the layout string
	symbols string            // of the layout string, written out; "" where it cannot be
}

// newLaunch derives what the rules look at. Sizes may be zero or negative; only sizesPositive may be asked then.
func newLaunch(r *Resolved, o *CheckSettings) *launch {
	c := &launch{Resolved: r, s: r.Settings, rel: r.Settings.release, column: r.Settings.release.column(), checks: o.Checks, o: o, capability: o.ComputeCapability}
	if c.capability == 0 {
		c.capability = 9
	}
	te := o.TransformerEngine
	if te == "" && o.Checks != Normal {
		te = "2.9.0"
	}
	c.te, c.torch = parseVersion(te), parseVersion(o.PyTorch)
	c.model, _ = unchecked(r)
	c.l = layout.Layout{Degrees: r.Degrees, VPP: max(1, r.Pipeline.VPP), MicroBatchSize: r.Batch.MicroBatchSize,
		GlobalBatchSize: r.Batch.GlobalBatchSize, SeqLength: r.Batch.SeqLength, SequenceParallel: r.SequenceParallel,
		EPOverlap: c.on("overlap_moe_expert_parallel_comm"), Order: r.Order}
	c.l.Precision, _ = r.layoutPrecision(nil)
	c.l.Dispatcher, _ = r.layoutDispatcher(nil)
	c.l.Recompute, _ = r.layoutRecompute(nil)
	if c.none("seq_length") && c.none("encoder_seq_length") {
		c.l.SeqLength = 1 // a rule of its own
	}
	c.layers = c.model.Layers()
	c.judge = layout.NewJudge(c.model, &c.l)
	return c
}

// sane reports whether the other rules may divide by the sizes.
func (c *launch) sane() bool { return c.badSize() == "" }

// derive fills in what needs sizes of at least 1.
func (c *launch) derive() {
	if c.layoutGiven() {
		c.text = layout.CheckSplit(c.Pipeline.Layout, c.Degrees.PP, c.Shape.NumLayers, c.layoutMTP())
		if stages, ok := layout.ExpandSplit(c.Pipeline.Layout); ok {
			c.symbols = strings.Join(stages, "|")
		}
	}
	if product(c.Degrees.PP, c.l.VPP) > maxCells {
		return // no real layout; nothing is worth a million stages
	}
	if split, err := c.split(); err == nil {
		c.l.Split = split
	}
}

// layoutMTP is the number of MTP layers that a layout string has to hold: 0.13 looks at no m.
func (c *launch) layoutMTP() int {
	if !c.rel.From("0.14.0") {
		return -1
	}
	return c.Shape.MTPLayers
}

// textBroken reports whether the layout string breaks a rule of its own.
func (c *launch) textBroken(id layout.RuleID) *layout.Violation {
	for i := range c.text {
		if c.text[i].Rule == id {
			return &c.text[i]
		}
	}
	return nil
}

func (c *launch) on(dest string) bool { return c.s.Bool(dest) }

func (c *launch) int(dest string) int { return c.s.Int(dest) }

func (c *launch) str(dest string) string { return c.s.String(dest) }

func (c *launch) none(dest string) bool { return c.s.IsNone(dest) }

func (c *launch) given(dest string) bool { return c.s.IsGiven(dest) }

func (c *launch) list(dest string) []string { return c.s.Strings(dest) }

func (c *launch) has(dest, item string) bool { return slices.Contains(c.s.Strings(dest), item) }

func (c *launch) from(release string) bool { return c.rel.From(release) }

func (c *launch) layoutGiven() bool { return !c.none("pipeline_model_parallel_layout") }

func (c *launch) hybrid() bool { return c.Shape.Hybrid != nil }

func (c *launch) moe() bool { return c.Shape.NumExperts != 0 }

func (c *launch) fsdp() bool { return c.on("use_megatron_fsdp") }

func (c *launch) overlap() bool { return c.on("overlap_moe_expert_parallel_comm") }

func (c *launch) graphs() bool { return c.Graph.Impl != "none" }

func (c *launch) graphed(module string) bool { return slices.Contains(c.Graph.Modules, module) }

func (c *launch) selective() bool { return c.Recompute.Granularity == "selective" }

func (c *launch) full() bool { return c.Recompute.Granularity == "full" }

func (c *launch) offloadsLayers() bool { return c.int("cpu_offloading_num_layers") > 0 }

func (c *launch) offloads() bool { return c.on("fine_grained_activation_offloading") }

func (c *launch) local() bool { return c.str("transformer_impl") == "local" }

func (c *launch) remat() bool { return c.WeightRemat > 1 || c.ExpertWeightRemat > 1 }

// recomputes reports whether the module is recomputed selectively.
func (c *launch) recomputes(module string) bool {
	return c.selective() && slices.Contains(c.Recompute.Modules, module)
}

// vpp returns the virtual stages as the config has them: set false stands for None.
func (c *launch) vpp() (n int, set bool) { return c.Pipeline.VPP, c.Pipeline.VPP > 0 }

// counted is NumLayers with what --account-for-* counts as layers; accounted whether anything is.
func (c *launch) counted() int { return c.countedLayers() }

func (c *launch) accounted() bool { return c.Pipeline.AccountForEmbedding || c.Pipeline.AccountForLoss }

func (c *launch) uneven() bool { return c.Pipeline.First != nil || c.Pipeline.Last != nil }

// env returns a variable of the environment. Resolve's nil environment counts as empty: rules about variables that must be
// set are hazards then, because nobody said what is set.
func (c *launch) env(name string) (value string, set bool) {
	value, set = c.Env[name]
	if c.Env == nil && c.checks != Normal && name == connections {
		return "1", true
	}
	return value, set
}

// maxCells bounds the chunks that are looked at one by one.
const maxCells = 1 << 14

const connections = "CUDA_DEVICE_MAX_CONNECTIONS"

func (c *launch) isEnv(name, want string) bool {
	v, set := c.env(name)
	return set && v == want
}

// moeFreq reads --moe-layer-freq: a list, or every N-th layer.
func (c *launch) moeFreq() (list []int, every int) {
	v := c.s.Value("moe_layer_freq")
	if v.IsList() {
		return v.Ints(), 0
	}
	return nil, v.Int()
}

// dropout returns a dropout probability.
func (c *launch) dropout(dest string) float64 { return c.s.Float(dest) }
