package report

import (
	"bytes"
	"testing"
)

// The three forms of one table, byte by byte.
func TestTableForms(t *testing.T) {
	words := Table{Head: []string{"n", "", "name"}, Text: []int{1}}
	words.Add("1", "x", "→ä")
	words.Add("", "", "")
	words.Add("12345", " kept ", "a|b")
	words.Add("1\n2", "é\nlonger\nz", "")
	empty := Table{Head: []string{"only", ""}}
	for _, c := range []struct {
		table  *Table
		format Format
		want   string
		reason string
	}{
		{&words, Text, `    n          name
    1  x         →ä

12345   kept    a|b
    1  é
    2  longer
       z
`, "numbers end at the right, words begin at the left; runes are counted, not bytes; no blank ends a line"},
		{&words, Markdown, `|     n |        | name |
|------:|:-------|-----:|
|     1 | x      |   →ä |
|       |        |      |
| 12345 |  kept  | a\|b |
|     1 | é      |      |
|     2 | longer |      |
|       | z      |      |
`, "a bar in a cell is escaped, and counted as it is written"},
		{&words, CSV, "n,,name\n1,x,→ä\n,,\n12345,\" kept \",a|b\n\"1\n2\",\"é\nlonger\nz\",\n", "nothing is padded"},
		{&empty, Text, "only\n", "no rows, and a column of nothing"},
		{&empty, Markdown, "| only |   |\n|-----:|--:|\n", "Markdown wants a dash in every column"},
	} {
		var out bytes.Buffer
		if err := c.table.Write(&out, c.format); err != nil || out.String() != c.want {
			t.Errorf("%s: error %v, got\n%swant\n%s(%s)", c.format, err, &out, c.want, c.reason)
		}
	}
}
