package plan

import (
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/recipes"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

// maxReplaySequence is the longest sequence of the replay: above, layouts are chosen for memory alone and the records
// contradict each other (ranking-findings 7: TP 16 to 64 across nodes against the card's CP).
const maxReplaySequence = 8192

// question is what one published layout answers: the model, the machine, the batch and the software are its own; the
// layout is what is compared.
type question struct {
	recipe   *recipes.Recipe
	model    *arch.Model
	platform *topology.Platform
	layout   layout.Layout
	software steptime.Software
	memory   memmodel.Run
	time     steptime.Run
	offload  bool // moves activations or optimizer state to the host, which is not priced
	// anyRecompute says that the record does not state recompute: the first rung that fits is taken.
	anyRecompute bool
}

// stated builds the model and the layout of a record, or says what it leaves open.
func stated(r *recipes.Recipe) (*question, string) {
	switch {
	case r.About == "":
		return nil, "the catalogue has no such model"
	case strings.Contains(" "+r.Overrides, " num_layers="):
		return nil, "overridden shapes"
	case r.GlobalBatch == 0 || r.MicroBatch == 0 || r.Sequence == 0 || r.GPUs == 0 || r.TP == 0 || r.PP == 0:
		return nil, "batch, GPUs or degrees not stated"
	case r.Precision == "":
		return nil, "precision not stated"
	}
	q := &question{recipe: r, offload: offloads(r)}
	var err error
	if q.model, err = modelOf(r); err != nil {
		return nil, "the catalogue has no such model"
	}
	if q.layout, err = q.published(); err != nil {
		return nil, "layout string that does not fit the model"
	}
	return q, ""
}

// asked turns a record into a question that can be priced, or says why it is none.
func asked(r *recipes.Recipe) (*question, string) {
	switch {
	case r.Platform() == "":
		return nil, "the catalogue has no such GPU"
	case !r.Pretraining():
		return nil, "fine-tuning"
	case r.FSDP:
		return nil, "FSDP"
	case r.Sequence > maxReplaySequence:
		return nil, "sequences beyond 8192"
	}
	q, why := stated(r)
	if q == nil {
		return nil, why
	}
	var err error
	if q.platform, err = topology.LookupPlatform(r.Platform()); err != nil {
		return nil, "the catalogue has no such GPU"
	}
	if memmodel.Supported(q.model) != nil || steptime.ModelFLOPs(q.model, 1) == 0 {
		return nil, "layers that are not modelled"
	}
	q.sides()
	return q, ""
}

// offloads reports whether a record offloads anything. A paged stash is a spill buffer that balanced routing does not
// touch.
func offloads(r *recipes.Recipe) bool {
	for word := range strings.FieldsSeq(r.Offload) {
		if word != "moe_paged_stash" {
			return true
		}
	}
	return false
}

// modelOf is the catalogue's model with the record's number of MTP layers, and positions for its sequences.
func modelOf(r *recipes.Recipe) (*arch.Model, error) {
	m, err := arch.Lookup(r.About)
	if err != nil {
		return nil, err
	}
	mtp := m.MTPNumLayers
	switch {
	case r.Split != "":
		mtp = strings.Count(r.Split, "m")
	case r.MTP != nil:
		mtp = *r.MTP
	case strings.Contains(r.Routing, "w/o MTP"):
		mtp = 0
	default:
		for word := range strings.FieldsSeq(r.Overrides) {
			if n, ok := strings.CutPrefix(word, "mtp_num_layers="); ok {
				mtp, _ = strconv.Atoi(n)
			}
		}
	}
	positions := m.MaxPositionEmbeddings
	if positions > 0 {
		positions = max(positions, r.Sequence)
	}
	if mtp == m.MTPNumLayers && positions == m.MaxPositionEmbeddings {
		return m, nil
	}
	other := *m
	other.MTPNumLayers, other.MaxPositionEmbeddings = mtp, positions
	return &other, nil
}

// published is the record's layout. What it leaves open takes Bridge's defaults: CP, VPP, EP and ETP 1, sequence parallelism
// with TP; the split is the balanced one, because the recipes' own is even or accounts for embedding and loss.
func (q *question) published() (layout.Layout, error) {
	r := q.recipe
	l := layout.Layout{
		Degrees: folding.Degrees{World: r.GPUs, TP: r.TP, CP: max(1, r.CP), PP: r.PP, EP: max(1, r.EP), ETP: max(1, r.ETP)},
		VPP:     max(1, r.VPP), MicroBatchSize: r.MicroBatch, GlobalBatchSize: r.GlobalBatch, SeqLength: r.Sequence,
		SequenceParallel: r.TP > 1,
	}
	var err error
	if l.Precision, err = layout.ParsePrecision(r.Precision); err != nil {
		return l, err
	}
	q.anyRecompute = r.Recompute == ""
	if r.Recompute != "" {
		if l.Recompute, err = layout.ParseRecompute(r.Recompute); err != nil {
			return l, err
		}
	}
	if r.Split != "" {
		if l.Split, err = layout.ParseSplit(r.Split, l.PP, q.model.MTPNumLayers); err != nil {
			return l, err
		}
		l.VPP = l.Split.VPP
	} else {
		l.Split = layout.BalancedSplit(q.model, l.PP, l.VPP)
	}
	return l, nil
}

// sides fills in software, memory and time runs. The record decides. What it leaves open is: the dispatcher, alltoall on
// B200 and B300 in releases before 26.04, which shipped without a flex backend that ran there (comm-model 5.2), else the
// flex backend of the platform; TP overlap, on for dense models but in NVFP4, as in every dense recipe that states it; and
// the optimizer, Adam, gradients reduced in bf16 and fp32 moments, bf16 for MLA models, as in benchmark recipes (recipes.md).
func (q *question) sides() {
	r := q.recipe
	blackwell := strings.HasPrefix(q.platform.Arch, "blackwell")
	sw := steptime.BringUp()
	switch r.Dispatcher {
	case "alltoall":
	case "deepep":
		sw.Dispatcher = layout.DeepEP
	case "hybridep":
		sw.Dispatcher = layout.HybridEP
	default:
		_, release, _ := strings.Cut(r.Container, "nemo:")
		switch {
		case !blackwell:
			sw.Dispatcher = layout.DeepEP
		case q.platform.Domain.Int() > 8 || release == "" || release >= "26.04":
			sw.Dispatcher = layout.HybridEP
		}
	}
	sw.EPOverlap = r.EPOverlap != nil && *r.EPOverlap
	sw.DelayWgrad = sw.EPOverlap && r.DelayWgrad != nil && *r.DelayWgrad
	sw.TPOverlap = q.model.MoE == nil && r.Precision != "nvfp4"
	if r.TPOverlap != nil {
		sw.TPOverlap = *r.TPOverlap
	}
	switch r.Graphs {
	case "router":
		sw.Graph = steptime.RouterGraph
	case "attn":
		sw.Graph = steptime.AttnGraph
	case "full-iteration": // the fused kernels came with these graphs, and the recipes that use one use both
		sw.Graph, sw.Since2606 = steptime.FullIteration, true
	}
	q.software = sw

	opt := r
	if opt.GradsFP32 == nil {
		if twin := sameRecipe(r); twin != nil {
			opt = twin
		}
	}
	bf16Moments := opt.Moments == "bf16" || opt.Moments == "" && opt.GradsFP32 == nil && q.model.MLA != nil
	run := memmodel.DefaultRun(int(q.platform.SM.Value))
	run.ExpandableSegments = true // NVIDIA-NeMo/Megatron-Bridge@067f987df docs/performance-guide.md
	if d := q.platform.Domain; d.Known {
		run.DomainSize = d.Int()
	}
	run.GradientBytes = 2
	if opt.GradsFP32 != nil && *opt.GradsFP32 {
		run.GradientBytes = 4
	}
	run.PrecisionAware = bf16Moments || opt.PrecisionAware != nil && *opt.PrecisionAware
	if bf16Moments {
		run.MomentBytes = 2
	}
	if run.PrecisionAware && q.layout.Precision == layout.BF16 {
		run.MasterBytes = 2
	}
	if strings.Contains(r.Optimizer, "muon") { // Bridge's dist_muon deals whole matrices to the data parallel ranks
		run.Optimizer, run.DistributedOptimizer = memmodel.Muon, false
		run.LayerWise = strings.HasPrefix(r.Optimizer, "dist_")
	}
	if opt.CrossEntropy == "te" || opt.CrossEntropy == "" && !strings.HasPrefix(string(r.Kind), "modelzoo") {
		run.CrossEntropy = memmodel.TEFusedBF16CE // every benchmark recipe that states it
	}
	q.memory = run
	q.time = steptime.DefaultRun()
	q.time.GradBytes = run.GradientBytes
	if bf16Moments {
		q.time.OptimizerBytes = 20 // comm-model 4.5
	}
}

// sameRecipe returns the executed recipe that a table row is matched with, or nil.
func sameRecipe(r *recipes.Recipe) *recipes.Recipe {
	if r.Recipe == "" {
		return nil
	}
	for _, o := range recipes.Find(recipes.Query{About: r.About, GPU: r.GPU}) {
		if o.Kind == recipes.BenchmarkRecipe && o.Recipe == r.Recipe {
			return o
		}
	}
	return nil
}

// identity is what two records of one layout have in common: everything that changes a price.
func (q *question) identity() string {
	return strings.Join([]string{q.model.ID, q.platform.ID, q.layout.Key(), q.software.Dispatcher.String(), q.software.Graph.String(),
		q.recipe.Precision, flag(q.software.EPOverlap)}, " ")
}

func flag(on bool) string {
	if on {
		return "overlap"
	}
	return ""
}
