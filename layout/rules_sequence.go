package layout

import (
	"fmt"

	"github.com/moeplan/moeplan/layout/arch"
)

const teContextParallel = "TransformerEngine@d0067d0da transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py:"

// sequenceRules are about the sequence: sequence parallelism, its length, context parallelism.
var sequenceRules = []Rule{
	{
		ID: "cp-divides-sequence", Constraint: "32", Severity: Error, NoticedAt: AtArguments,
		Title:  "2 * CP divides the sequence length",
		Why:    "Each context parallel rank takes one chunk from the front and one from the back, so that causal attention is balanced.",
		Source: "megatron/training/arguments.py:1336",
		axes:   axisCP,
		broken: func(s *subject) bool { return s.l.CP > 1 && s.l.SeqLength%(2*s.l.CP) != 0 },
		explain: func(s *subject) finding {
			seq, cp := s.l.SeqLength, s.l.CP
			var repairs []string
			if seq%2 == 0 {
				repairs = words("cp", NearestDivisors(seq/2, cp))
			}
			return found(append(repairs, words("seq=", NearestMultiples(2*cp, seq))...),
				"sequence length %d is not divisible by 2 * CP %d = %d", seq, cp, 2*cp)
		},
	},
	{
		ID: "sequence-within-positions", Constraint: "34", Severity: Error, NoticedAt: AtArguments,
		Title:  "the sequence is no longer than the model's positions",
		Why:    "The framework refuses sequences beyond --max-position-embeddings.",
		Source: "megatron/training/arguments.py:1354",
		broken: func(s *subject) bool {
			return s.m.MaxPositionEmbeddings > 0 && s.l.SeqLength > s.m.MaxPositionEmbeddings
		},
		explain: func(s *subject) finding {
			return found([]string{fmt.Sprintf("seq=%d", s.m.MaxPositionEmbeddings), fmt.Sprintf("--max-position-embeddings %d", s.l.SeqLength)},
				"sequence length %d exceeds the model's %d positions", s.l.SeqLength, s.m.MaxPositionEmbeddings)
		},
	},
	{
		ID: "sp-without-tp", Constraint: "29", Severity: Hazard, NoticedAt: AtArguments,
		Title:  "sequence parallelism needs TP > 1",
		Why:    "At TP 1 the framework switches it off with a warning.",
		Source: "megatron/training/arguments.py:1433",
		axes:   axisTP,
		broken: func(s *subject) bool { return s.l.SequenceParallel && s.l.TP == 1 },
		explain: func(*subject) finding {
			return found([]string{"sp=off"}, "sequence parallel is on at TP 1 and will be switched off")
		},
	},
	{
		ID: "moe-tp-needs-sp", Constraint: "30", Severity: Error, NoticedAt: AtFirstStep,
		Title:  "MoE layers with TP > 1 need sequence parallelism",
		Why:    "Without it every tensor parallel rank would route the same tokens. Arguments and config let it pass; the first forward fails.",
		Source: "megatron/core/transformer/moe/moe_layer.py:637",
		axes:   axisTP,
		broken: func(s *subject) bool { return s.moe && s.l.TP > 1 && !s.l.SequenceParallel },
		explain: func(s *subject) finding {
			return found([]string{"sp=on", "tp1"}, "MoE layers on TP %d without sequence parallelism", s.l.TP)
		},
	},
	{
		ID: "sp-divides-sequence", Constraint: "33", Severity: Error, NoticedAt: AtFirstStep,
		Title:  "with sequence parallelism TP divides the sequence of a context parallel rank",
		Why:    "Each tensor parallel rank holds an equal slice of the sequence outside attention and MLP.",
		Source: "megatron/core/tensor_parallel/mappings.py:177",
		axes:   axisTP | axisCP,
		broken: func(s *subject) bool { return s.l.SequenceParallel && s.l.SeqLength/s.l.CP%s.l.TP != 0 },
		explain: func(s *subject) finding {
			n := s.l.SeqLength / s.l.CP
			return found(append(words("tp", NearestDivisors(n, s.l.TP)), words("seq=", NearestMultiples(2*s.l.CP*s.l.TP, s.l.SeqLength))...),
				"sequence length %d / CP %d = %d is not divisible by TP %d", s.l.SeqLength, s.l.CP, n, s.l.TP)
		},
	},
	{
		ID: "cp-a2a-heads", Constraint: "37", Severity: Error, NoticedAt: AtTE,
		Title:  "CP by all-to-all divides query heads and KV heads of a tensor parallel rank",
		Why:    "It exchanges sequence for heads. Models with attention sinks have no other kind of CP, so the rule binds them.",
		Source: teContextParallel + "4246",
		axes:   axisTP | axisCP,
		broken: func(s *subject) bool { return s.l.CP > 1 && sinks(s.m) && !a2aFits(s.m, s.l.TP, s.l.CP) },
		explain: func(s *subject) finding {
			q, kv := headsPerRank(s.m, s.l.TP)
			return found(words("cp", NearestDivisors(gcd(q, kv), s.l.CP)),
				"CP %d does not divide both the %d query heads and the %d KV heads of a rank at TP %d", s.l.CP, q, kv, s.l.TP)
		},
	},
	{
		ID: "cp-attention-sinks", Constraint: "39", Severity: Advice, NoticedAt: AtTE,
		Title:  "CP on a model with attention sinks runs only by all-to-all and with fused attention",
		Why:    "Ring exchange and all-gather do not know the extra softmax term.",
		Source: teContextParallel + "4246",
		axes:   axisCP,
		broken: func(s *subject) bool { return s.l.CP > 1 && sinks(s.m) },
		explain: func(s *subject) finding {
			return found([]string{"--cp-comm-type a2a", "cp1"}, "softmax type %s with CP %d needs --cp-comm-type a2a", s.m.SoftmaxType, s.l.CP)
		},
	},
	{
		ID: "cp-sliding-window", Constraint: "38", Severity: Advice, NoticedAt: AtTE,
		Title:  "CP on a model with sliding windows runs by all-to-all or all-gather",
		Why:    "The ring exchange, which is the default, has no window.",
		Source: teContextParallel + "4246",
		axes:   axisCP,
		broken: func(s *subject) bool { return s.l.CP > 1 && s.windowed && !sinks(s.m) },
		explain: func(s *subject) finding {
			return found([]string{"--cp-comm-type a2a", "--cp-comm-type all_gather", "cp1"}, "sliding-window layers with CP %d need --cp-comm-type a2a or all_gather", s.l.CP)
		},
	},
}

// CPCommType returns the --cp-comm-type that a model needs when CP > 1: "p2p", Megatron's default, where it works;
// "a2a" for attention sinks, and for sliding windows if the heads of a rank can be divided, else "all_gather"
// (reference rules 37 to 39; TransformerEngine@d0067d0da context_parallel.py, attn_forward_func_with_cp).
func CPCommType(m *arch.Model, tp, cp int) string {
	switch {
	case sinks(m):
		return "a2a"
	case m.SlidingWindow == nil:
		return "p2p"
	case a2aFits(m, tp, cp):
		return "a2a"
	}
	return "all_gather"
}

func sinks(m *arch.Model) bool { return m.SoftmaxType != "" && m.SoftmaxType != "vanilla" }

// headsPerRank returns the query and KV heads of one tensor parallel rank.
func headsPerRank(m *arch.Model, tp int) (q, kv int) {
	q = m.NumAttentionHeads / tp
	if m.MLA != nil {
		return q, q
	}
	return q, max(1, m.NumQueryGroups/tp)
}

func a2aFits(m *arch.Model, tp, cp int) bool {
	q, kv := headsPerRank(m, tp)
	return q%cp == 0 && kv%cp == 0
}
