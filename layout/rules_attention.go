package layout

import (
	"fmt"

	"github.com/moeplan/moeplan/layout/arch"
)

const (
	configSource = "megatron/core/transformer/transformer_config.py:"
	// divideSource is where every width that is cut over ranks is divided.
	divideSource = "megatron/core/utils.py:592"
)

// attentionRules are about the widths that tensor parallelism cuts: heads, groups, MLP widths, linear attention, Mamba.
var attentionRules = []Rule{
	{
		ID: "heads-divide-hidden", Constraint: "17", Severity: Error, NoticedAt: AtArguments,
		Title:  "heads divide the hidden size where kv_channels is not given",
		Why:    "The head dimension is then hidden_size / num_attention_heads.",
		Source: "megatron/training/arguments.py:1332",
		broken: func(s *subject) bool {
			h := s.m.NumAttentionHeads
			return s.m.KVChannels == 0 && h > 0 && s.m.HiddenSize%h != 0
		},
		explain: func(s *subject) finding {
			return found([]string{"give --kv-channels"}, "hidden size %d is not divisible by %d heads and no head dimension is given", s.m.HiddenSize, s.m.NumAttentionHeads)
		},
	},
	{
		ID: "tp-divides-heads", Constraint: "13", Severity: Error, NoticedAt: AtConfig,
		Title:  "TP divides the attention heads",
		Why:    "Each tensor parallel rank computes whole heads; MLA has the same rule (22).",
		Source: configSource + "1447",
		axes:   axisTP,
		broken: func(s *subject) bool { return s.m.NumAttentionHeads%s.l.TP != 0 },
		explain: func(s *subject) finding {
			return notDivisible(s, s.m.NumAttentionHeads, Are(s.m.NumAttentionHeads, "attention head"))
		},
	},
	{
		ID: "tp-fits-kv-groups", Constraint: "14", Severity: Error, NoticedAt: AtConfig,
		Title:  "TP divides the KV groups or is a multiple of them",
		Why:    "A rank holds whole KV heads, or several ranks share a copy of one.",
		Source: configSource + "1465",
		axes:   axisTP,
		broken: func(s *subject) bool { return s.m.MLA == nil && !kvFits(s.m.NumQueryGroups, s.l.TP) },
		explain: func(s *subject) finding {
			return found(tpRepairs(s), "%d KV groups and TP %d: neither divides the other", s.m.NumQueryGroups, s.l.TP)
		},
	},
	{
		ID: "gdn-value-heads", Constraint: "26", Severity: Error, NoticedAt: AtConfig,
		Title:  "the value heads of a gated delta net are a multiple of its key heads",
		Why:    "Key heads are repeated to match value heads.",
		Source: configSource + "1495",
		broken: func(s *subject) bool {
			la := s.m.LinearAttention
			return la != nil && la.NumKeyHeads > 0 && la.NumValueHeads%la.NumKeyHeads != 0
		},
		explain: func(s *subject) finding {
			return found(nil, "%s not a multiple of %d key heads", Are(s.m.LinearAttention.NumValueHeads, "value head"), s.m.LinearAttention.NumKeyHeads)
		},
	},
	{
		ID: "gdn-heads-divisible", Constraint: "26", Severity: Error, NoticedAt: AtConfig,
		Title:  "TP * CP divides the key and value heads of a gated delta net",
		Why:    "Its heads are dealt over tensor and context parallel ranks together.",
		Source: configSource + "1502",
		axes:   axisTP | axisCP,
		broken: func(s *subject) bool {
			la, n := s.m.LinearAttention, s.l.TP*s.l.CP
			return la != nil && (la.NumKeyHeads%n != 0 || la.NumValueHeads%n != 0)
		},
		explain: func(s *subject) finding {
			la, n := s.m.LinearAttention, s.l.TP*s.l.CP
			return found([]string{fmt.Sprintf("TP * CP = %s", orList(NearestDivisors(gcd(la.NumKeyHeads, la.NumValueHeads), n)))},
				"%d key and %d value heads are not both divisible by TP %d * CP %d = %d", la.NumKeyHeads, la.NumValueHeads, s.l.TP, s.l.CP, n)
		},
	},
	{
		ID: "tp-divides-qkv", Constraint: "15", Severity: Error, NoticedAt: AtModelBuild,
		Title:  "TP divides the rows of the fused QKV projection",
		Why:    "The projection is column parallel over all its rows, so this binds even where KV heads are fewer than ranks.",
		Source: divideSource,
		axes:   axisTP,
		broken: func(s *subject) bool { return s.attention && qkvRows(s.m)%s.l.TP != 0 },
		explain: func(s *subject) finding {
			return notDivisible(s, qkvRows(s.m), fmt.Sprintf("%d rows of the QKV projection are", qkvRows(s.m)))
		},
	},
	{
		ID: "tp-divides-ffn", Constraint: "18", Severity: Error, NoticedAt: AtModelBuild,
		Title:  "TP divides the width of dense MLP layers",
		Why:    "Both MLP projections are cut along it. Models whose every layer is MoE do not use it.",
		Source: divideSource,
		axes:   axisTP,
		broken: func(s *subject) bool { return s.dense && s.m.FFNHiddenSize%s.l.TP != 0 },
		explain: func(s *subject) finding {
			return notDivisible(s, s.m.FFNHiddenSize, fmt.Sprintf("dense MLP width %d is", s.m.FFNHiddenSize))
		},
	},
	{
		ID: "mamba-tp", Constraint: "27", Severity: Error, NoticedAt: AtModelBuild,
		Title:  "TP divides Mamba heads and groups, and groups divide heads",
		Why:    "Each rank scans whole heads with whole groups.",
		Source: "megatron/core/ssm/mamba_mixer.py:262",
		axes:   axisTP,
		broken: func(s *subject) bool {
			b := s.m.Mamba
			return s.mamba && b != nil && (b.NumHeads%s.l.TP != 0 || b.NumGroups%s.l.TP != 0 || b.NumGroups > 0 && b.NumHeads%b.NumGroups != 0)
		},
		explain: func(s *subject) finding {
			b := s.m.Mamba
			return found(words("tp", NearestDivisors(gcd(b.NumHeads, b.NumGroups), s.l.TP)),
				"TP %d must divide %d Mamba heads and %d groups, and groups must divide heads", s.l.TP, b.NumHeads, b.NumGroups)
		},
	},
	{
		ID: "mamba-cp", Constraint: "27", Severity: Error, NoticedAt: AtModelBuild,
		Title:  "CP divides the Mamba heads of a rank, and fits its groups",
		Why:    "Context parallel Mamba exchanges sequence for heads; groups are divided too, or copied.",
		Source: "megatron/core/ssm/mamba_context_parallel.py:107",
		axes:   axisTP | axisCP,
		broken: func(s *subject) bool {
			b := s.m.Mamba
			if !s.mamba || b == nil || s.l.CP == 1 {
				return false
			}
			return b.NumHeads/s.l.TP%s.l.CP != 0 || !kvFits(b.NumGroups/s.l.TP, s.l.CP)
		},
		explain: func(s *subject) finding {
			b := s.m.Mamba
			var legal []int
			for _, cp := range Divisors(b.NumHeads / s.l.TP) {
				if kvFits(b.NumGroups/s.l.TP, cp) {
					legal = append(legal, cp)
				}
			}
			return found(words("cp", nearest(legal, s.l.CP)), "CP %d does not fit %d Mamba heads / TP %d = %d heads and %d groups on a rank",
				s.l.CP, b.NumHeads, s.l.TP, b.NumHeads/s.l.TP, b.NumGroups/s.l.TP)
		},
	},
	{
		ID: "kv-heads-duplicated", Constraint: "14b", Severity: Advice, NoticedAt: AtModelBuild,
		Title:  "TP is at most the number of KV groups",
		Why:    "Beyond that each rank keeps one KV head and ranks hold copies of each other's: KV activations no longer shrink with TP, and QKV is gathered.",
		Source: "megatron/core/transformer/attention.py:353",
		axes:   axisTP,
		broken: func(s *subject) bool {
			return s.attention && s.m.NumQueryGroups > 0 && s.l.TP > s.m.NumQueryGroups && s.l.TP%s.m.NumQueryGroups == 0
		},
		explain: func(s *subject) finding {
			return found(words("tp", []int{s.m.NumQueryGroups}), "%d KV groups on TP %d: each KV head is held by %d ranks",
				s.m.NumQueryGroups, s.l.TP, s.l.TP/s.m.NumQueryGroups)
		},
	},
	{
		ID: "groups-divide-heads", Constraint: "16", Severity: Error, NoticedAt: AtTE,
		Title:  "KV groups divide the attention heads",
		Why:    "Every KV head serves the same number of query heads.",
		Source: "TransformerEngine@d0067d0da transformer_engine/pytorch/attention/dot_product_attention/dot_product_attention.py:742",
		broken: func(s *subject) bool {
			return s.attention && s.m.NumQueryGroups > 0 && s.m.NumAttentionHeads%s.m.NumQueryGroups != 0
		},
		explain: func(s *subject) finding {
			return found(nil, "%s not divisible by %d KV groups", Are(s.m.NumAttentionHeads, "attention head"), s.m.NumQueryGroups)
		},
	},
}

