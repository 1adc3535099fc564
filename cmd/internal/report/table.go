package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
)

// Format is how a table is written.
type Format string

const (
	Text     Format = "table"
	Markdown Format = "markdown"
	CSV      Format = "csv"
)

// Table is rows of text under a head. Columns are right-aligned, but for those listed in Text.
type Table struct {
	Head []string
	Text []int
	// Least lists the columns that may be left out where the reader has no room, the least important first. It matters to
	// text alone: what a program reads is whole.
	Least []int
	rows  [][]string
}

// Add appends a row. A row whose width differs from the head's is a bug, and panics.
func (t *Table) Add(cells ...string) {
	if len(cells) != len(t.Head) {
		panic(fmt.Sprintf("bug: row of %d cells under a head of %d", len(cells), len(t.Head)))
	}
	t.rows = append(t.rows, cells)
}

// Write writes the table in the given format.
func (t *Table) Write(w io.Writer, f Format) error {
	if f == CSV {
		c := csv.NewWriter(w)
		if err := c.WriteAll(append([][]string{t.Head}, t.rows...)); err != nil {
			return err
		}
		return c.Error()
	}
	if columns := outputOf(w).Columns; f == Text && columns > 0 {
		narrow, left := t.folded(max(narrowest, columns))
		if err := narrow.Write(outputOf(w).Writer, f); err != nil || len(left) == 0 {
			return err
		}
		for _, l := range fold(fmt.Sprintf("not shown in %d columns: %s", columns, strings.Join(left, ", ")), columns, 2) {
			if _, err := fmt.Fprintln(w, l); err != nil {
				return err
			}
		}
		return nil
	}
	text := t.aligned
	if f == Markdown {
		text = t.markdown
	}
	_, err := io.WriteString(w, text())
	return err
}
