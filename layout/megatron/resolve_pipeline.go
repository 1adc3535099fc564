package megatron

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// HybridPattern is a hybrid model's layer pattern, taken apart.
type HybridPattern struct {
	// Segments are the parts of the main pattern between the pipes, one letter a layer; one if there are no pipes.
	Segments []string
	// MTP is the pattern of one MTP depth, "" without; Depths how many there are. Depths whose patterns differ are refused
	// upstream: Mixed says so.
	MTP    string
	Depths int
	Mixed  bool
}

// Main is the main pattern without pipes: one letter a decoder layer.
func (h *HybridPattern) Main() string { return strings.Join(h.Segments, "") }

// hybrid: arguments.py:749-918, core/models/hybrid/hybrid_layer_allocation.py. The pattern decides the number of layers
// from 0.17.1 on; before that --num-layers does and has to agree with it.
func (r *Resolved) hybrid() {
	s, m := r.Settings, &r.Shape
	pattern := s.Value("hybrid_layer_pattern")
	if pattern.IsNone() {
		pattern = s.Value("hybrid_override_pattern")
	}
	mtp := s.Value("mtp_hybrid_override_pattern")
	text := pattern.Text()
	if n := m.MTPLayers; !mtp.IsNone() && n > 0 && n <= layout.MaxSize>>10 && (pattern.IsNone() || !strings.Contains(text, "/")) {
		if len(mtp.Text()) > arch.MaxLayers {
			n = 1 // one is enough for Model to refuse it
		}
		text += strings.Repeat("/"+mtp.Text(), n)
	} else if pattern.IsNone() {
		return
	}
	parts := strings.Split(text, "/")
	h := &HybridPattern{Segments: strings.Split(parts[0], "|")}
	if len(parts) > 1 && strings.Trim(text[len(parts[0]):], "/") != "" {
		h.MTP, h.Depths = parts[1], len(parts)-1
		for _, p := range parts[2:] {
			h.Mixed = h.Mixed || p != h.MTP
		}
		if m.MTPGiven && m.MTPLayers != h.Depths {
			r.change("--mtp-num-layers", strconv.Itoa(m.MTPLayers), strconv.Itoa(h.Depths), "the hybrid layer pattern says so", "megatron/training/arguments.py:868")
		}
		m.MTPLayers, m.MTPGiven = h.Depths, true
	}
	m.Hybrid = h
	if strings.ContainsAny(text, "+D") {
		m.Latent = true
	}
	if s.Has("hybrid_layer_pattern") {
		n := len(h.Main())
		if !s.IsNone("num_layers") && m.NumLayers != n {
			r.change("--num-layers", strconv.Itoa(m.NumLayers), strconv.Itoa(n), "the hybrid layer pattern has that many letters", "megatron/training/arguments.py:786")
		}
		m.NumLayers = n
	}
}

// pipeline: arguments.py:836-1015, model_parallel_config.py:567.
func (r *Resolved) pipeline() {
	s, p := r.Settings, &r.Pipeline
	p.Layout = s.String("pipeline_model_parallel_layout")
	p.First = optional(s, "decoder_first_pipeline_num_layers")
	p.Last = optional(s, "decoder_last_pipeline_num_layers")
	p.AccountForEmbedding = s.Bool("account_for_embedding_in_pipeline_split")
	p.AccountForLoss = s.Bool("account_for_loss_in_pipeline_split")
	p.GroupSize = s.IntOr("microbatch_group_size_per_vp_stage", r.Degrees.PP)
	p.VPP, p.From = r.virtual()
	if p.VPP == 1 && (p.From == hybridPatternFlag || s.release.From("0.14.0") || p.From == layoutFlag) {
		p.VPP = 0
	}
	r.OverlapP2P = p.VPP > 0 && s.Bool("overlap_p2p_comm")
}

const (
	layoutFlag        = "--pipeline-model-parallel-layout"
	perStageFlag      = "--num-layers-per-virtual-pipeline-stage"
	virtualStagesFlag = "--num-virtual-stages-per-pipeline-rank"
	hybridPatternFlag = "--hybrid-layer-pattern"
)

// virtual finds the flag that sets VPP and what it says, 0 where arithmetic does not define it.
func (r *Resolved) virtual() (vpp int, from string) {
	s, pp := r.Settings, r.Degrees.PP
	perStage, stages := optional(s, "num_layers_per_virtual_pipeline_stage"), optional(s, "num_virtual_stages_per_pipeline_rank")
	h := r.Shape.Hybrid
	switch {
	case !s.IsNone("pipeline_model_parallel_layout"):
		n, ok := layoutStages(s.String("pipeline_model_parallel_layout"))
		if !ok || pp < 1 || n%pp != 0 {
			return 0, layoutFlag
		}
		return n / pp, layoutFlag
	case stages != nil:
		return max(0, *stages), virtualStagesFlag
	case perStage != nil:
		n := r.countedLayers()
		if pp < 1 || *perStage < 1 || n%pp != 0 || n/pp%*perStage != 0 {
			return 0, perStageFlag
		}
		return n / pp / *perStage, perStageFlag
	case h != nil && len(h.Segments) > 1:
		if n := len(h.Segments); pp > 0 && n%pp == 0 {
			return n / pp, hybridPatternFlag
		}
		return 0, hybridPatternFlag
	}
	return 0, ""
}

// countedLayers are the decoder layers plus what --account-for-* counts as a layer.
func (r *Resolved) countedLayers() int {
	n := r.Shape.NumLayers
	if r.Pipeline.AccountForEmbedding {
		n++
	}
	if r.Pipeline.AccountForLoss {
		n++
	}
	return n
}

// repeated finds (text)*N and then x*N (megatron/core/transformer/pipeline_parallel_layer_layout.py:268-282).
var repeated = [...]*regexp.Regexp{regexp.MustCompile(`\(([^)]+)\)\*(\d+)`), regexp.MustCompile(`(.)\*(\d+)`)}

// maxLayoutSymbols bounds a layout string after its repetitions are written out, as layout.ParseSplit does.
const maxLayoutSymbols = 1 << 16

// layoutStages counts the stages of a layout string. Only its pipes matter, so that a string that breaks rules has stages
// too; layout.ParseSplit says what else is wrong.
func layoutStages(text string) (int, bool) {
	text = strings.ReplaceAll(text, ",", "")
	for _, re := range repeated {
		var b strings.Builder
		rest := 0
		for _, at := range re.FindAllStringSubmatchIndex(text, -1) {
			unit := text[at[2]:at[3]]
			n, err := strconv.Atoi(text[at[4]:at[5]])
			b.WriteString(text[rest:at[0]])
			if err != nil || n > maxLayoutSymbols || b.Len()+n*len(unit) > maxLayoutSymbols {
				return 0, false
			}
			b.WriteString(strings.Repeat(unit, n))
			rest = at[1]
		}
		b.WriteString(text[rest:])
		text = b.String()
	}
	return 1 + strings.Count(text, "|"), true
}

func optional(s *Settings, dest string) *int {
	v := s.Value(dest)
	if v.IsNone() {
		return nil
	}
	n := v.Int()
	return &n
}
