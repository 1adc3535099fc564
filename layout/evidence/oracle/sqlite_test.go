package oracle

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moeplan/moeplan/layout/evidence/sqlite"
	_ "modernc.org/sqlite"
	"pgregory.net/rapid"
)

// write lets SQLite itself, the oracle of these tests, make a database.
func write(t testing.TB, statements ...string) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "test.sqlite")
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(name)+"?_pragma=synchronous(0)&_pragma=journal_mode(memory)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func open(data []byte) (*sqlite.File, error) {
	return sqlite.Open(bytes.NewReader(data), int64(len(data)))
}

// rows are all of a table, each value as text.
func rows(f *sqlite.File, table string) ([][]string, error) {
	t, err := f.Table(table)
	if err != nil || t == nil {
		return nil, err
	}
	columns := make([]int, len(t.Columns))
	for i := range columns {
		columns[i] = i
	}
	var out [][]string
	err = t.Scan(columns, func(rowid int64, values []sqlite.Value) error {
		row := []string{fmt.Sprint(rowid)}
		for _, v := range values {
			row = append(row, show(v))
		}
		out = append(out, row)
		return nil
	})
	return out, err
}

func show(v sqlite.Value) string {
	switch v.Kind {
	case sqlite.Integer:
		return fmt.Sprint(v.Int)
	case sqlite.Real:
		return fmt.Sprintf("%g", v.Real)
	case sqlite.Text:
		return fmt.Sprintf("%q", v.Bytes)
	case sqlite.Blob:
		return fmt.Sprintf("x%x", v.Bytes)
	}
	return "null"
}

// TestAgainstSQLite: random tables, written by SQLite and read back, with rows removed in between, over page sizes, and with texts
// that run over many pages.
func TestAgainstSQLite(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.SampledFrom([]int{512, 1024, 4096, 65536}).Draw(r, "page size")
		statements := []string{fmt.Sprintf("PRAGMA page_size=%d", size),
			rapid.SampledFrom([]string{"CREATE TABLE t (a INT, k INTEGER PRIMARY KEY, b TEXT, c)", "CREATE TABLE t (a INT, k INTEGER, b TEXT, c, PRIMARY KEY(k))"}).Draw(r, "definition")}
		want := map[int64][]string{}
		for range rapid.IntRange(0, 60).Draw(r, "rows") {
			key := rapid.OneOf(rapid.Int64Range(1, 99), rapid.Int64()).Draw(r, "key")
			if _, taken := want[key]; taken {
				continue
			}
			number := rapid.OneOf(rapid.Int64Range(-2, 2), rapid.Int64()).Draw(r, "number")
			length := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 5000)).Draw(r, "length")
			text := strings.Repeat("abcdefghij", length/10+1)[:length]
			real := rapid.Float64Range(-1e9, 1e9).Draw(r, "real") + 0.5
			last, shown := fmt.Sprintf("%.17e", real), fmt.Sprintf("%g", real)
			if rapid.Bool().Draw(r, "null") {
				last, shown = "NULL", "null"
			} else if real == math.Trunc(real) {
				last, shown = "x'00ff'", "x00ff"
			}
			statements = append(statements, fmt.Sprintf("INSERT INTO t VALUES (%d, %d, '%s', %s)", number, key, text, last))
			want[key] = []string{fmt.Sprint(key), fmt.Sprint(number), fmt.Sprint(key), fmt.Sprintf("%q", text[:min(length, sqlite.MaxText)]), shown}
			if rapid.IntRange(0, 9).Draw(r, "removed") == 0 {
				statements = append(statements, fmt.Sprintf("DELETE FROM t WHERE k=%d", key))
				delete(want, key)
			}
		}
		data := write(t, append(append([]string{statements[0]}, statements[1], "BEGIN"), append(statements[2:], "COMMIT")...)...)
		f, err := open(data)
		if err != nil {
			r.Fatal(err)
		}
		got, err := rows(f, "T")
		if err != nil {
			r.Fatal(err)
		}
		if len(got) != len(want) {
			r.Fatalf("%d rows, want %d", len(got), len(want))
		}
		table, _ := f.Table("t")
		finder := table.Finder(table.Column("B"), table.Column("k"))
		if !table.Keyed("k") || table.Keyed("a") {
			r.Fatal("k is the rowid")
		}
		for i, row := range got {
			var key int64
			fmt.Sscan(row[0], &key)
			if d := cmp.Diff(want[key], row); d != "" {
				r.Fatalf("row %d: %s", i, d)
			}
			found, err := finder.Row(key)
			if err != nil || found == nil || found[1].Int != key || show(found[0]) != row[3] {
				r.Fatalf("row %d looked up: %v %v", key, found, err)
			}
			if key < math.MaxInt64 && want[key+1] == nil {
				if found, err := finder.Row(key + 1); err != nil || found != nil {
					r.Fatalf("row %d is not there: %v %v", key+1, found, err)
				}
			}
		}
	})
}