// kvFits reports whether n heads can be divided over, or copied to, ranks.
func kvFits(n, ranks int) bool { return n < 1 || n%ranks == 0 || ranks%n == 0 }

// qkvRows is the output width of the fused QKV projection.
func qkvRows(m *arch.Model) int {
	q := m.NumAttentionHeads * m.KVChannels
	if m.AttentionOutputGate {
		q *= 2
	}
	return q + 2*m.NumQueryGroups*m.KVChannels
}

// notDivisible explains that TP does not divide a size; what names it with its number and verb.
func notDivisible(s *subject, n int, what string) finding {
	return found(tpRepairs(s), "%s not divisible by TP %d (%d %% %d = %d)", what, s.l.TP, n, s.l.TP, n%s.l.TP)
}

// tpRepairs names the nearest TP that every rule about TP and the model's widths accepts.
func tpRepairs(s *subject) []string {
	m := s.m
	var legal []int
	for _, tp := range Divisors(max(1, m.NumAttentionHeads)) {
		if m.MLA == nil && !kvFits(m.NumQueryGroups, tp) || s.attention && qkvRows(m)%tp != 0 ||
			s.dense && m.FFNHiddenSize%tp != 0 || s.moe && m.MoE != nil && m.MoE.SharedFFNSize%tp != 0 {
			continue
		}
		legal = append(legal, tp)
	}
	return words("tp", nearest(legal, s.l.TP))
}

// words writes values as words of a layout's text: tp2, tp4; gbs=512, gbs=1024.
func words(name string, values []int) []string {
	var w []string
	for _, v := range values {
		w = append(w, fmt.Sprintf("%s%d", name, v))
	}
	return w
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
