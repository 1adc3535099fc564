package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Magic is how every database begins.
const Magic = "SQLite format 3\x00"

const (
	headerSize = 100
	minPage    = 512
	maxPage    = 1 << 16
	minUsable  = 480     // section 1.3.4
	chunkSize  = 1 << 16 // read at once; a multiple of every page size
	numChunks  = 64
)

// Error says what is wrong with a file, or what of it is not supported.
type Error struct {
	Page uint32 // 0: the file as a whole
	What string
}

func (e *Error) Error() string {
	if e.Page == 0 {
		return "SQLite database: " + e.What
	}
	return fmt.Sprintf("SQLite database, page %d: %s", e.Page, e.What)
}

func broken(page uint32, format string, args ...any) error {
	return &Error{page, fmt.Sprintf(format, args...)}
}

// File is a database that is open for reading. It is not safe for concurrent use.
type File struct {
	src      io.ReaderAt
	size     int64
	pageSize int
	usable   int // pageSize without what extensions reserve
	pages    uint32
	chunks   [numChunks]chunk
	tables   map[string]*Table
}

// chunk is a stretch of the file in the cache.
type chunk struct {
	at   int64 // index of the stretch + 1; 0: empty
	data []byte
}

// Open reads the header and the schema. Errors: *Error for what is no database, was cut, or is of a kind that is not read
// (UTF-16), and what src returns.
func Open(src io.ReaderAt, size int64) (*File, error) {
	head := make([]byte, headerSize)
	if size < headerSize {
		return nil, broken(0, "%d bytes are no database: its header alone has %d", size, headerSize)
	}
	if n, err := src.ReadAt(head, 0); n < headerSize {
		return nil, fmt.Errorf("SQLite database: its header: %w", unexpected(err))
	}
	f := &File{src: src, size: size}
	if err := f.header(head); err != nil {
		return nil, err
	}
	return f, f.schema()
}

func (f *File) header(head []byte) error {
	if !bytes.HasPrefix(head, []byte(Magic)) {
		return broken(0, "it does not begin with %q", Magic)
	}
	f.pageSize = int(binary.BigEndian.Uint16(head[16:]))
	if f.pageSize == 1 {
		f.pageSize = maxPage
	}
	f.usable = f.pageSize - int(head[20])
	switch {
	case f.pageSize < minPage || f.pageSize&(f.pageSize-1) != 0:
		return broken(0, "a page size of %d; want a power of two from %d to %d", f.pageSize, minPage, maxPage)
	case f.usable < minUsable:
		return broken(0, "%d of %d bytes of a page are reserved; %d must be left", head[20], f.pageSize, minUsable)
	case head[19] > 2:
		return broken(0, "read version %d; 1 and 2 are known", head[19])
	case head[21] != 64 || head[22] != 32 || head[23] != 32:
		return broken(0, "payload fractions %d, %d, %d; want 64, 32, 32", head[21], head[22], head[23])
	}
	if encoding := binary.BigEndian.Uint32(head[56:]); encoding > 1 {
		return broken(0, "text encoding %d; only UTF-8 (1) is read", encoding)
	}
	held := f.size / int64(f.pageSize)
	f.pages = uint32(min(held, 1<<32-2))
	// The count in the header holds only where the version that wrote it kept it (section 1.3.8).
	if count := binary.BigEndian.Uint32(head[28:]); count > 0 && bytes.Equal(head[24:28], head[92:96]) {
		if int64(count) > held {
			return broken(0, "it was cut: the header says %d pages of %d bytes, the file holds %d", count, f.pageSize, held)
		}
		f.pages = count
	}
	if f.pages == 0 {
		return broken(0, "it was cut within its first page of %d bytes", f.pageSize)
	}
	return nil
}

// page reads a page into a buffer of a page or less. Whoever walks reads on to the end of the stretch; whoever looks rows up
// would read sixteen pages for one.
func (f *File) page(n uint32, into []byte, walks bool) error {
	if n == 0 || n > f.pages {
		return broken(0, "it points to page %d; there are %d", n, f.pages)
	}
	offset := int64(n-1) * int64(f.pageSize)
	index := offset / chunkSize
	c := &f.chunks[index%numChunks]
	if c.at == index+1 {
		copy(into, c.data[offset%chunkSize:])
		return nil
	}
	if !walks {
		if got, err := f.src.ReadAt(into, offset); got < len(into) {
			return fmt.Errorf("SQLite database, page %d: %w", n, unexpected(err))
		}
		return nil
	}
	if c.data == nil {
		c.data = make([]byte, chunkSize)
	}
	c.at = 0
	want := c.data[:min(chunkSize, f.size-index*chunkSize)]
	if got, err := f.src.ReadAt(want, index*chunkSize); got < len(want) {
		return fmt.Errorf("SQLite database, page %d: %w", n, unexpected(err))
	}
	c.at = index + 1
	copy(into, c.data[offset%chunkSize:])
	return nil
}

// unexpected is the error of a read that was too short.
func unexpected(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
