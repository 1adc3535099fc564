package plan

import (
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology"
)

// Grader returns the rule by which Search says of an allocated peak whether it fits, for peaks that were measured. It fails
// for a platform whose memory is unknown.
func Grader(r Request) (func(allocated int64) Grade, error) {
	memory, err := r.Platform.Need(topology.FigureMemory)
	if err != nil {
		return nil, err
	}
	headroom := -1.0
	if r.HeadroomGiB != nil {
		headroom = *r.HeadroomGiB
	}
	b := newBudget(r.Platform, memory, headroom, r.ReserveGiB)
	return func(allocated int64) Grade {
		// What was measured has no range, and what lies outside the allocator was not measured with it.
		return b.grade(memmodel.Need{Allocated: allocated, Low: allocated, High: allocated})
	}, nil
}
