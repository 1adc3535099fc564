package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
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
	rows := t.rows
	if f == Markdown {
		rows = escaped(rows)
	}
	align := make([]tw.Align, len(t.Head))
	for i := range align {
		align[i] = tw.AlignRight
		if slices.Contains(t.Text, i) {
			align[i] = tw.AlignLeft
		}
	}
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoFormat: tw.Off, AutoWrap: tw.WrapNone},
		Alignment:  tw.CellAlignment{PerColumn: align},
	}
	if f == Text {
		cell.Padding = tw.CellPadding{Global: tw.Padding{Left: "", Right: "  ", Overwrite: true}}
	}
	options := []tablewriter.Option{
		tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell}),
		tablewriter.WithEastAsian(tw.Off),
	}
	if f == Markdown {
		options = append(options, tablewriter.WithRenderer(renderer.NewMarkdown()))
	} else {
		options = append(options, tablewriter.WithRendition(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Lines: tw.LinesNone, Separators: tw.SeparatorsNone},
		}))
	}
	var out bytes.Buffer
	table := tablewriter.NewTable(&out, options...)
	table.Header(t.Head)
	if err := table.Bulk(rows); err != nil {
		return err
	}
	if err := table.Render(); err != nil {
		return err
	}
	for line := range bytes.Lines(out.Bytes()) {
		if _, err := fmt.Fprintf(w, "%s\n", bytes.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
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
