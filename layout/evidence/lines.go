package evidence

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
)

// Bounds of a log, beside those of log.go.
const (
	maxLine     = 64 << 10
	maxLogBytes = 1 << 38 // unpacked
	chunk       = 256 << 10
)

// unpacked returns what a reader holds, through gzip if it begins like that.
func unpacked(src io.Reader) (io.Reader, error) {
	r := bufio.NewReaderSize(src, 64<<10)
	head, err := r.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return r, nil
	}
	z, err := gzip.NewReader(r)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return cutReader{}, nil // within the header
	}
	return z, err
}

// cutReader is what is left of a compressed file that ends within its header.
type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// cutShort reports whether a reader ended because its file was cut.
func cutShort(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }

// lineReader splits a stream at \n and \r (progress bars rewrite a line), takes escape sequences out, and keeps the first
// maxLine bytes of a line.
type lineReader struct {
	src        io.Reader
	buf        []byte
	start, end int
	newline    int // a known \n, or end if the buffer has none from start on; stale if < start
	eof        bool
	cut        bool // the source ended before its data did
	err        error

	line   []byte
	number int64 // of the current line, from 1; \r counts too
	bytes  int64
	long   int64 // lines that were longer than maxLine
}

func newLineReader(src io.Reader) *lineReader {
	return &lineReader{src: src, buf: make([]byte, chunk), newline: -1, line: make([]byte, 0, 1024)}
}

// next returns the next line, without its end, and whether it had one. The bytes are valid until the following call.
func (l *lineReader) next() (line []byte, ended, ok bool) {
	l.line = l.line[:0]
	cut, any := false, false
	add := func(b []byte) {
		any = any || len(b) > 0
		if room := maxLine - len(l.line); len(b) > room {
			b, cut = b[:room], true
		}
		l.line = append(l.line, b...)
	}
	for {
		if l.start == l.end && !l.fill() {
			if !any {
				return nil, false, false
			}
			return l.finish(cut), false, true
		}
		if l.newline < l.start {
			l.newline = l.end
			if i := bytes.IndexByte(l.buf[l.start:l.end], '\n'); i >= 0 {
				l.newline = l.start + i
			}
		}
		part := l.buf[l.start:l.newline]
		if i := bytes.IndexByte(part, '\r'); i >= 0 {
			add(part[:i])
			l.start += i + 1
			return l.finish(cut), true, true
		}
		if l.newline < l.end {
			if !any { // the usual case: no copy
				l.start = l.newline + 1
				l.number++
				if len(part) > maxLine {
					part = part[:maxLine]
					l.long++
				}
				return plain(part), true, true
			}
			add(part)
			l.start = l.newline + 1
			return l.finish(cut), true, true
		}
		add(part)
		l.start = l.end
	}
}

func (l *lineReader) finish(cut bool) []byte {
	l.number++
	if cut {
		l.long++
	}
	return plain(l.line)
}

// fill reads more; false at the end.
func (l *lineReader) fill() bool {
	l.start, l.end, l.newline = 0, 0, -1
	for tries := 0; !l.eof && tries < 100; tries++ {
		n, err := l.src.Read(l.buf)
		l.end, l.bytes = n, l.bytes+int64(n)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			l.eof = true
		case cutShort(err):
			l.eof, l.cut = true, true
		default:
			l.eof, l.err = true, err
		}
		if l.bytes > maxLogBytes {
			l.eof, l.err = true, &LimitError{"a log of more than 256 GiB is not read"}
		}
		if n > 0 {
			return true
		}
	}
	l.eof = true
	return false
}

// plain takes terminal escape sequences out, in place.
func plain(b []byte) []byte {
	at := bytes.IndexByte(b, 0x1b)
	if at < 0 {
		return b
	}
	out := b[:at]
	for i := at; i < len(b); {
		if b[i] != 0x1b {
			out = append(out, b[i])
			i++
			continue
		}
		i = afterEscape(b, i+1)
	}
	return out
}

// afterEscape returns where an escape sequence that began before i ends: "[" parameters and a letter (colours), "]" up to a
// bell or a string terminator (titles), else one byte.
func afterEscape(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '[':
		for i++; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
		}
		return i
	case ']':
		for i++; i < len(b); i++ {
			if b[i] == 0x07 {
				return i + 1
			}
			if b[i] == 0x1b && i+1 < len(b) && b[i+1] == '\\' {
				return i + 2
			}
		}
		return i
	}
	return i + 1
}
