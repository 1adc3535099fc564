package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// maxString is how many bytes of a trace's strings are kept; kernel names of templates run to kilobytes.
const maxString = 1 << 10

// errJSON is where a trace stops being JSON.
var errJSON = errors.New("not JSON")

// jsonReader walks over JSON of any size with a fixed buffer. It is lenient where profilers are not strict: values that are
// missing, NaN and Infinity, control characters in strings.
type jsonReader struct {
	src    io.Reader
	buf    []byte
	at, n  int
	before int64 // bytes of earlier buffers
	err    error // sticky; io.EOF at the end, io.ErrUnexpectedEOF where the data was cut
	text   []byte
}

func newJSONReader(src io.Reader) *jsonReader {
	return &jsonReader{src: src, buf: make([]byte, chunk), text: make([]byte, 0, maxString)}
}

func (j *jsonReader) more() bool {
	j.before += int64(j.n)
	j.at, j.n = 0, 0
	for tries := 0; j.err == nil && j.n == 0; tries++ {
		j.n, j.err = j.src.Read(j.buf)
		if tries > 100 && j.err == nil {
			j.err = io.ErrNoProgress
		}
	}
	return j.n > 0
}

// next returns the next byte and leaves it; 0 at the end.
func (j *jsonReader) next() byte {
	for {
		for ; j.at < j.n; j.at++ {
			if c := j.buf[j.at]; c > ' ' {
				return c
			}
		}
		if !j.more() {
			return 0
		}
	}
}

// take takes the byte that next returned.
func (j *jsonReader) take() { j.at++ }

// raw returns the next byte, blank or not.
func (j *jsonReader) raw() (byte, bool) {
	if j.at >= j.n && !j.more() {
		return 0, false
	}
	j.at++
	return j.buf[j.at-1], true
}

func (j *jsonReader) fail(what string) error {
	if j.at >= j.n && (j.err == nil || errors.Is(j.err, io.EOF)) && !j.more() && errors.Is(j.err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	if j.err != nil && !errors.Is(j.err, io.EOF) && j.at >= j.n {
		return j.err
	}
	return fmt.Errorf("%w: %s at byte %d", errJSON, what, j.before+int64(j.at))
}

// string reads a string behind its opening quote; the result is valid until the next call and holds at most maxString bytes.
func (j *jsonReader) string() ([]byte, error) {
	j.take()
	j.text = j.text[:0]
	for {
		if j.at >= j.n && !j.more() {
			return nil, j.fail("string")
		}
		rest := j.buf[j.at:j.n]
		i := 0
		for i < len(rest) && rest[i] != '"' && rest[i] != '\\' {
			i++
		}
		j.keep(rest[:i])
		j.at += i
		if i == len(rest) {
			continue
		}
		j.at++
		if rest[i] == '"' {
			return j.text, nil
		}
		if err := j.escape(); err != nil {
			return nil, err
		}
	}
}

func (j *jsonReader) keep(b []byte) {
	j.text = append(j.text, b[:min(len(b), maxString-len(j.text))]...)
}

func (j *jsonReader) escape() error {
	c, ok := j.raw()
	if !ok {
		return j.fail("escape")
	}
	if c != 'u' {
		if i := bytes.IndexByte([]byte("nrtbf"), c); i >= 0 {
			c = "\n\r\t\b\f"[i]
		}
		j.keep([]byte{c})
		return nil
	}
	var hex [4]byte
	for i := range hex {
		if hex[i], ok = j.raw(); !ok {
			return j.fail("escape")
		}
	}
	n, err := strconv.ParseUint(string(hex[:]), 16, 32)
	if err != nil {
		return j.fail("escape")
	}
	j.keep(utf8.AppendRune(nil, rune(n)))
	return nil
}

// word reads a bare value: a number, true, null, NaN. It may be empty, where a profiler left a value out.
func (j *jsonReader) word() []byte {
	j.text = j.text[:0]
	for {
		for ; j.at < j.n; j.at++ {
			switch c := j.buf[j.at]; c {
			case ',', '}', ']', ' ', '\n', '\r', '\t', ':', '"', '{', '[':
				return j.text
			default:
				if len(j.text) < maxString {
					j.text = append(j.text, c)
				}
			}
		}
		if !j.more() {
			return j.text
		}
	}
}

// skip passes over a value.
func (j *jsonReader) skip() error {
	depth := 0
	for {
		switch c := j.next(); c {
		case 0:
			return j.fail("value")
		case '"':
			if _, err := j.string(); err != nil {
				return err
			}
		case '{', '[':
			j.take()
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return nil // an empty value
			}
			j.take()
			depth--
		case ',', ':':
			if depth == 0 {
				return nil // an empty value
			}
			j.take()
			continue
		default:
			at := j.before + int64(j.at)
			j.word()
			if j.before+int64(j.at) == at {
				return j.fail("value")
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

// object calls member for each key of the object that begins here; member must read the value. The key is valid until then.
func (j *jsonReader) object(member func(key string) error) error {
	j.take()
	for {
		switch j.next() {
		case '}':
			j.take()
			return nil
		case ',':
			j.take()
		case '"':
			key, err := j.string()
			if err != nil {
				return err
			}
			name := keyName(key)
			if j.next() != ':' {
				return j.fail("colon")
			}
			j.take()
			if err := member(name); err != nil {
				return err
			}
		default:
			return j.fail("key")
		}
	}
}

// keyName spares the copy of the keys that are looked at.
func keyName(b []byte) string {
	for _, k := range traceKeys {
		if string(b) == k {
			return k
		}
	}
	return string(b)
}

var traceKeys = []string{"ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "correlation", "device", "stream", "Process Group Name",
	"Process Group Description", "Collective name", "traceEvents", "External id", "grid", "block", "queued", "context"}

// array calls element before each element of the array that begins here; element must read it.
func (j *jsonReader) array(element func() error) error {
	j.take()
	for {
		switch j.next() {
		case 0:
			return j.fail("array")
		case ']':
			j.take()
			return nil
		case ',':
			j.take()
		default:
			at := j.before + int64(j.at)
			if err := element(); err != nil {
				return err
			}
			if j.before+int64(j.at) == at {
				return j.fail("element")
			}
		}
	}
}

// scalar reads a string or a bare value as text; of anything else nothing.
func (j *jsonReader) scalar() ([]byte, error) {
	switch j.next() {
	case 0:
		return nil, j.fail("value")
	case '"':
		return j.string()
	case '{', '[':
		return nil, j.skip()
	}
	return j.word(), nil
}

// nanoseconds reads a time that is written in microseconds with a fraction, without the rounding of a float64.
func nanoseconds(b []byte) (int64, bool) {
	whole, fraction, seen := int64(0), int64(0), false
	i, sign := 0, int64(1)
	if len(b) > 0 && b[0] == '-' {
		i, sign = 1, -1
	}
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		if whole, seen = whole*10+int64(b[i]-'0'), true; whole > 1<<52 {
			return 0, false
		}
	}
	if i < len(b) && b[i] == '.' {
		unit := int64(100)
		for i++; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
			fraction += int64(b[i]-'0') * unit
			unit /= 10
		}
	}
	if i == len(b) {
		return sign * (whole*1000 + fraction), seen
	}
	v, err := strconv.ParseFloat(string(b), 64) // an exponent
	if err != nil || !(v > -1e15 && v < 1e15) {
		return 0, false
	}
	return int64(v * 1000), true
}
