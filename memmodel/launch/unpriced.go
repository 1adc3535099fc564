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
		if set.Has(dest) && set.Bool(dest) { // older releases lack some
			s.Unmodelled = append(s.Unmodelled, megatron.OptionOf(dest, set.Release()).Name)
		}
	}
	if set.Bool("fine_grained_activation_offloading") {
		s.unpricedOffload(set)
	}
	if c := set.Float("moe_expert_rank_capacity_factor"); c > 0 {
		s.Unmodelled = append(s.Unmodelled, fmt.Sprintf("--moe-expert-rank-capacity-factor %g", c))
	}
	if n := r.WeightRemat; n > 1 {
		s.Unmodelled = append(s.Unmodelled, fmt.Sprintf("--tensor-parallel-num-weight-shards (%d shards of each)", n))
	}
	if n := r.ExpertWeightRemat; n > 1 {
		s.Unmodelled = append(s.Unmodelled, fmt.Sprintf("--expert-tensor-parallel-num-weight-shards (%d shards of each)", n))
	}
	slices.Sort(s.Unmodelled)
}

// unpricedOffload: modules that memmodel does not know, and what keeps a part of the others on the GPU, all of which it moves.
func (s *Setup) unpricedOffload(set *megatron.Settings) {
	for _, name := range set.Strings("offload_modules") {
		if _, ok := memmodel.ParseOffloadModule(name); !ok {
			s.Unmodelled = append(s.Unmodelled, "--offload-modules "+name)
		}
	}
	if set.Has("activation_offload_fraction") && set.Float("activation_offload_fraction") != 1 {
		s.Unmodelled = append(s.Unmodelled, "--activation-offload-fraction "+set.String("activation_offload_fraction"))
	}
	for _, dest := range []string{"delta_offload_bytes_across_pp_ranks", "fine_grained_offloading_max_inflight_offloads"} {
		if set.IsGiven(dest) {
			s.Unmodelled = append(s.Unmodelled, megatron.OptionOf(dest, set.Release()).Name+" "+set.String(dest))
		}
	}
}
