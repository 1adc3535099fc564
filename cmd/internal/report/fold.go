package report

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// gap is what the text form puts behind a column.
const gap = 2

// readable is the width below which a column of words is not broken any more.
const readable = 16

// folded is the table for a reader of so many columns: without the least important columns as far as need be, then with
// its columns of words broken over several lines, at last without the columns on the right. It names what is left
// out.
func (t *Table) folded(width int) (*Table, []string) {
	out := &Table{Head: t.Head, Text: t.Text, rows: slices.Clone(t.rows)}
	least := slices.Clone(t.Least)
	var left []string
	for {
		widths := out.widths()
		over := sum(widths) + gap*(len(widths)-1) - width
		if over <= 0 {
			return out, left
		}
		drop := len(out.Head) - 1
		switch {
		case len(least) > 0:
			drop = least[0]
		case out.breakWords(widths, over):
			return out, left
		case len(out.Head) <= 2:
			return out, left // what is left cannot be broken
		}
		if name := out.Head[drop]; name != "" {
			left = append(left, name)
		}
		out = out.without(drop)
		least = shifted(least, drop)
	}
}

func sum(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}

// shifted are the column numbers that remain once one column is gone.
func shifted(columns []int, gone int) []int {
	var out []int
	for _, c := range columns {
		switch {
		case c < gone:
			out = append(out, c)
		case c > gone:
			out = append(out, c-1)
		}
	}
	return out
}

func (t *Table) widths() []int {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.rows...) {
		for i, cell := range row {
			for line := range strings.SplitSeq(cell, "\n") {
				widths[i] = max(widths[i], utf8.RuneCountInString(line))
			}
		}
	}
	return widths
}

func (t *Table) without(column int) *Table {
	cut := func(row []string) []string { return slices.Delete(slices.Clone(row), column, column+1) }
	out := &Table{Head: cut(t.Head), Text: shifted(t.Text, column), rows: make([][]string, len(t.rows))}
	for i, row := range t.rows {
		out.rows[i] = cut(row)
	}
	return out
}

// breakWords breaks columns of words, always the widest, until the table has lost so many columns; false if they would
// become too narrow to read.
func (t *Table) breakWords(widths []int, over int) bool {
	to := slices.Clone(widths)
	for ; over > 0; over-- {
		widest := -1
		for _, c := range t.Text {
			if to[c] > t.narrow(c) && (widest < 0 || to[c] > to[widest]) {
				widest = c
			}
		}
		if widest < 0 {
			return false
		}
		to[widest]--
	}
	for i, row := range t.rows {
		row = slices.Clone(row)
		for _, c := range t.Text {
			if to[c] < widths[c] {
				row[c] = strings.Join(fold(cutWords(row[c], to[c]), to[c], 0), "\n")
			}
		}
		t.rows[i] = row
	}
	return true
}

// narrow is the least width of a column of words: its head, and a word that is not too long to be cut.
func (t *Table) narrow(column int) int {
	least := max(readable, utf8.RuneCountInString(t.Head[column]))
	for _, row := range t.rows {
		for word := range strings.FieldsSeq(row[column]) {
			if n := utf8.RuneCountInString(word); n <= longWord {
				least = max(least, n)
			}
		}
	}
	return least
}

// longWord is the length from which a word, mostly a path or a list, is cut rather than given its room.
const longWord = 24

// cutWords cuts words that are longer than a width.
func cutWords(text string, width int) string {
	var out []string
	for word := range strings.FieldsSeq(text) {
		r := []rune(word)
		for len(r) > width {
			out = append(out, string(r[:width]))
			r = r[width:]
		}
		out = append(out, string(r))
	}
	return strings.Join(out, " ")
}
