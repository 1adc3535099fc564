package memmodel

// moment is one step of a rank's schedule at which its memory may peak: a forward or a backward pass of one
// chunk, with the micro-batches of each chunk whose activations are live during it, its own included.
type moment struct {
	chunk    int
	backward bool
	live     []int32 // by chunk
}

// scheduleKey identifies a rank's schedule. Micro-batches beyond a few pipeline depths repeat the steady state.
type scheduleKey struct {
	pp, vpp, microbatches, rank int
	group                       int // micro-batches through one chunk before the next
	overlap                     bool
}

// capped bounds the micro-batches at what shows every steady-state step: the warm-up takes less than two groups
// of them, one period one group (property-tested against longer schedules).
func (k scheduleKey) capped() scheduleKey {
	period := max(k.pp, k.group)
	if limit := 4 * period; k.microbatches > limit {
		k.microbatches = limit + k.microbatches%period
	}
	return k
}

// warmup is how many forward steps come before the first backward one
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/pipeline_parallel/schedules.py, get_pp_rank_microbatches).
func (k scheduleKey) warmup() int {
	switch {
	case k.pp == 1:
		return 0
	case k.vpp == 1:
		return min(k.pp-k.rank-1, k.microbatches)
	}
	n := 2*(k.pp-k.rank-1) + (k.vpp-1)*k.group
	if k.overlap {
		n++
	}
	return min(n, k.microbatches*k.vpp)
}

// forwards lists the chunk of each forward step (get_schedule_table): groups of micro-batches through all chunks.
// Backward steps take the chunks in reverse.
func (k scheduleKey) forwards() []int {
	table := make([]int, 0, k.microbatches*k.vpp)
	for first := 0; first < k.microbatches; first += k.group {
		group := min(k.group, k.microbatches-first)
		for c := range k.vpp {
			for range group {
				table = append(table, c)
			}
		}
	}
	return table
}

// moments runs the schedule: 1F1B, or interleaved 1F1B. It keeps one moment per distinct maximal live set: those that
// another moment of the same step dominates are left out.
//
// With overlapped expert communication a forward and a backward step run as one, layer by layer, so the backward
// chunk is taken to be gone when the forward one peaks (memory-findings.md C17); what both hold half way is
// overlapExtra's.
func moments(k scheduleKey) []moment {
	v := k.vpp
	if v == 1 {
		live := int32(min(k.pp-k.rank, k.microbatches))
		return []moment{{0, false, []int32{live}}, {0, true, []int32{live}}}
	}
	table := k.forwards()
	total, warmup := len(table), k.warmup()

	var out []moment
	live := make([]int32, v)
	forward := func(i int) {
		live[table[i]]++
		out = keep(out, table[i], false, live)
	}
	backward := func(i int) {
		c := v - 1 - table[i]
		out = keep(out, c, true, live)
		live[c]--
	}
	for i := range warmup {
		forward(i)
	}
	for i := range total - warmup {
		if k.overlap {
			backward(i)
			forward(warmup + i)
			continue
		}
		forward(warmup + i)
		backward(i)
	}
	for i := total - warmup; i < total; i++ {
		backward(i)
	}
	return out
}

// keep adds a moment unless one of the same step dominates it, and removes those that it dominates.
func keep(out []moment, chunk int, back bool, live []int32) []moment {
	n := 0
	for _, have := range out {
		if have.chunk == chunk && have.backward == back {
			if dominates(have.live, live) {
				return out
			}
			if dominates(live, have.live) {
				continue
			}
		}
		out[n] = have
		n++
	}
	return append(out[:n], moment{chunk, back, append([]int32(nil), live...)})
}

// dominates reports whether a holds at least as many micro-batches of every chunk as b.
func dominates(a, b []int32) bool {
	for i := range a {
		if a[i] < b[i] {
			return false
		}
	}
	return true
}