// TestDefinitions: each line is a definition as people and exporters write it.
func TestDefinitions(t *testing.T) {
	for _, tt := range []struct {
		sql, columns, key, err, reason string
	}{
		{"CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)", "id value", "id", "", "as nsys writes it"},
		{"CREATE TABLE t (\n -- a comment, with a comma\n start INTEGER NOT NULL, -- Event start (ns).\n [end] INT, /* , */ \"na\"\"me\" TEXT DEFAULT 'a,b)')", `start end na"me`, "", "", "comments, quotes and brackets"},
		{"CREATE TABLE t (id INT PRIMARY KEY, b)", "id b", "", "", "INT is not INTEGER: its key is an index of its own"},
		{"CREATE TABLE t (id INTEGER PRIMARY KEY DESC, b)", "id b", "", "", "SQLite's old quirk"},
		{"CREATE TABLE t (id INTEGER UNSIGNED PRIMARY KEY, b)", "id b", "", "", "a type of two words"},
		{"CREATE TABLE t (id INTEGER, b, CONSTRAINT k PRIMARY KEY (id), CHECK (b > 1))", "id b", "id", "", "a key among the constraints"},
		{"CREATE TABLE t (id INTEGER, b, PRIMARY KEY (id, b))", "id b", "", "", "a key of two columns"},
		{"CREATE TABLE t (a DECIMAL(10,2) CHECK (CAST(a AS INT) IN (1,2)), b REFERENCES u(c))", "a b", "", "", "commas and AS in parentheses"},
		{"CREATE TABLE t AS SELECT 1 AS x, 'a' AS y", "x y", "", "", "SQLite keeps columns, not the SELECT"},
		{"CREATE TABLE t (a INT PRIMARY KEY, b) WITHOUT ROWID", "", "", "keeps no rowids", "its rows lie in an index"},
		{"CREATE TABLE t (a, b AS (a+1))", "", "", "computed", "a virtual column is not stored, so the others would shift"},
		{"CREATE VIEW t AS SELECT 1", "", "", "is a view", "no SQL is run"},
	} {
		f, err := open(write(t, "CREATE TABLE u (c)", tt.sql))
		if err != nil {
			t.Errorf("%s: %v", tt.sql, err)
			continue
		}
		table, err := f.Table("t")
		if strings.Contains(tt.sql, "StringIds") {
			table, err = f.Table("stringids")
		}
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %q: %s", tt.sql, err, tt.err, tt.reason)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.sql, err)
			continue
		}
		key := ""
		for _, c := range table.Columns {
			if table.Keyed(c) {
				key = c
			}
		}
		if got := strings.Join(table.Columns, " "); got != tt.columns || key != tt.key {
			t.Errorf("%s: columns %q key %q, want %q %q: %s", tt.sql, got, key, tt.columns, tt.key, tt.reason)
		}
	}
}

// TestDamage: what is wrong is said, and where.
func TestDamage(t *testing.T) {
	fill := "INSERT INTO t SELECT value, printf('%0200d', value) FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value+1 FROM n WHERE value<500) SELECT value FROM n)"
	whole := write(t, "PRAGMA page_size=1024", "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)", fill, "INSERT INTO t VALUES (1000, printf('%05000d', 1))")
	for _, tt := range []struct {
		reason, want string
		damage       func([]byte) []byte
	}{
		{"nothing", "0 bytes are no database", func(b []byte) []byte { return nil }},
		{"another file", "does not begin with", func(b []byte) []byte { return bytes.Repeat([]byte("x"), 4096) }},
		{"its tail is missing", "it was cut: the header says", func(b []byte) []byte { return b[:len(b)-1024] }},
		{"half a page is missing", "it was cut: the header says", func(b []byte) []byte { return b[:len(b)-1] }},
		{"page size", "a page size of 1000", func(b []byte) []byte { b[16], b[17] = 3, 232; return b }},
		{"UTF-16", "text encoding 2", func(b []byte) []byte { b[59] = 2; return b }},
		{"a page of zeros", "it is no page of table", func(b []byte) []byte { clear(b[2048:3072]); return b }},
		{"a root that is its own child", "", func(b []byte) []byte { copy(b[1024+8:], []byte{0, 0, 0, 2}); return b }},
		{"two parents of one leaf", "comes after row", func(b []byte) []byte {
			root := b[1024:2048]
			first, second := int(root[12])<<8|int(root[13]), int(root[14])<<8|int(root[15])
			copy(root[second:second+4], root[first:first+4])
			return b
		}},
		{"a leaf without rows", "has no rows", func(b []byte) []byte { b[2048+3], b[2048+4] = 0, 0; return b }},
		{"cells that point into the head", "cell 0 is at 0", func(b []byte) []byte {
			clear(b[2048+8 : 2048+10])
			return b
		}},
	} {
		f, err := open(tt.damage(bytes.Clone(whole)))
		if err == nil {
			_, err = rows(f, "t")
		}
		var typed *sqlite.Error
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.reason, err, tt.want)
		}
	}
}
