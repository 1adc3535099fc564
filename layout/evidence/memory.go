package evidence

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// MemoryReport is one memory line of one rank. The peaks are since the process started.
type MemoryReport struct {
	Rank Index `json:"rank"` // global rank; null where an out-of-memory error does not say
	// Iteration is the one after which it was printed; null for a line around a checkpoint.
	Iteration Index  `json:"iteration"`
	Label     string `json:"label"` // what the line says of its time, such as "after 2 iterations"; "" for an out-of-memory error
	// Unit is the log's: MiB (Megatron-LM's "MB") or GB (1e9, Megatron-Bridge, five digits); "" for an out-of-memory error.
	Unit         string `json:"unit"`
	Allocated    Bytes  `json:"allocated"`     // bytes, torch.cuda.memory_allocated(); null if the line does not have it
	MaxAllocated Bytes  `json:"max_allocated"` // bytes, max_memory_allocated(); null for an out-of-memory error alone
	Reserved     Bytes  `json:"reserved"`      // bytes, memory_reserved(); null if the line does not have it
	MaxReserved  Bytes  `json:"max_reserved"`  // bytes, max_memory_reserved(); null if the line does not have it
	// Device is what the whole card uses, with --log-device-memory-used.
	Device Bytes `json:"device"`
	// Retries counts cudaMalloc calls that failed and emptied the cache first (Bridge only).
	Retries Value `json:"alloc_retries"`
	Line    int64 `json:"line"` // of the log, from 1
}

// memoryUnits are the heads of a memory line and what one unit is in bytes. Megatron-LM says MB and divides by 2^20
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/utils/common_utils.py:313), Megatron-Bridge from 0.2.0 says GB and
// divides by 1e9 (NVIDIA-NeMo/Megatron-Bridge@067f987df src/megatron/bridge/training/utils/train_utils.py:1146,1204).
var memoryUnits = []struct {
	head, unit string
	bytes      float64
}{
	{"memory (MB)", "MiB", mib},
	{"memory (GB)", "GB", 1e9},
}

// parseMemory reads every memory line in a line: ranks that print at once can share one. ended says that the line was
// finished; of an unfinished one only a report whose last figure cannot be longer counts.
func parseMemory(line []byte, ended bool) []MemoryReport {
	var out []MemoryReport
	for _, u := range memoryUnits {
		rest := line
		for {
			at := bytes.Index(rest, []byte(u.head))
			if at < 0 {
				break
			}
			head, tail := rest[:at], rest[at+len(u.head):]
			stop := len(tail)
			last := true
			if i := bytes.Index(tail, []byte("[Rank ")); i >= 0 {
				stop, last = i, false
			}
			if m, ok := memoryHead(head); ok {
				m.Unit = u.unit
				if m.fields(string(tail[:stop]), u.bytes, ended || !last) {
					out = append(out, m)
				}
			}
			rest = tail
		}
	}
	return out
}

// memoryHead reads "[Rank R] (after N iterations) " backwards from its end.
func memoryHead(head []byte) (m MemoryReport, ok bool) {
	i := bytes.LastIndex(head, []byte("[Rank "))
	if i < 0 {
		return m, false
	}
	rank, label, found := strings.Cut(string(head[i+len("[Rank "):]), "] (")
	if !found {
		return m, false
	}
	m.Rank = Index(wholeNumber(rank))
	label, rest, found := strings.Cut(label, ")")
	if m.Rank < 0 || !found || strings.TrimSpace(rest) != "" || len(label) > 200 {
		return m, false
	}
	m.Label, m.Iteration = label, -1
	if text, ok := strings.CutPrefix(label, "after "); ok {
		if text, ok := strings.CutSuffix(text, " iterations"); ok {
			m.Iteration = Index(wholeNumber(text))
		}
	}
	return m, true
}

// field is where the figure of a name goes, in either framework's names; nil for others, which are left aside. Bridge's come
// from torch.cuda.memory_stats and can be configured.
func (m *MemoryReport) field(name string) *Bytes {
	switch name {
	case "allocated", "mem-allocated-gigabytes":
		return &m.Allocated
	case "max allocated", "mem-max-allocated-gigabytes":
		return &m.MaxAllocated
	case "reserved", "mem-reserved-gigabytes":
		return &m.Reserved
	case "max reserved", "mem-max-reserved-gigabytes":
		return &m.MaxReserved
	case "total device memory used":
		return &m.Device
	}
	return nil
}

// fields reads "| name: value" pairs and reports whether the peak is among them.
func (m *MemoryReport) fields(text string, unit float64, ended bool) bool {
	decimals := true // so far
	parts := strings.Split(text, "|")
	for i, part := range parts {
		name, value, ok := strings.Cut(part, ":")
		if !ok {
			continue
		}
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		number := value
		if end := strings.IndexFunc(value, func(r rune) bool { return !strings.ContainsRune("0123456789.eE+-", r) }); end >= 0 {
			number = value[:end]
		}
		if i == len(parts)-1 && number == value && !ended && !(decimals && name == "max reserved" && twoDecimals(number)) {
			continue // the file may have ended within the figure
		}
		decimals = decimals && twoDecimals(number)
		v, err := strconv.ParseFloat(number, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			continue
		}
		if name == "mem-alloc-retires" { // upstream's spelling
			m.Retries = known(v)
		} else if into := m.field(name); into != nil {
			*into = toBytes(v, unit)
		}
	}
	return m.MaxAllocated.Known
}

// twoDecimals: from Core 0.16 on figures end after two decimals, so in a line where all have two the last one is whole.
func twoDecimals(s string) bool {
	i := strings.IndexByte(s, '.')
	return i >= 0 && len(s) == i+3
}

// wholeNumber reads a count, blanks around it allowed; -1 for anything else.
func wholeNumber(s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 0 || n > 1<<40 {
		return -1
	}
	return n
}
