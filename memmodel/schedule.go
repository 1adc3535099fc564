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
	overlap                     bool
}

// key caps the micro-batches at what shows every steady-state step: the warm-up takes less than two pipeline
// depths of them, one period one depth (property-tested against longer schedules).
func (k scheduleKey) capped() scheduleKey {
	if limit := 4 * k.pp; k.microbatches > limit {
		k.microbatches = limit + k.microbatches%k.pp
	}
	return k
}

// moments runs the schedule of NVIDIA/Megatron-LM@d98e8a64dd megatron/core/pipeline_parallel/schedules.py
// (get_pp_rank_microbatches and get_schedule_table): 1F1B, or interleaved 1F1B with groups of PP micro-batches.
// It keeps one moment per distinct maximal live set: those that another moment of the same step dominates are
// left out.
func moments(k scheduleKey) []moment {
	pp, v, m := k.pp, k.vpp, k.microbatches
	if v == 1 {
		live := int32(min(pp-k.rank, m))
		if k.overlap && pp == 1 {
			live = 1
		}
		return []moment{{0, false, []int32{live}}, {0, true, []int32{live}}}
	}
	total := m * v
	table := make([]int, 0, total) // chunk of each forward step
	for first := 0; first < m; first += pp {
		group := min(pp, m-first)
		for c := range v {
			for range group {
				table = append(table, c)
			}
		}
	}
	warmup := 2*(pp-k.rank-1) + (v-1)*pp
	if k.overlap {
		warmup++
	}
	warmup = min(warmup, total)

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
