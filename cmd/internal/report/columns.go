package report

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// frame is what stands around the cells of a row.
type frame struct{ before, between, after string }

var (
	plainFrame    = frame{between: strings.Repeat(" ", gap)}
	markdownFrame = frame{"| ", " | ", " |"}
)

// aligned is the table as text, its columns under their heads.
func (t *Table) aligned() string {
	var b strings.Builder
	widths := t.widths()
	t.row(&b, plainFrame, widths, t.Head)
	for _, row := range t.rows {
		t.row(&b, plainFrame, widths, row)
	}
	return b.String()
}

// markdown is the table in GitHub's Markdown, in columns for those who read it as text.
func (t *Table) markdown() string {
	bars := Table{Head: t.Head, Text: t.Text, rows: escaped(t.rows)}
	widths := bars.widths()
	rule := make([]string, len(widths))
	for i := range widths {
		widths[i] = max(1, widths[i])
		dashes := strings.Repeat("-", widths[i]+1)
		if rule[i] = dashes + ":"; bars.left(i) {
			rule[i] = ":" + dashes
		}
	}
	var b strings.Builder
	bars.row(&b, markdownFrame, widths, bars.Head)
	b.WriteString("|" + strings.Join(rule, "|") + "|\n")
	for _, row := range bars.rows {
		bars.row(&b, markdownFrame, widths, row)
	}
	return b.String()
}

// left tells a column of words from one of numbers, which ends at the right.
func (t *Table) left(column int) bool { return slices.Contains(t.Text, column) }

// row writes one row, on as many lines as its fullest cell has. Lines end where their text does.
func (t *Table) row(b *strings.Builder, f frame, widths []int, cells []string) {
	parts := make([][]string, len(cells))
	lines := 1
	for i, cell := range cells {
		parts[i] = strings.Split(cell, "\n")
		lines = max(lines, len(parts[i]))
	}
	for n := range lines {
		var line strings.Builder
		line.WriteString(f.before)
		for i, part := range parts {
			if i > 0 {
				line.WriteString(f.between)
			}
			text := ""
			if n < len(part) {
				text = part[n]
			}
			blank := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if t.left(i) {
				text += blank
			} else {
				text = blank + text
			}
			line.WriteString(text)
		}
		line.WriteString(f.after)
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// escaped keeps bars inside cells from ending them in Markdown.
func escaped(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = make([]string, len(row))
		for j, cell := range row {
			out[i][j] = strings.ReplaceAll(cell, "|", "\\|")
		}
	}
	return out
}
