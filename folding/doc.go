// Package folding places two parallel meshes over one set of ranks.
//
// Attention layers use the mesh TP x CP x DP x PP and MoE layers the mesh ETP x EP x EDP x PP, over the same GPUs
// (Parallel Folding). Most callers need [New] and then [Folding.Groups], [Folding.Coordinates] or, without listing a
// single rank, [Folding.Size], [Folding.Stride] and [Folding.Steps].
//
// # Placement
//
// An order such as "tp-cp-ep-dp-pp" names the axes from the fastest to the slowest. In each mesh
//
//	rank = sum over axes of coordinate * stride,   stride = product of the sizes of the axes further left
//
// where the attention mesh gives EP the size 1 and the MoE mesh gives CP the size 1, TP the size ETP and DP the size
// EDP. A group of some axes holds the ranks that differ only in those axes. Ranks inside a group, and the groups of a
// kind, are listed with the leftmost axis of the order fastest, whatever the order in which the kind names its axes
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/parallel_state.py:269-375).
//
// # What is refused
//
// [Check] returns every [Refusal] in the order in which the framework would stop; [New] returns the first. They agree
// with all 236 recorded calls of the real initialize_model_parallel in testdata. Orders that the Megatron command line
// cannot produce but the library takes are taken here too: upper case (which then does not count as ending in "pp"),
// missing axes of size 1, and an axis named twice. The last makes the framework list ranks outside the world;
// [Folding.Groups] reproduces those lists, and [Folding.Repeated] says so.
//
// # Cost
//
// New and all closed forms are O(axes), for any world. Only [Folding.Groups] and [Folding.GroupOf] list ranks, and both
// refuse above [MaxListed].
package folding
