package sqlite

import (
	"encoding/binary"
	"math"
)

// MaxText is how much of a text or blob a [Value] holds.
const MaxText = 1 << 10

// maxHeader bounds the header of a record: 32,767 columns, the most that SQLite can be built for, of a varint each.
const maxHeader = 1 << 18

// Kind is the storage class of a value.
type Kind uint8

const (
	Null Kind = iota
	Integer
	Real
	Text
	Blob
)

// Value is one column of a row.
type Value struct {
	Kind  Kind
	Int   int64   // of an Integer; of a Real with a whole value in range too
	Real  float64 // of a Real
	Bytes []byte  // of Text and Blob: the first MaxText, valid until the next row
}

// varint reads a big-endian base-128 integer of at most nine bytes; n is 0 where it was cut.
func varint(b []byte) (v int64, n int) {
	for i := range min(len(b), 9) {
		if i == 8 {
			return v<<8 | int64(b[8]), 9
		}
		v = v<<7 | int64(b[i]&0x7f)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// payload is the record of a cell: its local part, then a chain of overflow pages. It is read forwards.
type payload struct {
	w     *walker
	page  uint32 // of the cell, for errors
	local []byte
	total int64
	next  uint32 // overflow page after the one that is current
	// current is the content of the overflow page that begins at offset at of the record.
	current []byte
	at      int64
}

// read copies from an offset on that is not before those of earlier calls.
func (p *payload) read(offset int64, into []byte) error {
	if offset+int64(len(into)) > p.total {
		return broken(p.page, "a record of %d bytes has a value that ends at %d", p.total, offset+int64(len(into)))
	}
	if offset < int64(len(p.local)) {
		n := copy(into, p.local[offset:])
		offset, into = offset+int64(n), into[n:]
	}
	for len(into) > 0 {
		if p.current == nil || offset >= p.at+int64(len(p.current)) {
			if err := p.advance(); err != nil {
				return err
			}
			continue
		}
		n := copy(into, p.current[offset-p.at:])
		offset, into = offset+int64(n), into[n:]
	}
	return nil
}

// advance takes the next overflow page.
func (p *payload) advance() error {
	if p.current == nil {
		p.at = int64(len(p.local))
	} else {
		p.at += int64(len(p.current))
	}
	if p.next == 0 {
		return broken(p.page, "the overflow chain of a record of %d bytes ends after %d", p.total, p.at)
	}
	if err := p.w.use(p.next); err != nil {
		return err
	}
	if p.w.overflow == nil {
		p.w.overflow = make([]byte, p.w.file.usable)
	}
	page := p.w.overflow
	if err := p.w.file.page(p.next, page, p.w.walks); err != nil {
		return err
	}
	p.current, p.next = page[4:], binary.BigEndian.Uint32(page)
	return nil
}

// record reads the wanted columns of a record into the walker's values.
func (w *walker) record(p *payload, rowid int64) error {
	var first [9]byte
	if err := p.read(0, first[:min(9, p.total)]); err != nil {
		return err
	}
	size, n := varint(first[:min(9, p.total)])
	if n == 0 || size < int64(n) || size > p.total || size > maxHeader {
		return broken(p.page, "a record of %d bytes has a header of %d", p.total, size)
	}
	header := p.local
	if size > int64(len(p.local)) {
		w.header = append(w.header[:0], make([]byte, size)...)
		if err := p.read(0, w.header); err != nil {
			return err
		}
		header = w.header
	}
	header = header[n:size]
	clear(w.values)
	offset := size
	for column := 0; column < len(w.slot) && len(header) > 0; column++ {
		serial, n := varint(header)
		if n == 0 || serial < 0 {
			return broken(p.page, "a record's header ends within a type")
		}
		header = header[n:]
		width := widthOf(serial)
		if width < 0 {
			return broken(p.page, "a record has a value of the reserved type %d", serial)
		}
		if slot := w.slot[column]; slot >= 0 {
			if err := w.value(p, &w.values[slot], slot, serial, offset, width); err != nil {
				return err
			}
		}
		offset += width
		if offset > p.total {
			return broken(p.page, "a record of %d bytes has values up to %d", p.total, offset)
		}
	}
	if alias := w.table.rowid; alias >= 0 && alias < len(w.slot) && w.slot[alias] >= 0 {
		w.values[w.slot[alias]] = Value{Kind: Integer, Int: rowid}
	}
	return nil
}

// widthOf is how many bytes a value of a serial type has (section 2.1); -1 for a reserved type.
func widthOf(serial int64) int64 {
	switch {
	case serial <= 4:
		return serial
	case serial == 5:
		return 6
	case serial == 6, serial == 7:
		return 8
	case serial == 8, serial == 9:
		return 0
	case serial < 12:
		return -1
	}
	return (serial - 12) / 2
}

func (w *walker) value(p *payload, v *Value, slot int, serial, offset, width int64) error {
	var number [8]byte
	switch {
	case serial == 0:
		return nil
	case serial == 8, serial == 9:
		*v = Value{Kind: Integer, Int: serial - 8}
		return nil
	case serial < 8:
		if err := p.read(offset, number[8-width:]); err != nil {
			return err
		}
		bits := binary.BigEndian.Uint64(number[:])
		if serial == 7 {
			v.Kind, v.Real = Real, math.Float64frombits(bits)
			if v.Real >= -(1<<62) && v.Real <= 1<<62 {
				v.Int = int64(v.Real)
			}
			return nil
		}
		shift := 64 - 8*width
		*v = Value{Kind: Integer, Int: int64(bits<<shift) >> shift}
		return nil
	}
	v.Kind = Blob
	if serial%2 == 1 {
		v.Kind = Text
	}
	if offset+width > p.total {
		return broken(p.page, "a record of %d bytes has a value that ends at %d", p.total, offset+width)
	}
	n := min(width, w.text)
	w.texts[slot] = append(w.texts[slot][:0], make([]byte, n)...)
	v.Bytes = w.texts[slot]
	return p.read(offset, v.Bytes)
}
