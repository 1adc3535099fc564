package plan

import "github.com/moeplan/moeplan/topology/steptime"

// timeParts takes two prices of one layout apart. Parts that take no time in either are left out.
func timeParts(now, tuned *steptime.Price) []TimePart {
	var parts []TimePart
	add := func(part, axis string, a, b float64) {
		if a != 0 || b != 0 {
			parts = append(parts, TimePart{Part: part, Axis: axis, MS: ms(a), TunedMS: ms(b)})
		}
	}
	add("compute", "", now.Compute, tuned.Compute)
	add("host", "", now.Host, tuned.Host)
	for a := range steptime.NumAxes {
		add("communication", a.String(), now.Communication[a].Exposed, tuned.Communication[a].Exposed)
	}
	add("bubble", "", now.Bubble, tuned.Bubble)
	add("optimizer", "", now.Optimizer, tuned.Optimizer)
	return parts
}
