package calibrate

import (
	"cmp"
	"slices"
)

const (
	// simplexSize is the length of the first simplex's edges along the axes, of a factor's logarithm.
	simplexSize = 0.1
	// A search ends when its least value has not fallen by lossStep for idleRounds rounds, or after maxEvaluations. Time does not
	// count, so that the result is the same everywhere.
	lossStep       = 1e-5
	idleRounds     = 12
	maxEvaluations = 400
)

// vertex is a point of a simplex with the function's value there.
type vertex struct {
	at []float64
	f  float64
}

// minimize finds the point near the origin of dim dimensions where f is least, by Nelder and Mead's simplex with the steps that
// Gao and Han give for the number of dimensions (Computational Optimization and Applications 51, 2012). f may be
// +Inf, but not at the origin. TestMinimize holds it against gonum's.
func minimize(f func([]float64) float64, dim int) []float64 {
	evaluations := 0
	eval := func(at []float64) vertex {
		evaluations++
		return vertex{at, f(at)}
	}
	expansion, contraction, shrink := 2.0, 0.5, 0.5
	if n := float64(dim); dim > 1 {
		expansion, contraction, shrink = 1+2/n, 0.75-1/(2*n), 1-1/n
	}
	simplex := []vertex{eval(make([]float64, dim))}
	least, idle := simplex[0].f, 0
	for i := range dim {
		at := make([]float64, dim)
		at[i] = simplexSize
		simplex = append(simplex, eval(at))
	}
	for evaluations < maxEvaluations {
		slices.SortStableFunc(simplex, func(a, b vertex) int { return cmp.Compare(a.f, b.f) })
		best, worst := simplex[0], &simplex[dim]
		if idle++; least-best.f > lossStep {
			least, idle = best.f, 0
		}
		if idle == idleRounds {
			break
		}
		middle := centroid(simplex[:dim])
		reflected := eval(between(middle, worst.at, -1))
		switch {
		case reflected.f < best.f:
			*worst = reflected
			if further := eval(between(middle, reflected.at, expansion)); further.f < reflected.f {
				*worst = further
			}
			continue
		case reflected.f < simplex[dim-1].f:
			*worst = reflected
			continue
		}
		end, limit := worst.at, worst.f
		if reflected.f < limit {
			end, limit = reflected.at, reflected.f
		}
		if contracted := eval(between(middle, end, contraction)); contracted.f < limit {
			*worst = contracted
			continue
		}
		for i := range simplex[1:] {
			simplex[1+i] = eval(between(best.at, simplex[1+i].at, shrink))
		}
	}
	return slices.MinFunc(simplex, func(a, b vertex) int { return cmp.Compare(a.f, b.f) }).at
}

// centroid is the mean of points.
func centroid(list []vertex) []float64 {
	mean := make([]float64, len(list[0].at))
	for _, v := range list {
		for i, x := range v.at {
			mean[i] += x / float64(len(list))
		}
	}
	return mean
}

// between is the point that lies a share of the way from one point to another, beyond it where the share is above 1, on the
// other side where it is negative.
func between(from, to []float64, share float64) []float64 {
	out := make([]float64, len(from))
	for i := range out {
		out[i] = from[i] + share*(to[i]-from[i])
	}
	return out
}
