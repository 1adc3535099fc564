package layout

// routerRules are about the router's options, which belong to the model.
var routerRules = []Rule{
	{
		ID: "router-expert-bias", Constraint: "107", Severity: Error, NoticedAt: AtConfig,
		Title:  "a router with expert bias scores by sigmoid or sqrtsoftplus",
		Why:    "The bias shifts independent scores; softmax scores are not independent.",
		Source: configSource + "2621",
		broken: func(s *subject) bool {
			e := s.m.MoE
			return e != nil && e.RouterExpertBias && e.RouterScoreFunction != "sigmoid" && e.RouterScoreFunction != "sqrtsoftplus"
		},
		explain: func(s *subject) finding {
			return found([]string{"--moe-router-score-function sigmoid"}, "expert bias with score function %q", s.m.MoE.RouterScoreFunction)
		},
	},
	{
		ID: "router-topk-1-softmax", Constraint: "107", Severity: Error, NoticedAt: AtConfig,
		Title:  "top-1 routing by softmax applies softmax before the selection",
		Why:    "A softmax over one selected expert is always 1, and the router would not learn.",
		Source: configSource + "2669",
		broken: func(s *subject) bool {
			e := s.m.MoE
			return e != nil && e.TopK == 1 && (e.RouterScoreFunction == "softmax" || e.RouterScoreFunction == "") &&
				!e.RouterPreSoftmax && e.LoadBalancing != "sinkhorn"
		},
		explain: func(*subject) finding {
			return found([]string{"--moe-router-pre-softmax"}, "top-1 routing with softmax after the selection")
		},
	},
	{
		ID: "router-groups", Constraint: "107", Severity: Error, NoticedAt: AtConfig,
		Title:  "group-limited routing: groups divide the experts, and no more groups are selected than exist",
		Why:    "Experts are first selected by group, then inside the selected groups.",
		Source: configSource + "2682",
		broken: func(s *subject) bool {
			e := s.m.MoE
			return e != nil && e.RouterGroupTopK > 0 &&
				(e.RouterNumGroups < 1 || e.NumExperts%e.RouterNumGroups != 0 || e.RouterGroupTopK > e.RouterNumGroups)
		},
		explain: func(s *subject) finding {
			e := s.m.MoE
			return found(nil, "%d experts in %d groups, of which %d are selected", e.NumExperts, e.RouterNumGroups, e.RouterGroupTopK)
		},
	},
}
