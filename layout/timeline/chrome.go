package timeline

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// WriteChrome writes the step in the Trace Event Format, which https://ui.perfetto.dev and chrome://tracing open: a process
// a pipeline rank, with a thread for passes and one for communication, and the allocated memory as a counter. title names it.
func (t *Timeline) WriteChrome(w io.Writer, title string) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `{"displayTimeUnit":"ms","otherData":{"title":%s,"step_seconds":%s,"priced_seconds":%s},"traceEvents":[`,
		quoted(title), number(t.Seconds), number(t.Priced))
	first := true
	event := func(format string, args ...any) {
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.WriteByte('\n')
		fmt.Fprintf(b, format, args...)
	}
	for r := range t.Ranks {
		event(`{"ph":"M","pid":%d,"name":"process_name","args":{"name":"stage %d"}}`, r, r)
		event(`{"ph":"M","pid":%d,"name":"process_sort_index","args":{"sort_index":%d}}`, r, r)
		event(`{"ph":"M","pid":%d,"tid":0,"name":"thread_name","args":{"name":"passes"}}`, r)
		event(`{"ph":"M","pid":%d,"tid":1,"name":"thread_name","args":{"name":"communication"}}`, r)
		rank := &t.Ranks[r]
		for i := range rank.Events {
			e := &rank.Events[i]
			event(`{"ph":"X","pid":%d,"tid":%d,"cat":%s,"name":%s,"ts":%s,"dur":%s,"args":%s}`, r, e.thread(), quoted(string(e.Kind)),
				quoted(e.name(t.Chunks)), micro(e.Start), micro(e.End-e.Start), e.args())
		}
		for _, m := range rank.Memory {
			event(`{"ph":"C","pid":%d,"name":"allocated GiB","ts":%s,"args":{"allocated":%s}}`, r, micro(m.At),
				strconv.FormatFloat(float64(m.Bytes)/(1<<30), 'f', 3, 64))
		}
	}
	b.WriteString("\n]}\n")
	return b.Flush()
}

// thread is 1 for communication that a rank waits for, 0 for the rest.
func (e *Event) thread() int {
	if e.Kind == Exchange || e.Kind == Reduce {
		return 1
	}
	return 0
}

// name is short enough to be read inside a bar: F3 is the forward pass of micro-batch 3, F3.1 that of its chunk 1.
func (e *Event) name(chunks int) string {
	var letter string
	switch e.Kind {
	case Forward:
		letter = "F"
	case Backward:
		letter = "B"
	default:
		return string(e.Kind)
	}
	if chunks == 1 {
		return fmt.Sprintf("%s%d", letter, e.Microbatch)
	}
	return fmt.Sprintf("%s%d.%d", letter, e.Microbatch, e.Chunk)
}

func (e *Event) args() string {
	if e.Microbatch < 0 {
		return "{}"
	}
	text := fmt.Sprintf(`{"microbatch":%d,"chunk":%d`, e.Microbatch, e.Chunk)
	if e.Exposed > 0 {
		text += `,"exposed_communication_ms":` + strconv.FormatFloat(e.Exposed*1e3, 'f', 3, 64)
	}
	if e.Merged {
		text += `,"merged":true`
	}
	return text + "}"
}

func micro(seconds float64) string  { return strconv.FormatFloat(seconds*1e6, 'f', 3, 64) }
func number(seconds float64) string { return strconv.FormatFloat(seconds, 'g', 6, 64) }

func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(text)
}
