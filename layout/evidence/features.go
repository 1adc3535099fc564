package evidence

import (
	"fmt"
	"slices"
	"strings"
)

// State is how far evidence settles that a feature ran.
type State string

const (
	Proven       State = "proven"
	Contradicted State = "contradicted"
	Unproven     State = "unproven"
)

// FeatureCheck is one feature that a contract asks for.
type FeatureCheck struct {
	Path  string `json:"path"`  // of the contract
	Name  string `json:"name"`  // in words
	State State  `json:"state"` // proven, contradicted or unproven
	// By is the log line or the figure of the trace that settles it, or what would.
	By   string  `json:"by"`
	Line Ordinal `json:"line"` // of the log; null if it is not a line
	// Source says where By comes from: the framework's code that prints the line, the trace, or the configuration.
	Source string `json:"source"`
}

// hiddenShare is how much of an axis's communication must be hidden for an overlap to be proven, and barelyHidden how much
// can be without one. Ours: below a hundredth nothing overlaps, a tenth does not come by chance.
const (
	hiddenShare  = 0.10
	barelyHidden = 0.01
)

// features checks each feature that a contract asks for. What the run was configured to do can contradict one and never
// proves one.
func features(c *Contract, log *Log, trace *Trace) []FeatureCheck {
	f := &featureReader{c: c, log: log, trace: trace}
	l := &c.Layout
	if l.Dispatcher != "" && l.Dispatcher != "none" {
		f.dispatcher()
	}
	if l.EPOverlap {
		f.overlap("overlap_moe_expert_parallel_comm", "EP overlap", KindEP)
	}
	if l.SharedOverlap {
		f.overlap("moe_shared_expert_overlap", "shared expert overlap", KindEP)
	}
	if l.DelayWgrad {
		f.add("delay_wgrad_compute", "delayed weight gradients", Unproven, "no log line or kernel name shows it; compare runs with and without", fromNone)
	}
	if l.GradOverlap {
		f.overlap("overlap_grad_reduce", "gradient overlap", KindDP, OpReduceScatter, OpAllReduce)
	}
	if l.ParamOverlap {
		f.overlap("overlap_param_gather", "parameter gather overlap", KindDP, OpAllGather)
	}
	if l.TPOverlap {
		f.tensorOverlap()
	}
	switch p := c.Workload.Precision; {
	case strings.HasPrefix(p, "fp8"), p == "mxfp8":
		f.kernels("workload.precision", p+" kernels", FeatureFP8, "matrix products in FP8")
	case p == "nvfp4":
		f.kernels("workload.precision", p+" kernels", FeatureFP4, "matrix products in FP4")
	}
	if l.GraphImpl != "" && l.GraphImpl != "none" {
		f.graphs()
	}
	return f.out
}

type featureReader struct {
	c     *Contract
	log   *Log
	trace *Trace
	out   []FeatureCheck
}

func (f *featureReader) add(key, name string, s State, by, source string) {
	f.out = append(f.out, FeatureCheck{Path: path(key), Name: name, State: s, By: by, Source: source})
}

// addEvent settles a feature by a line of the log.
func (f *featureReader) addEvent(key, name string, s State, before string, e *Event) {
	f.out = append(f.out, FeatureCheck{path(key), name, s, before + e.Text, Ordinal(e.Line), e.Source})
}

// path is that of a key; without a section it is one of the layout.
func path(key string) string {
	if strings.Contains(key, ".") {
		return key
	}
	return "layout." + key
}

const (
	fromTrace  = "the trace"
	fromConfig = "the run's configuration"
	fromNone   = "the framework prints nothing that would prove it"
)

// needTrace: the framework prints nothing that would prove it.
const needTrace = "needs a profiler trace of a run under this contract"

// event finds the first event of a kind whose text holds one of the parts.
func (f *featureReader) event(kind EventKind, parts ...string) *Event {
	for i := range f.log.Events {
		e := &f.log.Events[i]
		if e.Kind != kind {
			continue
		}
		for _, p := range parts {
			if strings.Contains(e.Text, p) {
				return e
			}
		}
	}
	return nil
}

