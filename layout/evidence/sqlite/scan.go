package sqlite

import (
	"encoding/binary"
	"math"
)

// maxDepth of a tree; SQLite's own limit.
const maxDepth = 20

const (
	interiorTable = 0x05
	leafTable     = 0x0d
)

// walker reads rows of one table.
type walker struct {
	file     *File
	table    *Table
	slot     []int // by column: where its value goes, -1: not wanted
	values   []Value
	text     int64 // how much of a text is kept
	texts    [][]byte
	stack    [maxDepth][]byte // a page for each level
	walks    bool             // from row to row, and does not look rows up
	overflow []byte
	header   []byte
	left     int64 // pages that may still be used
}

func (t *Table) walker(columns []int) *walker {
	w := &walker{file: t.file, table: t, values: make([]Value, len(columns)), texts: make([][]byte, len(columns)), text: MaxText, left: int64(t.file.pages), walks: true}
	for slot, column := range columns {
		for column >= len(w.slot) {
			w.slot = append(w.slot, -1)
		}
		if column >= 0 {
			w.slot[column] = slot
		}
	}
	return w
}

// use counts a page. In a sound tree every page is used once, so that as many uses as there are pages are a cycle or a share.
func (w *walker) use(page uint32) error {
	if w.left--; w.left < 0 {
		return broken(page, "the tree of table %q uses more pages than there are: it runs in a circle", w.table.Name)
	}
	return nil
}

// Scan calls row for every row, by rowid. columns are indices as [Table.Column] gives them, each but once; a negative one gives
// Null, as does a column that the row is too short for. values and their bytes are valid until row returns. An error of row
// ends the scan and is returned.
func (t *Table) Scan(columns []int, row func(rowid int64, values []Value) error) error {
	w := t.walker(columns)
	last := int64(math.MinInt64)
	first := true
	return w.walk(t.root, 0, func(rowid int64) error {
		if !first && rowid <= last {
			return broken(0, "table %q: row %d comes after row %d", t.Name, rowid, last)
		}
		first, last = false, rowid
		return row(rowid, w.values)
	})
}

// load copies a page onto the stack and returns its cells.
func (w *walker) load(number uint32, depth int) (*treePage, error) {
	if depth == maxDepth {
		return nil, broken(number, "the tree of table %q has more than %d levels", w.table.Name, maxDepth)
	}
	if err := w.use(number); err != nil {
		return nil, err
	}
	if w.stack[depth] == nil {
		w.stack[depth] = make([]byte, w.file.usable)
	}
	p := &treePage{number: number, data: w.stack[depth]}
	if err := w.file.page(number, p.data, w.walks); err != nil {
		return nil, err
	}
	at := 0
	if number == 1 {
		at = headerSize
	}
	head := 8
	switch p.data[at] {
	case interiorTable:
		head = 12
		p.interior = true
		p.last = binary.BigEndian.Uint32(p.data[at+8:])
	case leafTable:
	default:
		return nil, broken(number, "it is no page of table %q: type %#02x", w.table.Name, p.data[at])
	}
	p.cells = int(binary.BigEndian.Uint16(p.data[at+3:]))
	p.first = at + head
	if p.first+2*p.cells > len(p.data) {
		return nil, broken(number, "%d cells do not fit", p.cells)
	}
	// Only a table without rows has a leaf without. Every other leaf adds rows, which must rise, so that a page with several
	// parents is noticed at once, however many pages a sparse file claims.
	if depth > 0 && !p.interior && p.cells == 0 {
		return nil, broken(number, "a leaf of table %q has no rows", w.table.Name)
	}
	return p, nil
}

// treePage is a page of a table's tree.
type treePage struct {
	number   uint32
	data     []byte
	interior bool
	cells    int
	first    int    // offset of the cells' offsets
	last     uint32 // child after the cells
}

// cell is what stands from cell i on.
func (p *treePage) cell(i int) ([]byte, error) {
	at := int(binary.BigEndian.Uint16(p.data[p.first+2*i:]))
	if at < p.first+2*p.cells || at+4 > len(p.data) {
		return nil, broken(p.number, "cell %d is at %d", i, at)
	}
	return p.data[at:], nil
}

