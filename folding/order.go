package folding

import "strings"

// Order is a rank order string: axis names joined by "-", first axis varies fastest.
type Order string

const (
	// DefaultOrder is Megatron's own (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/parallel_state.py,
	// initialize_model_parallel).
	DefaultOrder Order = "tp-cp-ep-dp-pp"
	// TPPPDPOrder is what --use-tp-pp-dp-mapping selects (megatron/training/initialize.py:395).
	TPPPDPOrder Order = "tp-cp-ep-pp-dp"
)

// parse splits an order string. unknown is the first name that is no axis. gtp_remat, which shards weights once more
// and whose size is 1 here, takes no place.
func (o Order) parse() (axes []axis, unknown string, ok bool) {
	axes = make([]axis, 0, numAxes+1)
next:
	for name := range strings.SplitSeq(strings.ToLower(string(o)), "-") {
		for a, known := range axisNames {
			if name == known {
				axes = append(axes, axis(a))
				continue next
			}
		}
		if name != "gtp_remat" {
			return nil, name, false
		}
	}
	return axes, "", true
}

// ppLast reports whether the string ends in "pp". Letter case counts, as it does in the framework's test
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/parallel_state.py:899).
func (o Order) ppLast() bool { return strings.HasSuffix(string(o), "pp") }
