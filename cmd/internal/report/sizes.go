package report

import (
	"fmt"
	"io"

	"github.com/moeplan/moeplan/layout/plan"
)

// Sizes writes the table over numbers of GPUs. Ranges are the band of the time estimate.
func Sizes(w io.Writer, s *plan.Sizing, f Format) error {
	t := Table{Head: []string{"GPUs", "DP", "s/step", "Mtokens/s", "of best/GPU"}}
	if s.Tokens != nil {
		t.Head = append(t.Head, "days", "GPU-hours k")
	}
	cost := len(s.Rows) > 0 && hasCost(s.Rows)
	if cost {
		t.Head = append(t.Head, "cost k")
	}
	t.Head = append(t.Head, "why", "layout")
	t.Text = []int{len(t.Head) - 2, len(t.Head) - 1}
	if f == Text {
		t.Head = t.Head[:len(t.Head)-1] // the layout would not fit a screen; other formats have it
		t.Text = t.Text[:1]
	}
	for i := range s.Rows {
		r := &s.Rows[i]
		cells := []string{fmt.Sprint(r.GPUs)}
		if r.Key == nil {
			for len(cells) < len(t.Head) {
				cells = append(cells, "-")
			}
			cells[t.Text[0]] = r.Why
			t.Add(cells...)
			continue
		}
		cells = append(cells, fmt.Sprint(*r.DP), seconds(*r.StepTimeMS), fmt.Sprintf("%.2f", *r.TokensPerSec/1e6), fmt.Sprintf("%.0f %%", 100**r.Efficiency))
		if s.Tokens != nil {
			cells = append(cells, span(r.Days, 1), span(r.GPUHours, 1e3))
		}
		if cost {
			cells = append(cells, span(r.Cost, 1e3))
		}
		cells = append(cells, r.Why)
		if f != Text {
			cells = append(cells, *r.Key)
		}
		t.Add(cells...)
	}
	return t.Write(w, f)
}

func hasCost(rows []plan.SizeRow) bool {
	for i := range rows {
		if rows[i].Cost != nil {
			return true
		}
	}
	return false
}

// span prints a range with as many digits as its ends differ by.
func span(r *[2]float64, unit float64) string {
	if r == nil {
		return "-"
	}
	lo, hi := r[0]/unit, r[1]/unit
	if hi < 10 {
		return fmt.Sprintf("%.1f-%.1f", lo, hi)
	}
	return fmt.Sprintf("%.0f-%.0f", lo, hi)
}
