package report

import "testing"

func TestSigned(t *testing.T) {
	for _, c := range []struct {
		x      float64
		digits int
		want   string
		reason string
	}{
		{1.25, 1, "+1.2", "more"},
		{-1.25, 2, "-1.25", "less"},
		{-0.004, 2, "+0.00", "what rounds to nothing is no loss"},
		{0, 0, "+0", "nothing"},
		{-0.6, 0, "-1", "what rounds to something keeps its sign"},
	} {
		if got := signed(c.x, c.digits); got != c.want {
			t.Errorf("signed(%v, %d) = %q, want %q (%s)", c.x, c.digits, got, c.want, c.reason)
		}
	}
}

func TestChange(t *testing.T) {
	for _, c := range []struct {
		a, b   float64
		want   string
		reason string
	}{
		{200, 150, "-25 %", "a quarter less"},
		{0, 0, "-", "one GPU exposes no communication, and the share of nothing once printed as NaN"},
		{0, 5, "-", "more than nothing is no share of it"},
	} {
		if got := change(c.a, c.b); got != c.want {
			t.Errorf("change(%v, %v) = %q, want %q (%s)", c.a, c.b, got, c.want, c.reason)
		}
	}
}
