package steptime

import "math"

// straight is the exact time, s, of m micro-batches through stages of one chunk each under 1F1B; forward and backward hold
// each stage's passes, exchanges included.
//
// The step is the longest path through the passes: a rank's own order, forward passes down the stages, backward passes up.
// Stage r, counted from 0 of PP, runs ahead by w = PP-1-r forward passes. A path that leaves r for a deeper stage and comes
// back gives up as many of r's rounds as it passes stages, so a path is worth most if it takes all its rounds on one stage r
// and leaves it at most twice: in the first round, down to a stage d whose backward pass it waits for while d runs ahead,
// and in the last, alike. On the way down to d the index of the micro-batch has to rise by d's w, which it does on the
// slowest forward pass up to d; on the way back alike. So
//
//	step = max over r, d, e >= r of
//	       S(r-1) + (m - w(r)) s(r) + [S(d) - S(r) + w(d) F(d)] + [S(e) - S(r) + w(e) B(e)]
//
// with s = forward + backward, S its sum from the first stage on, F and B the largest forward and backward pass up to a
// stage. Of fewer micro-batches than w(r)+2 stage r has no round between the two: then all forward passes come before all
// backward ones. TestStraight compares with every order of passes played through.
func straight(cells []chunkSeconds, m int) float64 {
	var sum, most, forward, backward float64
	rounds, down, up := math.Inf(-1), math.Inf(-1), math.Inf(-1) // best over r alone, with d chosen, with e chosen
	for r := range cells {
		c := &cells[r]
		ahead := len(cells) - 1 - r
		before := sum
		sum += c.forward + c.backward
		forward, backward = max(forward, c.forward), max(backward, c.backward)
		all, some := float64(m-1), float64(min(ahead, m-1))
		most = max(most, sum+all*forward+some*backward, sum+some*forward+all*backward)
		if m < ahead+2 {
			continue
		}
		d, e := sum+float64(ahead)*forward, sum+float64(ahead)*backward
		rounds = max(rounds, before+float64(m-ahead)*(c.forward+c.backward)-2*sum)
		down, up = max(down, rounds+d), max(up, rounds+e)
		most = max(most, down+e, up+d)
	}
	return most
}
