package topology

// Traffic is what one axis sends in a step, and where to.
type Traffic struct {
	Bytes   int64   // sent by one rank to other ranks, whatever unit of work all axes share
	Leaving float64 // share that leaves the domain: Span.Leaving, or a dispatcher's own
}

// HotFraction returns which share of the hot bytes stays inside NVLink: 1 - crossing/all (comm-model 2.4).
// Hot are the axes whose traffic is per micro-batch and hard to hide: TP, CP, and expert dispatch and combine
// (EP, ETP); pass one Traffic for each. Data and pipeline parallel bytes are cold and reported apart.
// Without any bytes nothing leaves: 1.
func HotFraction(hot ...Traffic) float64 {
	var all, leaving float64
	for _, t := range hot {
		all += float64(t.Bytes)
		leaving += float64(t.Bytes) * t.Leaving
	}
	if all <= 0 {
		return 1
	}
	return 1 - leaving/all
}
