package page

import (
	"fmt"
	"strings"
)

// gibs writes bytes in GiB.
func gibs(n int64) string { return fmt.Sprintf("%.1f", float64(n)/gib) }

// seconds writes milliseconds as seconds with three significant digits.
func seconds(ms float64) string {
	switch s := ms / 1e3; {
	case s >= 100:
		return fmt.Sprintf("%.0f", s)
	case s >= 10:
		return fmt.Sprintf("%.1f", s)
	case s >= 0.01 || s == 0:
		return fmt.Sprintf("%.2f", s)
	default:
		return "<0.01"
	}
}

// percent is a share as text.
func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

// at is a place or a length in a picture: a share of its width or height.
func at(x float64) string { return fmt.Sprintf("%.2f%%", 100*min(max(x, 0), 1)) }

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}

// amount writes bytes with a decimal unit, as link rates are.
func amount(n int64) string {
	x := float64(n)
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if x < 999.5 {
			return fmt.Sprintf("%.3g %s", x, unit)
		}
		x /= 1e3
	}
	return fmt.Sprintf("%.3g TB", x)
}

// splitKey parts a layout's text before split=, which is long and matters to machines more than to readers.
func splitKey(key string) (short, split string) {
	if i := strings.Index(key, "split="); i > 0 {
		return strings.TrimSpace(key[:i]), key[i:]
	}
	return key, ""
}
