package steptime

import (
	"fmt"
	"testing"
)

var benchLayouts = []layoutSpec{
	{world: 256, tp: 2, pp: 8, vpp: 4, ep: 32, gbs: 2048},
	{world: 256, pp: 16, vpp: 1, ep: 8, gbs: 2048},
	{world: 256, pp: 1, ep: 64, gbs: 2048},
	{world: 256, tp: 4, cp: 2, pp: 4, vpp: 12, ep: 16, etp: 2, gbs: 2048},
}

func TestPriceAllocatesNothing(t *testing.T) {
	for _, gpu := range []string{"h100", "gb200"} {
		m := testModel(t, "DeepSeek-V3")
		e := newEstimator(t, m, gpu, DefaultRun())
		for _, s := range benchLayouts {
			l := testLayout(m, s)
			var p Price
			if n := testing.AllocsPerRun(100, func() {
				p = e.Price(&l, BringUp())
				p = e.Price(&l, e.Tuned(&l))
			}); n != 0 {
				t.Errorf("%s %v: %g allocations a price, want none", gpu, l.Degrees, n)
			}
			if !p.Known {
				t.Errorf("%s %v: %v", gpu, l.Degrees, p.Notes.Texts())
			}
		}
	}
}

func BenchmarkPrice(b *testing.B) {
	m := testModel(b, "DeepSeek-V3")
	for _, gpu := range []string{"h100", "gb200"} {
		e := newEstimator(b, m, gpu, DefaultRun())
		for _, s := range benchLayouts {
			l := testLayout(m, s)
			sw := e.Tuned(&l)
			b.Run(fmt.Sprintf("gpu=%s/pp=%d/vpp=%d", gpu, l.PP, l.VPP), func(b *testing.B) {
				b.ReportAllocs()
				var p Price
				for b.Loop() {
					p = e.Price(&l, sw)
				}
				if !p.Known {
					b.Fatal(p.Notes.Texts())
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "layouts/s")
			})
		}
	}
}
