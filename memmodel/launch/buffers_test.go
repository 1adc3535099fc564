package launch

import (
	"testing"

	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/memmodel"
)

type recordedBuffer struct {
	Expert            bool
	DP, Numel, Params int64
	N                 int
	Share             *int64
	Places            [][3]int64
	_                 struct{}
}

// TestRecordedBuffers: the buffers and shards that the real DistributedDataParallel and DistributedOptimizer made, element
// by element: size with padding, number and place of the parameters, and what this rank's optimizer owns.
func TestRecordedBuffers(t *testing.T) {
	var file struct {
		Header struct {
			BaseArgs []string `json:"base_args"`
		}
		Cases []struct {
			Record, World, Rank, Vocab int
			Argv                       []string
			Coords                     map[string]int64
			Bucket                     int64
			Chunks                     [][]recordedBuffer
		}
	}
	load(t, "dist_optimizer.json.gz", &file)
	buffers, places, shares, standIns := 0, 0, 0, 0
	for _, c := range file.Cases {
		s, e, r := setUp(t, c.World, c.Vocab, append(append([]string{}, file.Header.BaseArgs...), c.Argv...)...)
		if s.Model.MLA != nil && s.Model.MLA.QLoraRank == 0 && s.Model.QKNorm == arch.MLALatentNorm {
			standIns++ // the recorder's stand-in adds a norm that no spec has
			continue
		}
		got := e.Buffers(&s.Layout, int(c.Coords["pp"]), c.Bucket)
		if len(got) != len(c.Chunks) {
			t.Errorf("record %d: %d chunks, recorded %d", c.Record, len(got), len(c.Chunks))
			continue
		}
		for v, want := range c.Chunks {
			if len(got[v]) != len(want) {
				t.Errorf("record %d chunk %d: %d buffers, recorded %d", c.Record, v, len(got[v]), len(want))
				continue
			}
			for _, w := range want {
				b := find(got[v], w.Expert)
				buffers++
				if b == nil || b.Elements != w.Numel || b.ParameterElements != w.Params || len(b.Parameters) != w.N {
					t.Errorf("record %d chunk %d expert %v: %+v, recorded %d elements of %d parameters in %d", c.Record, v, w.Expert, size(b), w.Params, w.N, w.Numel)
					continue
				}
				for i, p := range w.Places {
					places++
					if b.Parameters[i].Start != p[0] || b.Parameters[i].End != p[1] {
						t.Errorf("record %d chunk %d: %s at %d..%d, recorded %v", c.Record, v, b.Parameters[i].Name, b.Parameters[i].Start, b.Parameters[i].End, p)
						break
					}
				}
				if w.Share == nil {
					continue
				}
				if b.Shards != w.DP {
					t.Errorf("record %d: shared by %d, recorded %d", c.Record, b.Shards, w.DP)
					continue
				}
				rank := c.Coords["dp"]*int64(r.Degrees.CP) + c.Coords["cp"]
				if w.Expert {
					rank = c.Coords["edp"]
				}
				shares++
				if got := b.Share(rank % b.Shards); got != *w.Share {
					t.Errorf("record %d chunk %d expert %v: rank %d owns %d, recorded %d", c.Record, v, w.Expert, rank, got, *w.Share)
				}
			}
		}
	}
	t.Logf("%d buffers, %d places, %d shares exact; %d cases with a stand-in left out", buffers, places, shares, standIns)
}

func find(list []memmodel.Buffer, expert bool) *memmodel.Buffer {
	for i := range list {
		if list[i].Expert == expert {
			return &list[i]
		}
	}
	return nil
}

func size(b *memmodel.Buffer) any {
	if b == nil {
		return "no buffer"
	}
	return [3]int64{b.ParameterElements, int64(len(b.Parameters)), b.Elements}
}
