package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable is text with what would steer a terminal written out: errors quote names, lines of files and whatever a person or a
// stranger's file holds.
func printable(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || r != '\t' && !unicode.IsGraphic(r) {
			quoted := strconv.QuoteToGraphic(s[:n])
			out.WriteString(quoted[1 : len(quoted)-1])
		} else {
			out.WriteString(s[:n])
		}
		s = s[n:]
	}
	return out.String()
}

// tame writes out what would steer a terminal in a result: names, flags and log lines come out of strangers' files. Line ends and
// tabs stay, and so do sequences of colour where the result is in colour. Results are written in pieces that never part a
// character, JSON holds no control characters to begin with, and what has none is returned as it is.
func tame(p []byte, color bool) []byte {
	var out bytes.Buffer
	kept := 0
	for i := 0; i < len(p); i++ {
		n := 1
		switch {
		case p[i] == 0xc2 && i+1 < len(p) && p[i+1] >= 0x80 && p[i+1] < 0xa0: // U+0080 to U+009F
			n = 2
		case p[i] == 0x1b && color && colorLength(p[i:]) > 0:
			i += colorLength(p[i:]) - 1
			continue
		case p[i] != 0x7f && p[i] >= 0x20 || p[i] == '\n' || p[i] == '\t':
			continue
		}
		out.Write(p[kept:i])
		if n == 2 {
			fmt.Fprintf(&out, `\u%04x`, p[i+1])
		} else {
			fmt.Fprintf(&out, `\x%02x`, p[i])
		}
		kept = i + n
		i = kept - 1
	}
	if kept == 0 {
		return p
	}
	out.Write(p[kept:])
	return out.Bytes()
}

// colorLength is the length of the sequence ESC [ digits and semicolons m at the start of p, 0 if none stands there.
func colorLength(p []byte) int {
	if len(p) < 3 || p[1] != '[' {
		return 0
	}
	for i := 2; i < len(p); i++ {
		switch c := p[i]; {
		case c == 'm':
			return i + 1
		case c != ';' && (c < '0' || c > '9'):
			return 0
		}
	}
	return 0
}
