package main

import "testing"

func TestPrintable(t *testing.T) {
	for _, tt := range []struct{ in, want, reason string }{
		{"a\tb é 漢", "a\tb é 漢", "what people write stays"},
		{"\x1b[31mred\x07", `\x1b[31mred\a`, "an escape sequence out of a stranger's file must not reach the terminal"},
		{"a\rb\x00\x7f", `a\rb\x00\x7f`, "nor what overwrites the line"},
		{"\u009b31m", `\u009b31m`, "the one-character form of ESC ["},
		{"a\u202eb", `a\u202eb`, "text that turns round shows another name"},
		{"\xff", `\xff`, "bytes that are no text"},
	} {
		if got := printable(tt.in); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.reason, got, tt.want)
		}
	}
}

func TestTame(t *testing.T) {
	for _, tt := range []struct {
		in, want string
		color    bool
		reason   string
	}{
		{"a\tb\né 漢 \u00a0", "a\tb\né 漢 \u00a0", false, "what results are made of"},
		{"\x1b[1mbold\x1b[0m", "\x1b[1mbold\x1b[0m", true, "our own colours"},
		{"\x1b[1mbold", `\x1b[1mbold`, false, "there are none in a file"},
		{"\x1b[2Jx\x1b]0;title\x07", `\x1b[2Jx\x1b]0;title\x07`, true, "what clears the screen or names the window is no colour"},
		{"\x1b", `\x1b`, true, "cut off"},
		{"\x1b[3", `\x1b[3`, true, "cut off in its number"},
		{"a\rb\x00c\x7f", `a\x0db\x00c\x7f`, true, "what overwrites a line, and bytes that readers stumble over"},
		{"\u009b2J\xc2", `\u009b2J` + "\xc2", true, "the one-character form of ESC [; half a character is left alone"},
	} {
		if got := string(tame([]byte(tt.in), tt.color)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.reason, got, tt.want)
		}
	}
}
