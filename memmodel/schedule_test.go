package memmodel

import (
	"testing"

	"pgregory.net/rapid"
)

// drawSchedule draws a schedule that Megatron accepts: micro-batches a multiple of PP when interleaved.
func drawSchedule(t *rapid.T) scheduleKey {
	k := scheduleKey{pp: rapid.IntRange(1, 9).Draw(t, "pp"), vpp: 1}
	k.microbatches = rapid.IntRange(1, 60).Draw(t, "micro-batches")
	if k.pp > 1 {
		k.vpp = rapid.IntRange(1, 5).Draw(t, "vpp")
		k.overlap = rapid.Bool().Draw(t, "overlap")
	}
	if k.vpp > 1 {
		k.microbatches = k.pp * rapid.IntRange(1, 12).Draw(t, "groups")
	}
	k.group = k.pp
	if k.vpp > 1 {
		k.group = rapid.IntRange(k.pp, 2*k.pp).Draw(t, "group")
		k.microbatches = max(k.microbatches, k.group)
	}
	k.rank = rapid.IntRange(0, k.pp-1).Draw(t, "rank")
	return k
}

// The memo keeps undominated moments of a shortened schedule. Whatever the chunks weigh, the heaviest moment must
// be that of the full schedule, step by step.
func TestMomentsKeepTheWorst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawSchedule(t)
		weights := rapid.SliceOfN(rapid.IntRange(0, 1000), k.vpp, k.vpp).Draw(t, "weights")
		weigh := func(live []int32) (sum int) {
			for c, n := range live {
				sum += int(n) * weights[c]
			}
			return sum
		}
		type step struct {
			chunk    int
			backward bool
		}
		want := map[step]int{}
		everyMoment(k, func(chunk int, backward bool, live []int32) {
			s := step{chunk, backward}
			want[s] = max(want[s], weigh(live))
		})
		got := map[step]int{}
		for _, m := range moments(k.capped()) {
			s := step{m.chunk, m.backward}
			got[s] = max(got[s], weigh(m.live))
		}
		for s, w := range want {
			if got[s] != w {
				t.Fatalf("%+v chunk %d backward %v: heaviest live set %d, kept %d", k, s.chunk, s.backward, w, got[s])
			}
		}
	})
}

// everyMoment is a plain simulation written from the words of memory-model.md 6.2, for the test alone.
func everyMoment(k scheduleKey, see func(chunk int, backward bool, live []int32)) {
	live := make([]int32, k.vpp)
	chunkOf := func(i int) int { // the i-th forward step works on this chunk
		group := i / (k.group * k.vpp)
		size := min(k.group, k.microbatches-group*k.group)
		return (i - group*k.group*k.vpp) / size
	}
	total := k.microbatches * k.vpp
	warmup := min(k.pp-k.rank-1, k.microbatches)
	if k.vpp > 1 {
		warmup = 2*(k.pp-k.rank-1) + (k.vpp-1)*k.group
		if k.overlap {
			warmup++
		}
		warmup = min(warmup, total)
	} else {
		chunkOf = func(int) int { return 0 }
	}
	f, b := 0, 0
	forward := func() { c := chunkOf(f); f++; live[c]++; see(c, false, live) }
	backward := func() { c := k.vpp - 1 - chunkOf(b); b++; see(c, true, live); live[c]-- }
	for f < warmup {
		forward()
	}
	for f < total {
		if k.overlap && k.vpp > 1 { // one merged step; the backward chunk is gone at the forward's peak
			backward()
			forward()
			continue
		}
		forward()
		backward()
	}
	for b < total {
		backward()
	}
}

// In-flight counts the document derives: min(pp-r, m) micro-batches for 1F1B, min(w+1, v*m) chunks interleaved.
func TestInFlightCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawSchedule(t)
		want := min(k.pp-k.rank, k.microbatches)
		if k.vpp > 1 {
			w := 2*(k.pp-k.rank-1) + (k.vpp-1)*k.group
			// The merged steps of overlap need one more forward in the warm-up, and start with their backward.
			want = min(w+1, k.vpp*k.microbatches)
		}
		got := 0
		for _, m := range moments(k.capped()) {
			n := 0
			for _, x := range m.live {
				n += int(x)
			}
			got = max(got, n)
		}
		if got != want {
			t.Fatalf("%+v: %d in flight, want %d", k, got, want)
		}
	})
}
