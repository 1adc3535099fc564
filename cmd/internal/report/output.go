package report

import (
	"io"
	"strings"
)

// Output is where results go, with what is known about who reads it.
type Output struct {
	io.Writer
	// Columns is the reader's width, 0 where nothing reads lines by width: a file or a pipe.
	Columns int
	// Color says that the reader shows ANSI colours. They never carry a meaning alone: the words say the same.
	Color bool
}

// outputOf finds out what a writer is; one that says nothing is a file.
func outputOf(w io.Writer) Output {
	switch o := w.(type) {
	case Output:
		return o
	case *Output:
		return *o
	}
	return Output{Writer: w}
}

// style is an ANSI rendition.
type style string

const (
	bold   style = "1"
	red    style = "1;31"
	green  style = "1;32"
	yellow style = "1;33"
)

// paint colours a text if the reader shows colours.
func (p printer) paint(s style, text string) string {
	if !p.color || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// verdicts are the words that are coloured where they begin a line.
var verdicts = []struct {
	word  string
	style style
}{{"FITS", green}, {"TIGHT", yellow}, {"NO", red}}

// paintVerdict colours the verdict at the beginning of a text.
func (p printer) paintVerdict(text string) string {
	for _, v := range verdicts {
		if rest, ok := strings.CutPrefix(text, v.word); ok && (rest == "" || strings.ContainsAny(rest[:1], " ,:;")) {
			return p.paint(v.style, v.word) + rest
		}
	}
	return text
}

// labelStyle is that of a section's label.
func labelStyle(label string) style {
	switch label {
	case "REFUSED", "NOTHING":
		return red
	case "HAZARDS":
		return yellow
	}
	return bold
}
