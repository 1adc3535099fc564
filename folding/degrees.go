package folding

import "fmt"

// Degrees are the sizes of the parallel axes over one set of ranks.
//
// Attention layers run on the mesh TP x CP x DP x PP, MoE layers on the mesh ETP x EP x EDP x PP,
// over the same World ranks. DP and EDP are never stored: they follow from the others
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/parallel_state.py:822-885).
//
// A zero degree is invalid. Where Megatron leaves a degree unset, put the value it would take: 1 for all
// of them but ETP, which an argv without --expert-tensor-parallel-size sets to TP.
type Degrees struct {
	World int // ranks, one per GPU
	TP    int // --tensor-model-parallel-size
	CP    int // --context-parallel-size
	PP    int // --pipeline-model-parallel-size, shared by both meshes
	EP    int // --expert-model-parallel-size
	ETP   int // --expert-tensor-parallel-size
}

// DP returns World / (TP*CP*PP), rounded down; it is exact only for degrees that Validate accepts. One division after the
// other gives the same and cannot overflow.
func (d Degrees) DP() int { return d.World / d.TP / d.CP / d.PP }

// EDP returns World / (ETP*EP*PP), rounded down; it is exact only for degrees that Validate accepts.
func (d Degrees) EDP() int { return d.World / d.ETP / d.EP / d.PP }

// String gives the attention mesh, the MoE mesh and the world: "tp2 cp1 dp16 pp8 | etp1 ep32 edp1 | 256 ranks".
func (d Degrees) String() string {
	return fmt.Sprintf("tp%d cp%d dp%d pp%d | etp%d ep%d edp%d | %d ranks",
		d.TP, d.CP, d.DP(), d.PP, d.ETP, d.EP, d.EDP(), d.World)
}
