package topology

import "github.com/moeplan/moeplan/folding"

// Spans is the placement of every communicating group of one layout.
type Spans struct {
	TP, CP, DP, DPCP, PP Span // attention mesh
	ETP, EP, ETPEP, EDP  Span // MoE mesh; ETPEP is the dispatcher's group
}

// Of returns the span of a group kind; ok is false for kinds that Spans does not hold.
func (s *Spans) Of(kind folding.GroupKind) (span Span, ok bool) {
	switch kind {
	case folding.GroupTP:
		return s.TP, true
	case folding.GroupCP:
		return s.CP, true
	case folding.GroupDP:
		return s.DP, true
	case folding.GroupDPCP:
		return s.DPCP, true
	case folding.GroupPP:
		return s.PP, true
	case folding.GroupETP:
		return s.ETP, true
	case folding.GroupEP:
		return s.EP, true
	case folding.GroupETPEP:
		return s.ETPEP, true
	case folding.GroupEDP:
		return s.EDP, true
	}
	return Span{}, false
}

// Kinds lists the group kinds that Spans and Place cover, attention mesh first.
func Kinds() []folding.GroupKind {
	return []folding.GroupKind{
		folding.GroupTP, folding.GroupCP, folding.GroupDP, folding.GroupDPCP, folding.GroupPP,
		folding.GroupETP, folding.GroupEP, folding.GroupETPEP, folding.GroupEDP,
	}
}

// SpansOf places all groups in closed form, without allocating: the planner calls it for every mesh. ranks
// is how many consecutive ranks each domain holds (Platform.UsableDomain). Strides are those of the rank
// order (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/parallel_state.py RankGenerator; comm-model 2.1).
//
// ok is false for orders that the Megatron command line cannot produce (use Place) and for degrees or
// domains below 1. Degrees must be such that folding.Degrees.Validate accepts them.
func SpansOf(d folding.Degrees, order folding.Order, ranks int) (s Spans, ok bool) {
	if ranks < 1 || min(d.World, d.TP, d.CP, d.PP, d.EP, d.ETP) < 1 {
		return Spans{}, false
	}
	w, dp, edp := d.World, d.DP(), d.EDP()
	dense, expert := d.TP*d.CP, d.ETP*d.EP
	switch order {
	case "", folding.DefaultOrder:
		s.DP = SpanOf(w, dp, dense, ranks)
		s.DPCP = SpanOf(w, d.CP*dp, d.TP, ranks)
		s.PP = SpanOf(w, d.PP, w/d.PP, ranks)
		s.EDP = SpanOf(w, edp, expert, ranks)
	case folding.TPPPDPOrder:
		s.DP = SpanOf(w, dp, dense*d.PP, ranks)
		s.DPCP = spanOfSteps(w, folding.Step{Size: d.CP, Stride: d.TP}, folding.Step{Size: dp, Stride: dense * d.PP}, ranks)
		s.PP = SpanOf(w, d.PP, dense, ranks)
		s.EDP = SpanOf(w, edp, expert*d.PP, ranks)
	default:
		return Spans{}, false
	}
	s.TP = SpanOf(w, d.TP, 1, ranks)
	s.CP = SpanOf(w, d.CP, d.TP, ranks)
	s.ETP = SpanOf(w, d.ETP, 1, ranks)
	s.EP = SpanOf(w, d.EP, d.ETP, ranks)
	s.ETPEP = SpanOf(w, expert, 1, ranks)
	return s, true
}
