package sqlite

import (
	"slices"
	"strings"
)

const (
	maxTables  = 1 << 12
	maxSQL     = 1 << 16 // of a CREATE TABLE
	maxColumns = 1 << 11 // SQLite's own default
)

// Table is an ordinary table with rowids.
type Table struct {
	Name string
	// Columns are the names in the order of the schema.
	Columns []string

	file   *File
	root   uint32
	rowid  int   // the column that is another name of the rowid; -1: none
	broken error // why it cannot be read
}

// Column is the index of a column, whatever its case; -1 for none.
func (t *Table) Column(name string) int {
	return slices.IndexFunc(t.Columns, func(c string) bool { return strings.EqualFold(c, name) })
}

// Keyed reports whether a column is another name of the rowid, so that a [Finder] finds a row by it.
func (t *Table) Keyed(name string) bool { return t.rowid >= 0 && t.Column(name) == t.rowid }

// Table finds a table, whatever the case of its name; nil for none. Errors: *Error for a view, a virtual table and one that keeps
// no rowids.
func (f *File) Table(name string) (*Table, error) {
	t := f.tables[strings.ToLower(name)]
	if t == nil {
		return nil, nil
	}
	return t, t.broken
}

// Names are those of all tables and views, sorted.
func (f *File) Names() []string {
	var out []string
	for _, t := range f.tables {
		out = append(out, t.Name)
	}
	slices.Sort(out)
	return out
}

// schema reads the table of tables, whose root is page 1.
func (f *File) schema() error {
	f.tables = map[string]*Table{}
	master := &Table{Name: "sqlite_schema", file: f, root: 1, rowid: -1}
	w := master.walker([]int{0, 1, 3, 4})
	w.text = maxSQL + 1
	return w.walk(1, 0, func(int64) error {
		kind, name, root, sql := string(w.values[0].Bytes), string(w.values[1].Bytes), w.values[2].Int, w.values[3].Bytes
		if kind != "table" && kind != "view" {
			return nil
		}
		if len(f.tables) >= maxTables {
			return broken(0, "more than %d tables", maxTables)
		}
		t := &Table{Name: name, file: f, rowid: -1}
		f.tables[strings.ToLower(name)] = t
		switch {
		case kind == "view":
			t.broken = broken(0, "%s is a view: what a view computes is not run; want a table", name)
		case root <= 0 || root > int64(f.pages):
			t.broken = broken(0, "table %s has no pages of its own (root %d)", name, root)
		case len(sql) > maxSQL:
			t.broken = broken(0, "table %s has a definition of over %d bytes", name, maxSQL)
		default:
			t.root = uint32(root)
			if d, err := readDefinition(string(sql)); err != nil {
				t.broken = broken(0, "table %s: %v", name, err)
			} else {
				t.Columns, t.rowid = d.columns, d.rowid
			}
		}
		return nil
	})
}