// configured contradicts a feature that the run was not configured for.
func (f *featureReader) configured(key, name, argument, want string) bool {
	got, ok := f.log.Arguments[argument]
	if !ok || got == want {
		return true
	}
	f.add(key, name, Contradicted, fmt.Sprintf("the run was configured with %s %s", argument, clipped(got)), fromConfig)
	return false
}

func (f *featureReader) dispatcher() {
	const key = "moe_token_dispatcher"
	d := f.c.Layout.Dispatcher
	name := "dispatcher " + d
	kind := d
	if d == "deepep" || d == "hybridep" {
		kind = "flex"
		if e := f.event(FeatureRefused, "Falling back to alltoall", "DeepEP", "HybridEP", "flex dispatcher"); e != nil {
			f.addEvent(key, name, Contradicted, "", e)
			return
		}
	}
	if !f.configured(key, name, "moe_token_dispatcher_type", kind) {
		return
	}
	if _, shown := f.log.Arguments["moe_flex_dispatcher_backend"]; kind == "flex" && shown && !f.configured(key, name, "moe_flex_dispatcher_backend", d) {
		return
	}
	feature := map[string]Feature{"deepep": FeatureDeepEP, "hybridep": FeatureHybridEP}[d]
	if feature != NoFeature {
		if f.trace != nil && f.trace.Features[feature.String()] == 0 && f.kind(KindEP).Kernels == 0 {
			f.add(key, name, Unproven, "the trace names no communication of expert groups", fromTrace)
			return
		}
		f.kernels(key, name, feature, "kernels of "+d)
		return
	}
	switch {
	case f.trace == nil:
		f.add(key, name, Unproven, needTrace, fromNone)
	case f.trace.Features[FeatureDeepEP.String()]+f.trace.Features[FeatureHybridEP.String()] > 0:
		f.add(key, name, Contradicted, "the trace has kernels of a flex dispatcher", fromTrace)
	default:
		f.collective(key, name, d)
	}
}

// collective settles the dispatchers that NCCL carries: all-to-all is made of sends and receives, allgather is not.
func (f *featureReader) collective(key, name, d string) {
	exchanges, gathers := f.kind(KindEP, OpSendReceive).Kernels, f.kind(KindEP, OpAllGather).Kernels
	switch {
	case f.trace.Guessed > 0 || exchanges+gathers == 0:
		f.add(key, name, Unproven, "the trace names no NCCL kernel of an expert group", fromTrace)
	case (exchanges > 0) == (d == "alltoall"):
		f.add(key, name, Proven, fmt.Sprintf("%s and %s of NCCL in expert groups", counted(exchanges, "exchange"), counted(gathers, "gather")), fromTrace)
	default:
		f.add(key, name, Contradicted, fmt.Sprintf("%s and %s of NCCL in expert groups", counted(exchanges, "exchange"), counted(gathers, "gather")), fromTrace)
	}
}

// kernels settles a feature by the kernels of a trace: there, or not there.
func (f *featureReader) kernels(key, name string, feature Feature, what string) {
	switch {
	case f.trace == nil:
		f.add(key, name, Unproven, needTrace, fromNone)
	case f.trace.Features[feature.String()] > 0:
		f.add(key, name, Proven, fmt.Sprintf("%d %s in the trace", f.trace.Features[feature.String()], what), fromTrace)
	case len(f.trace.Devices) == 0:
		f.add(key, name, Unproven, "the trace has no kernels", fromTrace)
	default:
		f.add(key, name, Contradicted, "the trace has no "+what, fromTrace)
	}
}

// kind sums up an axis over the trace's devices, by some operations or, without any, by all.
func (f *featureReader) kind(k Kind, ops ...Operation) (sum KindTrace) {
	for i := range f.trace.Devices {
		for _, t := range f.trace.Devices[i].Operations {
			if t.Kind == k && (len(ops) == 0 || slices.Contains(ops, t.Operation)) {
				sum.Kernels, sum.Total, sum.Hidden = sum.Kernels+t.Kernels, sum.Total+t.Total, sum.Hidden+t.Hidden
			}
		}
	}
	return sum
}

