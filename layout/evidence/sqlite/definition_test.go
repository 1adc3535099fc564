package sqlite

import "testing"

// TestRowid: which column is another name of the rowid, as SQLite's documentation of CREATE TABLE has it (section 5, ROWIDs and
// the INTEGER PRIMARY KEY). Taking one that is not would replace its values.
func TestRowid(t *testing.T) {
	for _, tt := range []struct {
		sql    string
		want   int
		reason string
	}{
		{`CREATE TABLE t (a INTEGER PRIMARY KEY, b)`, 0, "at the column"},
		{`CREATE TABLE t (a INTEGER PRIMARY KEY DESC, b)`, -1, "the old quirk"},
		{`CREATE TABLE t (a INT PRIMARY KEY, b)`, -1, "the type is not exactly INTEGER"},
		{`CREATE TABLE t (b, a INTEGER, PRIMARY KEY (a))`, 1, "as a constraint"},
		{`CREATE TABLE t (b, a INTEGER, PRIMARY KEY (a DESC))`, 1, "the quirk is the column's alone"},
		{`CREATE TABLE t (b, a INTEGER, CONSTRAINT k PRIMARY KEY (a ASC))`, 1, "with a name and an order"},
		{`CREATE TABLE t (a INTEGER, b INTEGER, PRIMARY KEY (a, b))`, -1, "over two columns"},
		{`CREATE TABLE t (a INTEGER, b INTEGER, PRIMARY KEY (a ASC, b))`, -1, "over two columns, the first with an order"},
	} {
		d, err := readDefinition(tt.sql)
		if err != nil {
			t.Errorf("%s: %v", tt.sql, err)
		} else if d.rowid != tt.want {
			t.Errorf("%s: column %d, want %d: %s", tt.sql, d.rowid, tt.want, tt.reason)
		}
	}
}
