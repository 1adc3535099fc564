package memmodel

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// TestRecordedSchedules: warm-up counts of every pipeline rank, and the order of micro-batches and chunks, as the framework's
// own get_pp_rank_microbatches and get_schedule_table gave them (data/oracle/pipeline_schedule).
func TestRecordedSchedules(t *testing.T) {
	data, err := os.ReadFile("testdata/warmup.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Record, PP, VPP, M, Group int
			Overlap                   bool
			Ranks                     [][4]int // total, all in warm-up, warm-up, remaining
			Table                     [][3]int // first and last micro-batch, chunk
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	ranks, tables := 0, 0
	for _, c := range file.Cases {
		// A single chunk that is interleaved all the same is a schedule of its own: its warm-up is that of VPP.
		if c.VPP == 1 {
			continue
		}
		for rank, want := range c.Ranks {
			k := scheduleKey{pp: c.PP, vpp: max(1, c.VPP), microbatches: c.M, rank: rank, group: c.Group, overlap: c.Overlap}
			ranks++
			if got := k.warmup(); got != want[2] || c.M*k.vpp != want[0] {
				t.Errorf("record %d rank %d: warm-up %d of %d, recorded %d of %d", c.Record, rank, got, c.M*k.vpp, want[2], want[0])
			}
		}
		if len(c.Table) == 0 {
			continue
		}
		tables++
		k := scheduleKey{pp: c.PP, vpp: c.VPP, microbatches: c.M, group: c.Group}
		type forward struct{ microbatch, chunk int }
		var want, got []forward
		for _, run := range c.Table {
			for m := run[0]; m <= run[1]; m++ {
				want = append(want, forward{m, run[2]})
			}
		}
		for _, p := range k.passes() {
			if !p.Backward {
				got = append(got, forward{p.Microbatch, p.Chunk})
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("record %d: forward steps %v, recorded %v", c.Record, got, want)
		}
	}
	t.Logf("%d ranks, %d tables", ranks, tables)
}
