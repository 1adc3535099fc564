package page

import "math"

// niceStep is a round distance between about n marks from 0 to most.
func niceStep(most float64, n int) float64 {
	if !(most > 0) || math.IsInf(most, 0) {
		return 1
	}
	raw := most / float64(n)
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if raw <= m*power {
			return m * power
		}
	}
	return 10 * power
}

// span is an interval of values that a picture shows between two shares of its width or height.
type span struct{ low, high, from, to float64 }

// of is where a value lies.
func (s span) of(x float64) float64 {
	if s.high <= s.low {
		return (s.from + s.to) / 2
	}
	return s.from + (x-s.low)/(s.high-s.low)*(s.to-s.from)
}

// marks are round values inside the interval.
func (s span) marks(n int) []float64 {
	step := niceStep(s.high-s.low, n)
	var list []float64
	for i := math.Ceil(s.low / step); i*step <= s.high*(1+1e-9) && len(list) < 20; i++ {
		list = append(list, i*step)
	}
	return list
}
