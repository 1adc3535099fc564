package sqlite

import (
	"errors"
	"fmt"
	"strings"
)

// definition is what of a CREATE TABLE matters for its rows.
type definition struct {
	columns []string
	integer []bool // whether a column's type is exactly INTEGER
	rowid   int    // the INTEGER PRIMARY KEY, -1: none
}

// word is one token of SQL.
type word struct {
	text   string
	quoted bool // a name or string in quotes: no keyword
}

// is reports whether a word is a keyword or punctuation.
func (w word) is(keyword string) bool { return !w.quoted && strings.EqualFold(w.text, keyword) }

var errDefinition = errors.New("its definition is not understood")

// readDefinition reads the text of a CREATE TABLE as SQLite keeps it in its schema.
func readDefinition(sql string) (*definition, error) {
	words, err := wordsOf(sql)
	if err != nil {
		return nil, err
	}
	open := 0
	for open < len(words) && !words[open].is("(") {
		open++
	}
	if open == len(words) || !words[0].is("CREATE") {
		return nil, errDefinition
	}
	d := &definition{rowid: -1}
	depth, start := 1, open+1
	i := start
	for ; i < len(words) && depth > 0; i++ {
		switch w := words[i]; {
		case w.is("("):
			depth++
			continue
		case w.is(")"):
			depth--
		case !w.is(",") || depth > 1:
			continue
		}
		if depth > 1 || depth == 1 && !words[i].is(",") {
			continue
		}
		if err := d.add(words[start:i]); err != nil {
			return nil, err
		}
		start = i + 1
	}
	if depth != 0 || len(d.columns) == 0 {
		return nil, errDefinition
	}
	for _, w := range words[i:] {
		if w.is("WITHOUT") {
			return nil, errors.New("it keeps no rowids")
		}
	}
	return d, nil
}

// add takes a column or a constraint of the table.
func (d *definition) add(words []word) error {
	if len(words) == 0 {
		return errDefinition
	}
	for _, keyword := range []string{"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"} {
		if words[0].is(keyword) {
			d.constraint(words)
			return nil
		}
	}
	if len(d.columns) == maxColumns {
		return fmt.Errorf("more than %d columns", maxColumns)
	}
	integer, depth := len(words) > 1 && strings.EqualFold(words[1].text, "INTEGER") && plainType(words), 0
	for i, w := range words[1:] {
		switch {
		case w.is("("):
			depth++
		case w.is(")"):
			depth--
		case depth == 0 && w.is("AS"):
			return fmt.Errorf("column %q is computed", words[0].text)
		// By an old quirk a key in descending order is not the rowid.
		case depth == 0 && w.is("PRIMARY") && integer && !(i+3 < len(words) && words[i+3].is("DESC")):
			d.rowid = len(d.columns)
		}
	}
	d.columns, d.integer = append(d.columns, words[0].text), append(d.integer, integer)
	return nil
}

// plainType reports whether the type of a column is a single word.
func plainType(words []word) bool {
	if len(words) < 3 {
		return true
	}
	for _, keyword := range []string{"CONSTRAINT", "PRIMARY", "NOT", "NULL", "UNIQUE", "CHECK", "DEFAULT", "COLLATE", "REFERENCES", "GENERATED"} {
		if words[2].is(keyword) {
			return true
		}
	}
	return false
}

// constraint looks for PRIMARY KEY (column) over one INTEGER column.
func (d *definition) constraint(words []word) {
	if words[0].is("CONSTRAINT") && len(words) > 2 {
		words = words[2:]
	}
	if len(words) < 5 || !words[0].is("PRIMARY") || !words[2].is("(") {
		return
	}
	end := 4
	if words[end].is("ASC") || words[end].is("DESC") {
		end++
	}
	if end == len(words) || !words[end].is(")") { // more columns
		return
	}
	for i, name := range d.columns {
		if d.integer[i] && strings.EqualFold(name, words[3].text) {
			d.rowid = i
		}
	}
}

// wordsOf splits SQL into words, without comments.
func wordsOf(sql string) ([]word, error) {
	var out []word
	for i := 0; i < len(sql); {
		c := sql[i]
		switch {
		case c <= ' ':
			i++
		case strings.HasPrefix(sql[i:], "--"):
			if n := strings.IndexByte(sql[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(sql)
			}
		case strings.HasPrefix(sql[i:], "/*"):
			if n := strings.Index(sql[i+2:], "*/"); n >= 0 {
				i += n + 4
			} else {
				i = len(sql)
			}
		case strings.IndexByte("\"'`[", c) >= 0:
			text, n := quotedWord(sql[i:])
			if n == 0 {
				return nil, errDefinition
			}
			out = append(out, word{text, true})
			i += n
		case letter(c):
			n := 1
			for i+n < len(sql) && letter(sql[i+n]) {
				n++
			}
			out = append(out, word{sql[i : i+n], false})
			i += n
		default:
			out = append(out, word{sql[i : i+1], false})
			i++
		}
	}
	return out, nil
}

func letter(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// quotedWord reads a name or string in quotes; a doubled quote stands for one. n is 0 where the end is missing.
func quotedWord(s string) (text string, n int) {
	end := s[0]
	if end == '[' {
		end = ']'
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != end {
			b.WriteByte(s[i])
			continue
		}
		if end != ']' && i+1 < len(s) && s[i+1] == end {
			b.WriteByte(end)
			i++
			continue
		}
		return b.String(), i + 1
	}
	return "", 0
}
