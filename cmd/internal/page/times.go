package page

import (
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout/plan"
)

// timeChart is the step time by part, at bring-up and tuned, on one scale.
type timeChart struct {
	Bars  []timeBar
	Parts []timeRow
	Ticks []mark
}

type timeBar struct {
	Name, Software, Total string
	Parts                 []segment
}

type timeRow struct{ Class, Name, Now, Tuned string }

// partWords say what the parts are; classes give the hot axes a colour of their own.
var partWords = map[string]struct{ class, name string }{
	"compute":   {"k-act", "compute, recomputation included"},
	"host":      {"k-host", "host: launches and syncs"},
	"bubble":    {"k-bubble", "pipeline bubble"},
	"optimizer": {"k-other", "optimizer"},
	"tp":        {"k-dense", "TP communication, exposed"},
	"ep":        {"k-expert", "EP dispatch and combine, exposed"},
	"etp":       {"k-cold", "ETP communication, exposed"},
	"cp":        {"k-cold", "CP communication, exposed"},
	"pp":        {"k-cold", "PP sends and receives, exposed"},
	"dp":        {"k-cold", "DP gradients and parameters, exposed"},
	"edp":       {"k-cold", "EDP gradients and parameters, exposed"},
}

func timesOf(p *plan.Plan) timeChart {
	scale := max(p.StepTimeMS, p.TunedTimeMS) * 1.01
	var c timeChart
	now := timeBar{Name: "first run", Software: p.StepSoftware, Total: seconds(p.StepTimeMS)}
	tuned := timeBar{Name: "tuned", Software: p.TunedSoftware, Total: seconds(p.TunedTimeMS)}
	fromNow, fromTuned := 0.0, 0.0
	for _, part := range p.TimeParts {
		key := part.Part
		if part.Axis != "" {
			key = part.Axis
		}
		words := partWords[key]
		c.Parts = append(c.Parts, timeRow{words.class, words.name, seconds(part.MS), seconds(part.TunedMS)})
		now.Parts, fromNow = stack(now.Parts, words.class, key, words.name, fromNow, part.MS, scale)
		tuned.Parts, fromTuned = stack(tuned.Parts, words.class, key, words.name, fromTuned, part.TunedMS, scale)
	}
	c.Bars = []timeBar{now, tuned}
	for _, x := range (span{0, scale / 1e3, 0, 1}).marks(5) {
		c.Ticks = append(c.Ticks, mark{at(x * 1e3 / scale), fmt.Sprintf("%.4g", x)})
	}
	return c
}

// stack adds a part to a bar, with a label where there is room for one.
func stack(parts []segment, class, key, name string, from, ms, scale float64) ([]segment, float64) {
	if ms <= 0 {
		return parts, from
	}
	s := segment{Class: class, Name: name, X: at(from / scale), W: at(ms / scale), Value: seconds(ms) + " s",
		Mid: at((from + ms/2) / scale)}
	if ms/scale > 0.1 {
		s.Label = key
		if len(key) <= 3 {
			s.Label = strings.ToUpper(key)
		}
	}
	return append(parts, s), from + ms
}
