package report

import (
	"fmt"
	"io"

	"github.com/moeplan/moeplan/layout/plan"
)

// Plans writes the ranked plans as a table for machines: one row a plan, one number a cell.
func Plans(w io.Writer, r *plan.Result, f Format) error {
	t := Table{
		Head: []string{"rank", "equal_to_best", "tp", "cp", "dp", "pp", "etp", "ep", "edp", "vpp", "mbs", "recompute", "grade",
			"peak_allocated_gib", "peak_device_low_gib", "peak_device_gib", "headroom_gib", "max_imbalance", "nvlink_fraction",
			"exposed_communication_ms", "step_time_ms", "tuned_step_time_ms", "tokens_per_second_per_gpu", "wall", "layout"},
		Text: []int{11, 12, 23, 24},
	}
	optional := func(x *float64) string {
		if x == nil {
			return ""
		}
		return fmt.Sprintf("%.2f", *x)
	}
	for i := range r.Plans {
		p := &r.Plans[i]
		s, m := &p.Sizes, &p.Stages[p.WorstStage].Memory
		t.Add(fmt.Sprint(p.Rank), fmt.Sprint(p.EqualToBest), fmt.Sprint(s.TP), fmt.Sprint(s.CP), fmt.Sprint(s.DP), fmt.Sprint(s.PP),
			fmt.Sprint(s.ETP), fmt.Sprint(s.EP), fmt.Sprint(s.EDP), fmt.Sprint(s.VPP), fmt.Sprint(s.MicroBatchSize), s.Recompute,
			string(p.Grade), gibs(m.PeakAllocated), gibs(m.PeakDeviceLow), gibs(m.PeakDevice), fmt.Sprintf("%.2f", p.HeadroomGiB),
			optional(p.MaxImbalance), optional(p.NVLinkFraction), fmt.Sprintf("%.0f", p.ExposedMS), fmt.Sprintf("%.0f", p.StepTimeMS),
			fmt.Sprintf("%.0f", p.TunedTimeMS), fmt.Sprintf("%.0f", p.TokensPerGPU), p.Wall, p.Key)
	}
	return t.Write(w, f)
}