// overlap settles an overlap by how much of an axis's communication, by some operations or all, is hidden.
func (f *featureReader) overlap(key, name string, k Kind, ops ...Operation) {
	if e := f.event(FeatureRefused, "Disabling MoE expert-parallel communication overlap"); e != nil && key == "overlap_moe_expert_parallel_comm" {
		f.addEvent(key, name, Contradicted, "", e)
		return
	}
	if !f.configured(key, name, key, "True") {
		return
	}
	if f.trace == nil {
		f.add(key, name, Unproven, needTrace, fromNone)
		return
	}
	sum := f.kind(k, ops...)
	hidden := part(sum.Hidden, sum.Total)
	what := k.String()
	for i, op := range ops {
		what += []string{" ", " and "}[min(i, 1)] + op.String()
	}
	text := fmt.Sprintf("%s of %s communication is hidden in the trace", percent(hidden), what)
	switch {
	case sum.Total == 0:
		f.add(key, name, Unproven, fmt.Sprintf("the trace has no %s communication that is named", what), fromTrace)
	case hidden >= hiddenShare:
		f.add(key, name, Proven, text, fromTrace)
	case hidden <= barelyHidden:
		f.add(key, name, Contradicted, text, fromTrace)
	default:
		f.add(key, name, Unproven, text, fromTrace)
	}
}

func (f *featureReader) tensorOverlap() {
	const key, name = "tp_comm_overlap", "TP overlap"
	if e := f.event(FeatureRefused, "Disabling tensor parallel communication overlap"); e != nil {
		f.addEvent(key, name, Contradicted, "", e)
	} else if f.configured(key, name, key, "True") {
		f.kernels(key, name, FeatureUserBuffers, "userbuffers kernels")
	}
}

// graphs: a capture is no replay; a trace shows the launches of graphs.
func (f *featureReader) graphs() {
	const key, name = "cuda_graph_impl", "graph replay"
	if e := f.event(GraphSkipped, ""); e != nil {
		f.addEvent(key, name, Contradicted, "", e)
		return
	}
	if f.trace != nil {
		f.kernels(key, name, FeatureGraphReplay, "graph launches")
		return
	}
	if e := f.event(GraphCaptured, ""); e != nil {
		f.addEvent(key, name, Unproven, "captured, replay not shown: ", e)
		return
	}
	f.add(key, name, Unproven, needTrace, fromNone)
}

// Checkpoint is what a log shows of checkpoints.
type Checkpoint struct {
	Saved  int  `json:"saved"`  // how many were saved
	Loaded bool `json:"loaded"` // whether one was loaded
	// Optimizer says whether the optimizer's state was among what was saved and loaded, as far as the configuration tells.
	Optimizer bool `json:"optimizer_state"`
	// Checked: one was saved and one loaded, with the optimizer's state.
	Checked bool   `json:"checked"`
	Text    string `json:"text"` // what was seen, in one sentence
}

func checkpoint(log *Log) Checkpoint {
	var c Checkpoint
	missing := false
	for i := range log.Events {
		switch log.Events[i].Kind {
		case CheckpointSaved:
			c.Saved++
		case CheckpointLoaded:
			c.Loaded = true
		case CheckpointMissing:
			missing = true
		}
	}
	off := ""
	for _, name := range []string{"no_save_optim", "no_load_optim", "finetune"} {
		if log.Arguments[name] == "True" {
			off = name
		}
	}
	c.Optimizer = off == ""
	c.Checked = c.Saved > 0 && c.Loaded && c.Optimizer
	switch {
	case c.Checked:
		c.Text = "saved and loaded with the optimizer's state"
	case off != "" && (c.Saved > 0 || c.Loaded):
		c.Text = "optimizer state not checked: the run was configured with " + off
	case c.Saved > 0:
		c.Text = fmt.Sprintf("not checked: saved %d, never loaded", c.Saved)
	case c.Loaded:
		c.Text = "not checked: loaded, never saved"
	case missing:
		c.Text = "not checked: none was found to load, none was saved"
	default:
		c.Text = "not checked: the log shows none saved and none loaded"
	}
	return c
}
