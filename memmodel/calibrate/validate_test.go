package calibrate

import (
	"fmt"
	"os"
	"testing"
)

func TestTable(t *testing.T) {
	report := Validate()
	line := func(s Statistics) string {
		if s.N == 0 {
			return fmt.Sprintf("%3d %42s", 0, "")
		}
		return fmt.Sprintf("%3d %+6.2f %5.2f %6.2f %7.2f %s", s.N, 100*s.Median, 100*s.MedianSize, 100*s.P90, 100*s.Worst, s.WorstID)
	}
	for _, list := range [][]Group{report.Groups, report.Assumed} {
		for _, g := range list {
			t.Logf("%-40.40s | %s | %s", g.Name, line(g.AfterStep), line(g.Peak))
		}
	}
	for _, r := range report.Rows {
		if r.Err != nil {
			t.Logf("%s: %v", r.Record.ID, r.Err)
		}
	}
	if os.Getenv("ROWS") == "" {
		return
	}
	for _, r := range report.Rows {
		if r.AfterStep.Ok() || r.Peak.Ok() {
			mib := func(c Comparison) string {
				if !c.Ok() {
					return "-"
				}
				return fmt.Sprintf("%9.1f %+8.1f %+6.2f%%", float64(c.Measured)/(1<<20), float64(c.Off())/(1<<20), 100*c.Relative())
			}
			fmt.Printf("%s %-11s %-4s %-5s %2v | %s | %s | %s\n", r.Record.ID, r.Use, r.Record.GPU, r.Record.Environment, r.Record.SecondRun, mib(r.AfterStep), mib(r.Peak), r.Record.Model)
		}
	}
}
