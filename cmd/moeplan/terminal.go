package main

import (
	"io"
	"os"
	"strconv"

	"github.com/moeplan/moeplan/cmd/internal/report"
	tty "golang.org/x/term"
)

// outputTo says what is known about the reader of a writer. COLUMNS holds for every reader, as people set it who want
// their files narrow too; otherwise only a terminal has a width. Colour is for terminals, unless NO_COLOR
// (https://no-color.org) is set or TERM is dumb.
func outputTo(w, result io.Writer, env func(string) string) report.Output {
	out := report.Output{Writer: w}
	f, ok := result.(*os.File)
	terminal := ok && tty.IsTerminal(int(f.Fd()))
	if terminal {
		if columns, _, err := tty.GetSize(int(f.Fd())); err == nil {
			out.Columns = columns
		}
		out.Color = env("NO_COLOR") == "" && env("TERM") != "dumb"
	}
	if n, err := strconv.Atoi(env("COLUMNS")); err == nil && n > 0 {
		out.Columns = n
	}
	return out
}
