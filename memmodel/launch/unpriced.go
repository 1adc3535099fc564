package launch

import (
	"fmt"
	"slices"

	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/memmodel"
)

// switchesNotPriced change memory in a way that memmodel does not model.
var switchesNotPriced = []string{
	"fp32_residual_connection", "use_torch_fsdp2", "tp_comm_overlap", "moe_paged_stash", "distribute_saved_activations",
	"use_transformer_engine_op_fuser", "enable_mhc_connections",
}

// unpriced takes down what the command line asks for and nothing here holds.
func (s *Setup) unpriced(r *megatron.Resolved) {
	set := r.Settings
	for _, dest := range switchesNotPriced {
		if known(set, dest) && set.Bool(dest) {
			s.Unmodelled = append(s.Unmodelled, "--"+dashes(dest))
		}
	}
	for _, name := range set.Strings("offload_modules") {
		if _, ok := memmodel.ParseOffloadModule(name); !ok && set.Bool("fine_grained_activation_offloading") {
			s.Unmodelled = append(s.Unmodelled, "--offload-modules "+name)
		}
	}
	if c := set.Float("moe_expert_rank_capacity_factor"); c > 0 {
		s.Unmodelled = append(s.Unmodelled, fmt.Sprintf("--moe-expert-rank-capacity-factor %g", c))
	}
	if n := r.WeightRemat; n > 1 {
		s.Unmodelled = append(s.Unmodelled, fmt.Sprintf("--tensor-parallel-num-weight-shards (%d shards of each)", n))
	}
	slices.Sort(s.Unmodelled)
}

// known reports whether any release has an option for the dest; some switches above are of launch scripts' own.
func known(s *megatron.Settings, dest string) bool {
	_, err := megatron.LookupFlag("--"+dashes(dest), s.Release())
	return err == nil && s.Has(dest)
}

func dashes(dest string) string {
	b := []byte(dest)
	for i := range b {
		if b[i] == '_' {
			b[i] = '-'
		}
	}
	return string(b)
}
