package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Whatever a table holds and however narrow the reader is, no line passes the width unless a single word does, the first
// column stays, nothing is lost without being named, and a reader without a width gets everything.
func TestTablesFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "columns")
		table := Table{}
		for i := range n {
			table.Head = append(table.Head, "h"+strings.Repeat("x", i))
			if rapid.Bool().Draw(t, "text") {
				table.Text = append(table.Text, i)
			} else if i > 0 && rapid.Bool().Draw(t, "least") {
				table.Least = append(table.Least, i)
			}
		}
		word := rapid.StringMatching(`[a-z]{1,9}|[a-z]{30,50}`)
		number := rapid.StringMatching(`[0-9]{1,9}`)
		for range rapid.IntRange(1, 4).Draw(t, "rows") {
			row := make([]string, n)
			for i := range row {
				words := 1
				if slices.Contains(table.Text, i) {
					words = rapid.IntRange(1, 12).Draw(t, "words")
				}
				of := number
				if slices.Contains(table.Text, i) {
					of = word
				}
				row[i] = strings.Join(rapid.SliceOfN(of, words, words).Draw(t, "cell"), " ")
			}
			table.Add(row...)
		}
		width := rapid.IntRange(40, 120).Draw(t, "width")
		var narrow, whole bytes.Buffer
		if err := table.Write(Output{Writer: &narrow, Columns: width}, Text); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(narrow.String()) {
			if got := utf8.RuneCountInString(strings.TrimRight(line, "\n")); got > width {
				t.Fatalf("%d columns of %d:\n%s", got, width, &narrow)
			}
		}
		for _, head := range table.Head {
			if !strings.Contains(narrow.String(), head) {
				t.Fatalf("%s is neither shown nor named:\n%s", head, &narrow)
			}
		}
		if !strings.HasPrefix(strings.TrimLeft(narrow.String(), " "), "h") {
			t.Fatalf("the first column is gone:\n%s", &narrow)
		}
		if err := table.Write(&whole, Text); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(whole.String(), "not shown") {
			t.Fatal("a file has no width")
		}
	})
}

// Colours are for those who see them, and the words are there without.
func TestPaint(t *testing.T) {
	var plain, painted bytes.Buffer
	for _, o := range []Output{{Writer: &plain}, {Writer: &painted, Color: true}} {
		p := printerTo(o)
		p.section("TRY FIRST", "tp1")
		p.prose("", "FITS, up to a routing imbalance of 2")
		p.prose("MEMORY", "NO: stage 0 allocates too much")
		p.prose("", "NOTHING painted here")
	}
	if strings.Contains(plain.String(), "\x1b") {
		t.Errorf("colour where none is shown: %q", plain.String())
	}
	if !strings.Contains(painted.String(), "\x1b[1;32mFITS\x1b[0m,") || !strings.Contains(painted.String(), "\x1b[1;31mNO\x1b[0m:") {
		t.Errorf("verdicts are not painted: %q", painted.String())
	}
	bare := painted.String()
	for _, code := range []string{"0", "1", "1;31", "1;32", "1;33"} {
		bare = strings.ReplaceAll(bare, "\x1b["+code+"m", "")
	}
	if bare != plain.String() {
		t.Errorf("colour changes more than the colour:\n%q\n%q", bare, plain.String())
	}
}
