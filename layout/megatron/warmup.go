package megatron

// WarmUp is how a pipeline rank starts: in micro-batches, or with VPP in micro-batches of one chunk each. While it runs one
// forward and one backward in turn, WarmUp+1 of them are in flight, or Total if all are in the warm-up.
type WarmUp struct {
	Total, WarmUp int
}

// Remaining is how many come after the warm-up.
func (w WarmUp) Remaining() int { return w.Total - w.WarmUp }

// All reports whether every one is in the warm-up.
func (w WarmUp) All() bool { return w.WarmUp >= w.Total }

// WarmUpOf returns the warm-up of a pipeline rank (from 0) for that many micro-batches, of which group go through one chunk
// before the next; vpp 0 is the schedule without interleaving, and overlap is --overlap-moe-expert-parallel-comm
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/pipeline_parallel/schedules.py:930-985, get_pp_rank_microbatches). It checks
// nothing: whether such a schedule is legal is a rule's to say.
func WarmUpOf(pp, vpp, microbatches, group, rank int, overlap bool) WarmUp {
	w := WarmUp{Total: microbatches * max(1, vpp)}
	switch {
	case pp <= 1:
	case vpp == 0:
		w.WarmUp = pp - rank - 1
	default:
		w.WarmUp = 2*(pp-rank-1) + (vpp-1)*group
		if overlap {
			w.WarmUp++
		}
	}
	w.WarmUp = min(w.WarmUp, w.Total)
	return w
}

// maxSchedule bounds what ScheduleTable writes out.
const maxSchedule = 1 << 20

// ScheduleStep is one forward pass of an interleaved schedule: micro-batch and chunk, from 0.
type ScheduleStep struct{ Microbatch, Chunk int }

// ScheduleTable lists the forward passes of each rank in order: groups of micro-batches through all chunks (schedules.py
// get_schedule_table). nil for sizes below 1 and beyond about a million steps.
func ScheduleTable(microbatches, chunks, group int) []ScheduleStep {
	if microbatches < 1 || chunks < 1 || group < 1 || microbatches > maxSchedule || chunks > maxSchedule || microbatches*chunks > maxSchedule {
		return nil
	}
	steps := make([]ScheduleStep, 0, microbatches*chunks)
	for first := 0; first < microbatches; first += group {
		for chunk := range chunks {
			for m := first; m < min(first+group, microbatches); m++ {
				steps = append(steps, ScheduleStep{m, chunk})
			}
		}
	}
	return steps
}
