package layout

import "fmt"

// pipelineRules are about PP and VPP where Megatron places the layers itself (Split nil), and about the interleaved
// schedule.
var pipelineRules = []Rule{
	{
		ID: "pp-divides-layers", Constraint: "44", Severity: Error, NoticedAt: AtArguments,
		Title:  "PP divides the layers where no split is given",
		Why:    "Megatron's own placement gives every pipeline rank the same number of decoder layers. A layout string may be ragged.",
		Source: "megatron/training/arguments.py:997",
		axes:   axisPP | axisVPP,
		broken: func(s *subject) bool { return s.l.Split == nil && s.m.NumLayers%s.l.PP != 0 },
		explain: func(s *subject) finding {
			return found(append(words("pp", NearestDivisors(s.m.NumLayers, s.l.PP)), suggestedSplit(s)...),
				"%s not divisible by PP %d (%d %% %d = %d)", Are(s.m.NumLayers, "layer"), s.l.PP, s.m.NumLayers, s.l.PP, s.m.NumLayers%s.l.PP)
		},
	},
	{
		ID: "vpp-divides-layers", Constraint: "47", Severity: Error, NoticedAt: AtModelBuild,
		Title:  "VPP divides the layers of a pipeline rank where no split is given",
		Why:    "Megatron's own placement gives every chunk the same number of decoder layers. A layout string may be ragged.",
		Source: "megatron/core/transformer/transformer_block.py:176",
		axes:   axisPP | axisVPP,
		broken: func(s *subject) bool {
			return s.l.Split == nil && s.m.NumLayers%s.l.PP == 0 && s.m.NumLayers/s.l.PP%s.l.VPP != 0
		},
		explain: func(s *subject) finding {
			n := s.m.NumLayers / s.l.PP
			return found(append(words("vpp", NearestDivisors(n, s.l.VPP)), suggestedSplit(s)...),
				"%s / PP %d = %d on a rank, not divisible by VPP %d", Count(s.m.NumLayers, "layer"), s.l.PP, n, s.l.VPP)
		},
	},
	{
		ID: "vpp-needs-pp", Constraint: "51", Severity: Error, NoticedAt: AtArguments,
		Title:   "VPP > 1 needs PP > 1",
		Why:     "Chunks are interleaved between pipeline ranks.",
		Source:  "megatron/training/arguments.py:1002",
		axes:    axisPP | axisVPP,
		broken:  func(s *subject) bool { return s.l.VPP > 1 && s.l.PP == 1 },
		explain: func(s *subject) finding { return found([]string{"vpp1", "pp2"}, "VPP %d at PP 1", s.l.VPP) },
	},
	{
		ID: "vpp-microbatches", Constraint: "53", Severity: Error, NoticedAt: AtSchedule,
		Title:  "with VPP the micro-batches are a multiple of PP",
		Why:    "The interleaved schedule sends them through in groups of PP (the default of --microbatch-group-size-per-virtual-pipeline-stage); a remainder smaller than PP cannot be scheduled.",
		Source: "megatron/core/pipeline_parallel/schedules.py:1168",
		axes:   axisTP | axisCP | axisPP | axisVPP | axisMBS,
		broken: func(s *subject) bool {
			if s.l.VPP == 1 {
				return false
			}
			n, ok := microbatches(s.l)
			return ok && (n < s.l.PP || n%s.l.PP != 0)
		},
		explain: func(s *subject) finding {
			l := s.l
			n, _ := microbatches(l)
			return found(append(words("gbs=", NearestMultiples(l.MicroBatchSize*l.DP()*l.PP, l.GlobalBatchSize)), "vpp1"),
				"%s (GBS %d / (MBS %d * DP %d)), not a multiple of PP %d", Count(n, "micro-batch"), l.GlobalBatchSize, l.MicroBatchSize, l.DP(), l.PP)
		},
	},
	{
		ID: "pipeline-underfilled", Constraint: "54", Severity: Advice, NoticedAt: AtSchedule,
		Title:  "there are at least as many micro-batches as pipeline ranks",
		Why:    "With fewer, ranks wait most of the time. The schedule without VPP allows it.",
		Source: "megatron/core/pipeline_parallel/schedules.py:2278",
		axes:   axisTP | axisCP | axisPP | axisVPP | axisMBS,
		broken: func(s *subject) bool {
			n, ok := microbatches(s.l)
			return ok && s.l.VPP == 1 && n < s.l.PP
		},
		explain: func(s *subject) finding {
			n, _ := microbatches(s.l)
			return found([]string{fmt.Sprintf("gbs=%d", s.l.MicroBatchSize*s.l.DP()*s.l.PP), "a smaller pp"}, "%s on PP %d", Count(n, "micro-batch"), s.l.PP)
		},
	},
}

// suggestedSplit offers BalancedSplit's layout string.
func suggestedSplit(s *subject) []string {
	if p := BalancedSplit(s.m, s.l.PP, s.l.VPP); p != nil {
		return []string{"split=" + p.String()}
	}
	return nil
}
