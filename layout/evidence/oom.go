package evidence

import (
	"strconv"
	"strings"
)

// OutOfMemory is one out-of-memory error of PyTorch's allocator, or of something beside it.
type OutOfMemory struct {
	Rank      int   `json:"rank"`      // -1: the line does not say
	Iteration int   `json:"iteration"` // the last one that was logged before; 0 if none
	Tried     Bytes `json:"tried"`
	Capacity  Bytes `json:"capacity"`
	Free      Bytes `json:"free"`
	// Process is what this process holds on the card, Allocated what its tensors take, Cached what the allocator keeps
	// beside them.
	Process   Bytes `json:"process"`
	Allocated Bytes `json:"allocated"`
	Cached    Bytes `json:"cached"`
	// Outside says that the error came from outside PyTorch's allocator (NCCL, the driver).
	Outside bool  `json:"outside_allocator"`
	Line    int64 `json:"line"`
}

// Needed is the least that the rank's tensors needed at that moment: what they took and what was asked for.
func (o *OutOfMemory) Needed() Bytes {
	if !o.Allocated.Known || !o.Tried.Known {
		return Bytes{}
	}
	return Bytes{o.Allocated.N + o.Tried.N, true}
}

// parseOOM reads the message of torch.OutOfMemoryError ("capacty" up to PyTorch 2.2) and of CUDA calls that fail for memory
// (NCCL's "Cuda failure 2 'out of memory'").
func parseOOM(line string) (o OutOfMemory, ok bool) {
	at := strings.Index(line, "out of memory. Tried to allocate ")
	if at < 0 {
		o.Outside = strings.Contains(line, "Cuda failure 2 'out of memory'") || strings.Contains(line, "Cuda failure 'out of memory'") ||
			strings.Contains(line, "CUDA error: out of memory") || strings.Contains(line, "CUDA_ERROR_OUT_OF_MEMORY")
		o.Rank = prefixRank(line)
		return o, o.Outside
	}
	o.Rank = prefixRank(line[:at])
	text := line[at:]
	o.Tried = amountAfter(text, "Tried to allocate ")
	o.Capacity = amountAfter(text, "has a total capacity of ")
	if !o.Capacity.Known {
		o.Capacity = amountAfter(text, "has a total capacty of ")
	}
	o.Free = amountAfter(text, "of which ")
	o.Process = amountAfter(text, "this process has ")
	if !o.Process.Known {
		if _, rest, found := strings.Cut(text, "Process "); found {
			o.Process = amountAfter(rest, " has ")
		}
	}
	o.Allocated = amountAfter(text, "Of the allocated memory ")
	if _, rest, found := strings.Cut(text, "allocated by PyTorch"); found {
		if i := strings.Index(rest, " is reserved by PyTorch"); i >= 0 {
			if j := strings.LastIndex(rest[:i], "and "); j >= 0 {
				o.Cached = amountAfter(rest[j:], "and ")
			}
		}
	}
	return o, true
}

// amountAfter reads an amount such as "518.00 MiB" behind a phrase.
func amountAfter(text, phrase string) Bytes {
	_, rest, found := strings.Cut(text, phrase)
	if !found {
		return Bytes{}
	}
	number, rest, found := strings.Cut(rest, " ")
	v, err := strconv.ParseFloat(number, 64)
	if !found || err != nil {
		return Bytes{}
	}
	for _, u := range []struct {
		name  string
		bytes float64
	}{{"GiB", gib}, {"MiB", mib}, {"KiB", kib}, {"bytes", 1}} {
		if strings.HasPrefix(rest, u.name) {
			return toBytes(v, u.bytes)
		}
	}
	return Bytes{}
}

// prefixRank reads the rank before a line: "[rank3]: " (PyTorch) or "3: " (srun --label: a task number, which is the rank
// with one task a GPU). torchrun's "[default3]:" is a local rank and says nothing. -1 if there is none.
func prefixRank(line string) int {
	if _, rest, found := strings.Cut(line, "[rank"); found {
		if number, _, found := strings.Cut(rest, "]:"); found {
			return wholeNumber(number)
		}
	}
	if number, _, found := strings.Cut(line, ": "); found && len(number) <= 8 {
		return wholeNumber(number)
	}
	return -1
}
