package megatron

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

// Upstream's own estimate is reproduced to the last bit, and fails where upstream's code fails.
func TestRecordedTheoretical(t *testing.T) {
	var file recordings[struct {
		recordedCommand
		Record, Padded, Microbatches, VPP, FFN int
		KVChannels                             int `json:"kv_channels"`
		MoEFFN                                 int `json:"moe_ffn"`
		Error                                  string
		Weights                                float64
		WithSP                                 float64    `json:"with_sp"`
		WithSPAnyBatch                         float64    `json:"with_sp_any_batch"`
		WithoutSP                              float64    `json:"without_sp"`
		ReportMiB                              [3]float64 `json:"report_mib"`
	}]
	load(t, "theoretical.json", &file)
	failed := 0
	for _, c := range file.Cases {
		argv := file.argv(c.recordedCommand)
		if c.Error != "" {
			failed++
			if _, err := Theoretical(resolve(t, c.World, append(argv, "--padded-vocab-size", "1024")...), 1); !errors.Is(err, ErrTheoretical) {
				t.Errorf("record %d: upstream fails with %s, here %v", c.Record, c.Error, err)
			}
			continue
		}
		r := resolve(t, c.World, append(argv, "--padded-vocab-size", strconv.Itoa(c.Padded))...)
		if r.Shape.FFN != c.FFN || r.Shape.KVChannels != c.KVChannels || r.Shape.MoEFFN != c.MoEFFN || r.Pipeline.VPP != c.VPP {
			t.Errorf("record %d: ffn %d, kv channels %d, expert ffn %d, VPP %d; recorded %d %d %d %d", c.Record, r.Shape.FFN, r.Shape.KVChannels, r.Shape.MoEFFN,
				r.Pipeline.VPP, c.FFN, c.KVChannels, c.MoEFFN, c.VPP)
		}
		got, err := Theoretical(r, c.Microbatches)
		if err != nil {
			t.Errorf("record %d: %v", c.Record, err)
			continue
		}
		anyBatch, _ := Theoretical(r, 0)
		if got.WeightAndOptimizer != c.Weights || got.WithSP != c.WithSP || got.WithoutSP != c.WithoutSP || anyBatch.WithSP != c.WithSPAnyBatch {
			t.Errorf("record %d: %+v, any batch %v; recorded %v %v %v %v\n%s", c.Record, got, anyBatch.WithSP, c.Weights, c.WithSP, c.WithoutSP, c.WithSPAnyBatch, strings.Join(argv, " "))
		}
		if w, a, sum := got.ReportMiB(); [3]float64{w, a, sum} != c.ReportMiB {
			t.Errorf("record %d: reported %v %v %v, recorded %v", c.Record, w, a, sum, c.ReportMiB)
		}
	}
	t.Logf("%d records, %d of them failures of upstream's", len(file.Cases), failed)
}