// child is the page and the largest rowid of cell i of an interior page.
func (p *treePage) child(i int) (page uint32, key int64, err error) {
	c, err := p.cell(i)
	if err != nil {
		return 0, 0, err
	}
	key, n := varint(c[4:])
	if n == 0 {
		return 0, 0, broken(p.number, "cell %d was cut", i)
	}
	return binary.BigEndian.Uint32(c), key, nil
}

func (w *walker) walk(number uint32, depth int, row func(int64) error) error {
	p, err := w.load(number, depth)
	if err != nil {
		return err
	}
	for i := range p.cells {
		if p.interior {
			child, _, err := p.child(i)
			if err == nil {
				err = w.walk(child, depth+1, row)
			}
			if err != nil {
				return err
			}
			continue
		}
		rowid, err := w.leaf(p, i)
		if err == nil {
			err = row(rowid)
		}
		if err != nil {
			return err
		}
	}
	if p.interior {
		return w.walk(p.last, depth+1, row)
	}
	return nil
}

// leaf reads the row of a cell into the walker's values.
func (w *walker) leaf(p *treePage, i int) (int64, error) {
	size, rowid, body, err := p.row(i)
	if err != nil {
		return 0, err
	}
	record := payload{w: w, page: p.number, total: size}
	local := int(localSize(size, int64(w.file.usable)))
	if local > len(body) || int64(local) < size && local+4 > len(body) {
		return 0, broken(p.number, "cell %d of %d bytes does not fit", i, size)
	}
	record.local = body[:local]
	if int64(local) < size {
		record.next = binary.BigEndian.Uint32(body[local:])
	}
	return rowid, w.record(&record, rowid)
}

// row is the size of a leaf cell's record, its rowid, and what stands from the record on.
func (p *treePage) row(i int) (size, rowid int64, body []byte, err error) {
	c, err := p.cell(i)
	if err != nil {
		return 0, 0, nil, err
	}
	size, n := varint(c)
	rowid, m := varint(c[n:])
	if n == 0 || m == 0 || size < 1 || size > math.MaxInt32 {
		return 0, 0, nil, broken(p.number, "cell %d holds a record of %d bytes", i, size)
	}
	return size, rowid, c[n+m:], nil
}

// localSize is how much of a record of a table stands in its cell (section 1.6, table leaf cells).
func localSize(total, usable int64) int64 {
	most := usable - 35
	if total <= most {
		return total
	}
	least := (usable-12)*32/255 - 23
	if n := least + (total-least)%(usable-4); n <= most {
		return n
	}
	return least
}

// Finder finds rows of a table by their rowid.
type Finder struct{ w *walker }

// Finder looks for rows; columns are as those of [Table.Scan].
func (t *Table) Finder(columns ...int) *Finder {
	w := t.walker(columns)
	w.walks = false
	return &Finder{w}
}

// Row finds a row; nil for none. Its values are valid until the next call.
func (f *Finder) Row(rowid int64) ([]Value, error) {
	w := f.w
	w.left = int64(w.file.pages)
	number := w.table.root
	for depth := 0; ; depth++ {
		p, err := w.load(number, depth)
		if err != nil {
			return nil, err
		}
		// The first cell whose key is not smaller.
		low, high := 0, p.cells
		for low < high {
			middle := (low + high) / 2
			var key int64
			if p.interior {
				_, key, err = p.child(middle)
			} else {
				_, key, _, err = p.row(middle)
			}
			switch {
			case err != nil:
				return nil, err
			case key < rowid:
				low = middle + 1
			default:
				high = middle
			}
		}
		switch {
		case p.interior && low == p.cells:
			number = p.last
		case p.interior:
			if number, _, err = p.child(low); err != nil {
				return nil, err
			}
		case low == p.cells:
			return nil, nil
		default:
			found, err := w.leaf(p, low)
			if err != nil || found != rowid {
				return nil, err
			}
			return w.values, nil
		}
	}
}
