package folding

// Step is one level of a nested progression: Size values that lie Stride apart.
type Step struct{ Size, Stride int }

// product returns how many values the steps span.
func product(steps []Step) int {
	n := 1
	for _, s := range steps {
		n = mulSaturated(n, s.Size)
	}
	return n
}

// canonical returns the shortest list of steps with the same first n values: sizes of 1 are gone, and a step that
// continues the one before it is merged into it. Two lists give the same n values in the same order exactly when their
// canonical forms are equal, because entry i is then fixed by the values at the product of the sizes before it.
func canonical(steps []Step, n int) []Step {
	out := make([]Step, 0, len(steps))
	done := 1
	for _, s := range steps {
		if done >= n {
			break
		}
		if s.Size == 1 {
			continue
		}
		size := min(s.Size, (n-1)/done+1)
		done = mulSaturated(done, size)
		if k := len(out) - 1; k >= 0 && s.Stride == mulSaturated(out[k].Stride, out[k].Size) {
			out[k].Size *= size
		} else {
			out = append(out, Step{size, s.Stride})
		}
	}
	return out
}

// values lists the first n values of the steps, the first step fastest.
func values(steps []Step, n int) []int {
	steps = canonical(steps, n)
	out := make([]int, n)
	digits := make([]int, len(steps))
	v := 0
	for i := range out {
		out[i] = v
		for k := range steps {
			digits[k]++
			v += steps[k].Stride
			if digits[k] < steps[k].Size {
				break
			}
			v -= digits[k] * steps[k].Stride
			digits[k] = 0
		}
	}
	return out
}
