package sqlite

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// seed is a database of testdata/generate.py. What SQLite itself says of databases is tested in layout/evidence/oracle.
func seed(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func open(data []byte) (*File, error) { return Open(bytes.NewReader(data), int64(len(data))) }

// TestBudget: a scan ends after as many pages as there are, which every cycle and every chain that records share runs into. Without
// it, as many records as a page holds, all with one chain, cost the square of the file.
func TestBudget(t *testing.T) {
	f, err := open(seed(t, "long.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := f.Table("t")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		column int
		left   int64
		want   string
		reason string
	}{
		{1, int64(f.pages), "", "a value behind 12,000 bytes of text is reached through the chain"},
		{1, int64(f.pages) / 2, "runs in a circle", "the chain takes nearly all pages"},
		{0, 8, "", "a text's first kilobyte needs three pages of the chain"},
	} {
		w := table.walker([]int{tt.column})
		w.left = tt.left
		err := w.walk(table.root, 0, func(int64) error { return nil })
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.reason, err, tt.want)
		}
		if err == nil && tt.column == 1 && w.values[0].Int != 7 {
			t.Errorf("%s: %v", tt.reason, w.values[0])
		}
	}
}

// FuzzFile: whatever the bytes, an answer or an error, and no more rows than bytes.
func FuzzFile(f *testing.F) {
	for _, name := range []string{"kinds.sqlite", "levels.sqlite", "long.sqlite"} {
		f.Add(seed(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := open(data)
		if err != nil {
			return
		}
		for _, name := range file.Names() {
			table, err := file.Table(name)
			if err != nil {
				continue
			}
			columns := make([]int, len(table.Columns))
			for i := range columns {
				columns[i] = i
			}
			var keys []int64
			err = table.Scan(columns, func(rowid int64, values []Value) error {
				keys = append(keys, rowid)
				for _, v := range values {
					if len(v.Bytes) > MaxText {
						t.Fatalf("a text of %d bytes", len(v.Bytes))
					}
				}
				return nil
			})
			if len(keys) > len(data) {
				t.Fatalf("%d rows in %d bytes", len(keys), len(data))
			}
			finder := table.Finder(columns...)
			for _, key := range keys[:min(len(keys), 100)] {
				if row, lost := finder.Row(key); err == nil && lost != nil {
					t.Fatalf("row %d was scanned and is not found: %v %v", key, row, lost)
				}
			}
		}
	})
}
