package layout

import "strings"

// recomputeRules are about what is recomputed (reference section 2.9).
var recomputeRules = []Rule{
	{
		ID: "recompute-selective-method", Constraint: "2.9", Severity: Error, NoticedAt: AtArguments,
		Title:  "selective recompute has no method",
		Why:    "Block and uniform say which layers full recompute covers.",
		Source: "megatron/training/arguments.py:1426",
		axes:   axisRecompute,
		broken: func(s *subject) bool { return s.l.Recompute.Granularity == Selective && s.l.Recompute.Block },
		explain: func(*subject) finding {
			return found([]string{"recompute=full:block:1"}, "selective recompute with method block")
		},
	},
	{
		ID: "recompute-full-layers", Constraint: "2.9", Severity: Error, NoticedAt: AtConfig,
		Title:  "full recompute has a number of layers",
		Why:    "Uniform needs the layers per checkpoint, block the layers recomputed per chunk.",
		Source: configSource + "1920",
		axes:   axisRecompute,
		broken: func(s *subject) bool { return s.l.Recompute.Granularity == Full && s.l.Recompute.NumLayers < 1 },
		explain: func(s *subject) finding {
			return found([]string{"recompute=full"}, "full recompute over %d layers", s.l.Recompute.NumLayers)
		},
	},
	{
		ID: "recompute-selective-layers", Constraint: "2.9", Severity: Error, NoticedAt: AtConfig,
		Title:  "selective recompute has no number of layers",
		Why:    "It covers its modules in every layer.",
		Source: configSource + "1929",
		axes:   axisRecompute,
		broken: func(s *subject) bool { return s.l.Recompute.Granularity == Selective && s.l.Recompute.NumLayers != 0 },
		explain: func(s *subject) finding {
			return found([]string{"recompute=" + s.l.Recompute.String()}, "selective recompute over %d layers", s.l.Recompute.NumLayers)
		},
	},
	{
		ID: "recompute-moe-act-needs-experts", Constraint: "2.9", Severity: Error, NoticedAt: AtConfig,
		Title:  "recompute of moe_act needs experts",
		Why:    "It frees the output of the grouped experts' activation and is refused without --moe-grouped-gemm.",
		Source: configSource + "1965",
		axes:   axisRecompute,
		broken: func(s *subject) bool { return s.l.Recompute.Has(MoEAct) && s.m.MoE == nil },
		explain: func(s *subject) finding {
			return found(without(s, MoEAct), "recompute of moe_act on a model without experts")
		},
	},
	{
		ID: "recompute-mla-up-proj-needs-mla", Constraint: "2.9", Severity: Error, NoticedAt: AtConfig,
		Title:  "recompute of mla_up_proj needs MLA",
		Why:    "Other attention has no up projection.",
		Source: configSource + "1970",
		axes:   axisRecompute,
		broken: func(s *subject) bool { return s.l.Recompute.Has(MLAUpProj) && s.m.MLA == nil },
		explain: func(s *subject) finding {
			return found(without(s, MLAUpProj), "recompute of mla_up_proj on a model without MLA")
		},
	},
	{
		ID: "recompute-no-effect", Severity: Advice, NoticedAt: AtMoeplan,
		Title:  "every recomputed module occurs in the model",
		Why:    "mlp works only on dense layers, moe only on MoE layers, shared_experts only where there are some; elsewhere they are ignored.",
		Source: configSource + "1902",
		axes:   axisRecompute,
		broken: func(s *subject) bool { return idleModules(s) != 0 },
		explain: func(s *subject) finding {
			idle := idleModules(s)
			return found(without(s, idle), "recompute of %s has no effect on this model", strings.ReplaceAll(idle.String(), ",", ", "))
		},
	},
	{
		ID: "recompute-core-attn", Severity: Advice, NoticedAt: AtMoeplan,
		Title:  "core_attn is not recomputed",
		Why:    "Fused attention already recomputes its scores in the backward pass; recomputing it again costs time and saves next to nothing.",
		Source: configSource + "1902",
		axes:   axisRecompute,
		broken: func(s *subject) bool { return s.l.Recompute.Has(CoreAttn) },
		explain: func(s *subject) finding {
			return found(without(s, CoreAttn), "recompute of core_attn with fused attention")
		},
	},
}

// idleModules are the recomputed modules that no layer of the model has, apart from those that are refused.
func idleModules(s *subject) (idle Modules) {
	r := s.l.Recompute
	if r.Has(MLP) && !s.dense {
		idle |= MLP
	}
	if r.Has(MoE) && !s.moe {
		idle |= MoE
	}
	if r.Has(SharedExperts) && (!s.moe || s.m.MoE == nil || s.m.MoE.SharedFFNSize == 0) {
		idle |= SharedExperts
	}
	return idle
}

// without names the layout's recompute less some modules.
func without(s *subject, m Modules) []string {
	r := Recompute{Granularity: Selective, Modules: s.l.Recompute.Modules &^ m}
	if r.Modules == 0 {
		r = Recompute{}
	}
	return []string{"recompute=" + r.String()}
}
