package folding

import "slices"

// GroupKind names a family of process groups. Its text is the key in the JSON of `moeplan ranks`.
type GroupKind string

// The families that Megatron creates for every layout, with the group_desc it gives them
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/parallel_state.py:930-1580).
const (
	GroupTP      GroupKind = "tp"        // TENSOR_MODEL_PARALLEL_GROUP
	GroupCP      GroupKind = "cp"        // CONTEXT_PARALLEL_GROUP
	GroupDP      GroupKind = "dp"        // DATA_PARALLEL_GROUP
	GroupDPCP    GroupKind = "dp_cp"     // DATA_PARALLEL_GROUP_WITH_CP: gradients and optimizer shards of dense parameters
	GroupPP      GroupKind = "pp"        // PIPELINE_MODEL_PARALLEL_GROUP
	GroupTPCP    GroupKind = "tp_cp"     // TENSOR_AND_CONTEXT_PARALLEL_GROUP
	GroupTPPP    GroupKind = "tp_pp"     // MODEL_PARALLEL_GROUP
	GroupTPDP    GroupKind = "tp_dp"     // TENSOR_AND_DATA_PARALLEL_GROUP
	GroupTPDPCP  GroupKind = "tp_dp_cp"  // TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP
	GroupEP      GroupKind = "ep"        // EXPERT_MODEL_PARALLEL_GROUP
	GroupETP     GroupKind = "etp"       // EXPERT_TENSOR_PARALLEL_GROUP
	GroupEDP     GroupKind = "edp"       // EXPERT_DATA_PARALLEL_GROUP: gradients and optimizer shards of experts
	GroupETPEP   GroupKind = "etp_ep"    // EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP: token dispatch
	GroupETPEPPP GroupKind = "etp_ep_pp" // EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP

	// GroupEmbedding holds the first and the last rank of every pp group, one rank when PP is 1.
	GroupEmbedding GroupKind = "embedding"
	// GroupPositionEmbedding holds the first rank of every pp group.
	GroupPositionEmbedding GroupKind = "position_embedding"
	// GroupOptimizerInstance is INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP: EDP/instances etp_ep_pp groups, joined.
	GroupOptimizerInstance GroupKind = "optimizer_instance"
)

var kinds = []GroupKind{
	GroupTP, GroupCP, GroupDP, GroupDPCP, GroupPP, GroupTPCP, GroupTPPP, GroupTPDP, GroupTPDPCP, GroupEP, GroupETP,
	GroupEDP, GroupETPEP, GroupETPEPPP, GroupEmbedding, GroupPositionEmbedding, GroupOptimizerInstance,
}

// Kinds returns the families of the ranks contract, in its order.
func Kinds() []GroupKind { return slices.Clone(kinds) }

// members says which axes of which mesh span a family; the second result is false for families that are no plain
// product of axes.
func (k GroupKind) members() (set axisSet, expert, ok bool) {
	switch k {
	case GroupTP:
		return setOf(axisTP), false, true
	case GroupCP:
		return setOf(axisCP), false, true
	case GroupDP:
		return setOf(axisDP), false, true
	case GroupDPCP:
		return setOf(axisDP, axisCP), false, true
	case GroupPP:
		return setOf(axisPP), false, true
	case GroupTPCP:
		return setOf(axisTP, axisCP), false, true
	case GroupTPPP:
		return setOf(axisTP, axisPP), false, true
	case GroupTPDP:
		return setOf(axisTP, axisDP), false, true
	case GroupTPDPCP:
		return setOf(axisTP, axisDP, axisCP), false, true
	case GroupEP:
		return setOf(axisEP), true, true
	case GroupETP:
		return setOf(axisTP), true, true
	case GroupEDP:
		return setOf(axisDP), true, true
	case GroupETPEP:
		return setOf(axisTP, axisEP), true, true
	case GroupETPEPPP:
		return setOf(axisTP, axisEP, axisPP), true, true
	}
	return 0, false, false
}
