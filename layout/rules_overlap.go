package layout

// overlapRules are about --overlap-moe-expert-parallel-comm (reference rule 114), in the order of the config's checks.
var overlapRules = []Rule{
	{
		ID: "overlap-needs-vpp", Constraint: "114", Severity: Error, NoticedAt: AtConfig,
		Title:  "EP overlap with PP > 1 needs VPP > 1",
		Why:    "It runs the forward of one micro-batch beside the backward of another, which the schedule offers only when interleaved.",
		Source: configSource + "3008",
		axes:   axisPP | axisVPP,
		broken: func(s *subject) bool { return s.l.EPOverlap && s.l.PP > 1 && s.l.VPP == 1 },
		explain: func(s *subject) finding {
			return found([]string{"vpp2", "overlap=off"}, "EP overlap at PP %d and VPP 1", s.l.PP)
		},
	},
	{
		ID: "overlap-needs-ep", Constraint: "114", Severity: Error, NoticedAt: AtConfig,
		Title:   "EP overlap needs EP > 1",
		Why:     "There is no exchange to hide otherwise.",
		Source:  configSource + "3014",
		axes:    axisEP,
		broken:  func(s *subject) bool { return s.l.EPOverlap && s.l.EP == 1 },
		explain: func(*subject) finding { return found([]string{"ep2", "overlap=off"}, "EP overlap at EP 1") },
	},
	{
		ID: "overlap-needs-all-to-all", Constraint: "114", Severity: Error, NoticedAt: AtConfig,
		Title:  "EP overlap needs the alltoall or a flex dispatcher",
		Why:    "The allgather dispatcher has no separate dispatch and combine to overlap.",
		Source: configSource + "3016",
		broken: func(s *subject) bool { return s.l.EPOverlap && s.l.Dispatcher == AllGather },
		explain: func(*subject) finding {
			return found([]string{"dispatcher=alltoall", "overlap=off"}, "EP overlap with dispatcher allgather")
		},
	},
	{
		ID: "overlap-full-recompute", Constraint: "114", Severity: Error, NoticedAt: AtConfig,
		Title:  "EP overlap excludes full recompute",
		Why:    "The overlapped schedule takes layers apart, and a checkpoint around a whole layer hides its parts.",
		Source: configSource + "3022",
		axes:   axisRecompute,
		broken: func(s *subject) bool { return s.l.EPOverlap && s.l.Recompute.Granularity == Full },
		explain: func(*subject) finding {
			return found([]string{"recompute=moe_act,layernorm", "overlap=off"}, "EP overlap with full recompute")
		},
	},
	{
		ID: "overlap-moe-recompute", Constraint: "114", Severity: Error, NoticedAt: AtConfig,
		Title:  "EP overlap excludes recompute of whole MoE layers",
		Why:    "A checkpoint around the MoE layer hides the exchange that is to be overlapped.",
		Source: configSource + "3031",
		axes:   axisRecompute,
		broken: func(s *subject) bool { return s.l.EPOverlap && s.l.Recompute.Has(MoE) },
		explain: func(s *subject) finding {
			return found(append(without(s, MoE), "overlap=off"), "EP overlap with recompute of moe")
		},
	},
	{
		ID: "overlap-mtp-layers", Constraint: "114", Severity: Error, NoticedAt: AtConfig,
		Title:  "EP overlap allows at most one MTP layer",
		Why:    "The overlapped schedule knows one.",
		Source: configSource + "3042",
		broken: func(s *subject) bool { return s.l.EPOverlap && s.m.MTPNumLayers > 1 },
		explain: func(s *subject) finding {
			return found([]string{"--mtp-num-layers 1", "overlap=off"}, "EP overlap with %d MTP layers", s.m.MTPNumLayers)
		},
	},
}
