// Package topology knows the machines: GPU platforms with a source for every figure, NVLink domains, and
// where the bytes of each process group travel.
//
// Most callers need three things:
//
//   - [LookupPlatform] and [Platform.Need]: a platform and the figures a computation cannot do without;
//   - [SpansOf]: for one layout's degrees, how each group lies over NVLink domains, in closed form and
//     without allocating (the planner's hot path); [Place] gives the same from explicit rank lists;
//   - [HotFraction]: which share of the hot bytes (TP, CP, EP) stays inside NVLink.
//
// # Words
//
// A domain is the set of GPUs joined by NVLink; it is not the node. An 8-GPU box is both; in a GB200 NVL72
// rack the domain is 72 GPUs and the node (the tray that the scheduler hands out) has 4. Group kinds are
// those of package folding. A figure that no source states is unknown, never 0.
//
// # What is assumed
//
// Rank r sits in domain r / S, rounded down, where S is how many ranks each domain holds: the launcher
// numbers ranks node by node, and the scheduler, not Megatron, sees to it that consecutive ranks share a
// domain (NVIDIA's own launches ask Slurm for segments of trays). S may be less than the domain:
// [Platform.UsableDomain]. A job whose ranks lie otherwise needs [PlaceOn] with its own map.
//
// Times are not made here (package steptime), bytes per collective neither: they are arguments.
package topology
