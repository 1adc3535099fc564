package report

import (
	"fmt"
	"strings"
)

const gib = float64(1 << 30)

func gibs(n int64) string { return fmt.Sprintf("%.2f", float64(n)/gib) }

func mibs(n int64) float64 { return float64(n) / (1 << 20) }

// seconds prints a time with three significant digits.
func seconds(ms float64) string {
	switch s := ms / 1e3; {
	case s >= 100:
		return fmt.Sprintf("%.0f", s)
	case s >= 10:
		return fmt.Sprintf("%.1f", s)
	default:
		return fmt.Sprintf("%.2f", s)
	}
}

// signed writes a difference with its sign; nothing has no minus in front of it.
func signed(x float64, digits int) string {
	text := fmt.Sprintf("%+.*f", digits, x)
	if strings.Trim(text, "-0.") == "" {
		return "+" + text[1:]
	}
	return text
}

// change is by how much b is more than a; of nothing there is no share.
func change(a, b float64) string {
	if a == 0 {
		return "-"
	}
	return signed(100*(b/a-1), 0) + " %"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// counted is plural with separators in large numbers.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
