package steptime

// Corrections are the terms that the product adds to the notes' own model (comm-model), each by name so
// that a test can switch it off. [AllCorrections] is what [DefaultRun] uses.
type Corrections struct {
	// HierarchicalDP prices gradient and parameter collectives in two levels, inside a domain and between
	// domains over all its rails, instead of one flat ring at the speed of one NIC (ranking-findings 3 item 1,
	// C2; comm-model 2.3). Without it a small batch on many GPUs is overpriced up to threefold.
	HierarchicalDP bool
	// ExpertTP charges what expert tensor parallelism moves: under alltoall the gather and the reduction of dispatched
	// tokens over ETP, under flex the copies to the ETP peers of each destination (ranking-findings 3 item 2, C3, says
	// that a cost is missing; its factor of 0.3 for alltoall, taken from results, is not used: counting the two steps of the
	// dispatcher puts all 33 pairs of the Parallel Folding paper in order, 31 before).
	ExpertTP bool
	// AlignedDomains counts the ranks of a group in one domain so that groups do not straddle domains: 64 of
	// the 72 of an NVL72 for a power of two, and as many domains as that takes (ranking-findings 3 item 3, C5).
	AlignedDomains bool
	// OverlapStartup leaves EP time uncovered where no other micro-batch runs: the first forward and last
	// backward, or half a chunk of an interleaved pipeline (ranking-findings 3 item 4, C6).
	OverlapStartup bool
	// ExactSplit prices every stage by the layers, heads and MTP layers that the layout puts on it, and its
	// parameters too, instead of an even share times 1.04 (ranking-findings section 1).
	ExactSplit bool
	// GroupLimit caps the distinct destinations of a token under group-limited routing at all sizes, instead
	// of only between domains and only down to one group per domain (comm-model 1.4).
	GroupLimit bool
	// UnevenPipeline lets every stage fill at its own pace and wait for the chunks that it needs, where stages or chunks
	// differ, instead of taking (PP-1)/VPP more micro-batches through the slowest stage.
	UnevenPipeline bool
}

// AllCorrections switches every correction on.
func AllCorrections() Corrections {
	return Corrections{
		HierarchicalDP: true,
		ExpertTP:       true,
		AlignedDomains: true,
		OverlapStartup: true,
		ExactSplit:     true,
		GroupLimit:     true,
		UnevenPipeline: true,
	}
}
