package report

import (
	"fmt"
	"io"
	"strings"
)

// printer writes sections whose first line carries a label. Only layouts and commands, which are to be copied, may pass
// its width.
type printer struct {
	w     io.Writer
	width int
	color bool
}

const labelWidth = 12

// widest is the width of the main screen where no other is known, and at most.
const widest = 100

// narrowest is a width below which folding further would help nobody.
const narrowest = 40

// printerTo prepares to write sections.
func printerTo(w io.Writer) printer {
	o := outputOf(w)
	p := printer{w: o.Writer, width: widest, color: o.Color}
	if o.Columns > 0 {
		p.width = max(narrowest, min(o.Columns, widest))
	}
	return p
}

// section prints lines under a label as they are.
func (p printer) section(label string, lines ...string) {
	for _, l := range lines {
		padding := ""
		if l != "" {
			padding = strings.Repeat(" ", max(0, labelWidth-len(label)))
		}
		fmt.Fprintln(p.w, strings.TrimRight(p.paint(labelStyle(label), label)+padding+p.paintVerdict(l), " "))
		label = ""
	}
}

// prose prints sentences under a label, each broken between words where it would pass the width.
func (p printer) prose(label string, sentences ...string) {
	for _, s := range sentences {
		p.section(label, fold(s, p.width-labelWidth, 2)...)
		label = ""
	}
}

// flush prints a sentence without a label, broken likewise.
func (p printer) flush(sentence string) {
	if len(sentence) <= p.width {
		fmt.Fprintln(p.w, sentence)
		return
	}
	for _, l := range fold(sentence, p.width, 2) {
		fmt.Fprintln(p.w, l)
	}
}

func (p printer) blank() { fmt.Fprintln(p.w) }

// facts prints lines as they are where they fit, else as prose.
func (p printer) facts(label string, lines ...string) {
	for _, l := range lines {
		if labelWidth+len(l) > p.width {
			p.prose(label, strings.Join(lines, " "))
			return
		}
	}
	p.section(label, lines...)
}

// wrapLayout breaks a layout's text between words where it would pass the width, before split= first. Each line is a layout's
// words too, so that lines can stand as arguments.
func (p printer) wrapLayout(key string) []string {
	width := p.width - labelWidth
	if len(key) <= width {
		return []string{key}
	}
	if i := strings.Index(key, "split="); i > 0 {
		return append(fold(key[:i], width, 0), fold(key[i:], width, 0)...)
	}
	return fold(key, width, 0)
}

// fold breaks text between words so that no line passes width, unless a word does; lines after the first are indented.
func fold(text string, width, indent int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > width:
			lines = append(lines, line)
			line = strings.Repeat(" ", indent) + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
