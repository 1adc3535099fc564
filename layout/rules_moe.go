package layout

import "fmt"

// maxFlexGroup is the largest ETP*EP group that the flex dispatchers are commonly run with.
const maxFlexGroup = 64

// moeRules are about experts and the MoE mesh.
var moeRules = []Rule{
	{
		ID: "ep-needs-experts", Constraint: "84", Severity: Error, NoticedAt: AtArguments,
		Title:   "EP > 1 needs a MoE model",
		Why:     "Expert parallelism deals out experts, and a dense model has none.",
		Source:  "megatron/training/arguments.py:1656",
		axes:    axisEP,
		broken:  func(s *subject) bool { return s.l.EP > 1 && s.m.MoE == nil },
		explain: func(s *subject) finding { return found([]string{"ep1"}, "EP %d on a model without experts", s.l.EP) },
	},
	{
		ID: "ep-divides-experts", Constraint: "85", Severity: Error, NoticedAt: AtArguments,
		Title:  "EP divides the experts",
		Why:    "Each expert parallel rank holds the same number of experts, at least one (86).",
		Source: "megatron/training/arguments.py:1657",
		axes:   axisEP,
		broken: func(s *subject) bool { return s.m.MoE != nil && s.m.MoE.NumExperts%s.l.EP != 0 },
		explain: func(s *subject) finding {
			e, ep := s.m.MoE.NumExperts, s.l.EP
			return found(words("ep", NearestDivisors(e, ep)), "%s not divisible by EP %d (%d %% %d = %d)", Are(e, "expert"), ep, e, ep, e%ep)
		},
	},
	{
		ID: "bias-needs-etp-1", Constraint: "87", Severity: Error, NoticedAt: AtConfig,
		Title:  "experts with biases need ETP 1",
		Why:    "The bias of a row parallel expert projection would be added once a rank. An argv without --expert-tensor-parallel-size takes ETP = TP.",
		Source: configSource + "2614",
		axes:   axisETP,
		broken: func(s *subject) bool { return s.m.MoE != nil && s.m.LinearBias && s.l.ETP > 1 },
		explain: func(s *subject) finding {
			return found([]string{"etp1"}, "linear layers have biases, so experts cannot be cut over ETP %d", s.l.ETP)
		},
	},
	{
		ID: "moe-layer-freq", Constraint: "60", Severity: Error, NoticedAt: AtModelBuild,
		Title:   "a list of MoE layers has one 0 or 1 for each layer",
		Why:     "Neither arguments nor config look at its length; only building the model does. Dense models ignore it.",
		Source:  "megatron/core/models/gpt/gpt_layer_specs.py:653",
		broken:  func(s *subject) bool { return s.layersErr != nil },
		explain: func(s *subject) finding { return found(nil, "%v", s.layersErr) },
	},
	{
		ID: "deepep-needs-peers", Constraint: "95", Severity: Error, NoticedAt: AtModelBuild,
		Title:  "DeepEP needs ETP * EP > 1",
		Why:    "Its dispatcher has nobody to exchange tokens with otherwise.",
		Source: "megatron/core/transformer/moe/token_dispatcher.py:1836",
		axes:   axisETP | axisEP,
		broken: func(s *subject) bool { return s.moe && s.l.Dispatcher == DeepEP && s.l.ETP*s.l.EP == 1 },
		explain: func(*subject) finding {
			return found([]string{"dispatcher=alltoall", "ep2"}, "dispatcher deepep with ETP 1 * EP 1")
		},
	},
	{
		ID: "etp-divides-moe-ffn", Constraint: "20", Severity: Error, NoticedAt: AtModelBuild,
		Title:  "ETP divides the width of an expert",
		Why:    "Both expert projections are cut along it.",
		Source: divideSource,
		axes:   axisETP,
		broken: func(s *subject) bool { return s.moe && s.m.MoE != nil && s.m.MoE.FFNHiddenSize%s.l.ETP != 0 },
		explain: func(s *subject) finding {
			n := s.m.MoE.FFNHiddenSize
			return found(words("etp", NearestDivisors(n, s.l.ETP)), "expert width %d is not divisible by ETP %d (%d %% %d = %d)", n, s.l.ETP, n, s.l.ETP, n%s.l.ETP)
		},
	},
	{
		ID: "shared-experts-bias", Constraint: "88", Severity: Error, NoticedAt: AtModelBuild,
		Title:  "shared experts have no biases",
		Why:    "The shared expert is built only without them.",
		Source: "megatron/core/transformer/moe/shared_experts.py:124",
		broken: func(s *subject) bool {
			return s.moe && s.m.MoE != nil && s.m.MoE.SharedFFNSize > 0 && s.m.LinearBias
		},
		explain: func(s *subject) finding {
			return found([]string{"--disable-bias-linear"}, "shared experts of width %d in a model whose linear layers have biases", s.m.MoE.SharedFFNSize)
		},
	},
	{
		ID: "tp-divides-shared-ffn", Constraint: "19", Severity: Error, NoticedAt: AtModelBuild,
		Title:  "TP divides the width of the shared experts",
		Why:    "Shared experts run on the attention layers' tensor parallel group, not on ETP.",
		Source: divideSource,
		axes:   axisTP,
		broken: func(s *subject) bool { return s.moe && s.m.MoE != nil && s.m.MoE.SharedFFNSize%s.l.TP != 0 },
		explain: func(s *subject) finding {
			return notDivisible(s, s.m.MoE.SharedFFNSize, fmt.Sprintf("shared expert width %d is", s.m.MoE.SharedFFNSize))
		},
	},
	{
		ID: "flex-group-over-64", Severity: Advice, NoticedAt: AtMoeplan,
		Title:  "flex dispatchers run on at most 64 ranks",
		Why:    "No published layout uses DeepEP or HybridEP on a larger ETP * EP group.",
		Source: "megatron/core/transformer/moe/token_dispatcher.py:1836",
		axes:   axisETP | axisEP,
		broken: func(s *subject) bool { return s.moe && s.l.Dispatcher.Flex() && s.l.ETP*s.l.EP > maxFlexGroup },
		explain: func(s *subject) finding {
			return found([]string{fmt.Sprintf("ep%d", max(1, maxFlexGroup/s.l.ETP)), "dispatcher=alltoall"},
				"dispatcher %s over ETP %d * EP %d = %d ranks", s.l.Dispatcher, s.l.ETP, s.l.EP, s.l.ETP*s.l.EP)
		},
	},
}
