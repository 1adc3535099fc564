package calibrate

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/optimize"
	"pgregory.net/rapid"
)

// The simplex finds what gonum's finds, in bowls that are as long, as askew and as far off as a fit's may be.
func TestMinimize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim := rapid.IntRange(1, 4).Draw(t, "dimensions")
		runs := rapid.IntRange(1, 8).Draw(t, "runs")
		shares := make([][]float64, runs)
		measured := make([]float64, runs)
		for i := range shares {
			measured[i] = rapid.Float64Range(-0.5, 0.5).Draw(t, "measured")
			shares[i] = rapid.SliceOfN(rapid.Float64Range(0, 1), dim, dim).Draw(t, "shares")
		}
		loss := bowl(shares, measured)
		if got, want := loss(minimize(loss, dim)), oracle(t, loss, dim); got > want.F+1e-6 {
			t.Fatalf("least %.9g, gonum's %.9g", got, want.F)
		}
	})
}

// It takes gonum's steps: where no two corners are equally high, as many.
func TestMinimizeWork(t *testing.T) {
	for _, c := range []struct {
		shares   [][]float64
		measured []float64
	}{
		{[][]float64{{0.7}, {0.4}}, []float64{0.3, 0.1}},
		{[][]float64{{0.7, 0.2}, {0.4, 0.5}}, []float64{0.3, -0.1}},
		{[][]float64{{0.6, 0.1, 0.2}, {0.5, 0.3, 0.1}, {0.2, 0.1, 0.6}}, []float64{0.2, 0.05, -0.3}},
		{[][]float64{{0.5, 0.1, 0.2, 0.1}, {0.3, 0.3, 0.1, 0.2}, {0.2, 0.1, 0.6, 0.05}}, []float64{0.2, 0.05, -0.3}},
	} {
		work := 0
		loss := bowl(c.shares, c.measured)
		minimize(func(x []float64) float64 { work++; return loss(x) }, len(c.shares[0]))
		if want := oracle(t, loss, len(c.shares[0])); work != want.Stats.FuncEvaluations {
			t.Errorf("%v: %d evaluations, gonum's are %d", c.shares, work, want.Stats.FuncEvaluations)
		}
	}
}

// bowl is the loss of a fit to runs whose time follows the factors by these shares of their logarithms.
func bowl(shares [][]float64, measured []float64) func([]float64) float64 {
	return func(x []float64) float64 {
		var sum float64
		for i, v := range x {
			sum += v * v / (2 * priors[i] * priors[i])
		}
		for i := range shares {
			z := -measured[i]
			for j, v := range x {
				z += shares[i][j] * v
			}
			z /= noise
			sum += math.Sqrt(1+z*z) - 1
		}
		return sum
	}
}

func oracle(t interface{ Fatal(...any) }, loss func([]float64) float64, dim int) *optimize.Result {
	settings := &optimize.Settings{FuncEvaluations: maxEvaluations, Converger: &optimize.FunctionConverge{Absolute: lossStep, Iterations: idleRounds}}
	r, err := optimize.Minimize(optimize.Problem{Func: loss}, make([]float64, dim), settings, &optimize.NelderMead{SimplexSize: simplexSize})
	if err != nil && r == nil {
		t.Fatal(err)
	}
	return r
}
