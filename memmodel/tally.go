package memmodel

import "github.com/moeplan/moeplan/layout"

// tally adds up the tensors that a layer saves: kept ones, those that recompute drops and makes again, and those of
// the kept ones that activation offload moves to the host.
type tally struct {
	kept      int64
	dropped   int64
	offloaded int64
	modules   layout.Modules // recomputed
	offload   OffloadModules
	minimum   int64     // smaller tensors are not offloaded
	lines     *[]Tensor // nil on the hot path
}

// Tensor is one saved tensor of a layer.
type Tensor struct {
	Name  string `json:"name"`  // in words
	Bytes int64  `json:"bytes"` // of one layer and micro-batch, on one rank
	// Recomputed says that the layout drops it after the forward pass and makes it again.
	Recomputed bool `json:"recomputed,omitempty"`
	// Offloaded says that it waits in host memory.
	Offloaded bool `json:"offloaded,omitempty"`
}

// save adds a tensor. Any recomputed module in dropBy drops it.
func (t *tally) save(name string, bytes int64, dropBy layout.Modules) {
	t.saveOr(name, bytes, dropBy, 0)
}

// saveOr adds a tensor that some module of activation offload moves to the host, unless recompute drops it.
func (t *tally) saveOr(name string, bytes int64, dropBy layout.Modules, moveBy OffloadModules) {
	if bytes == 0 {
		return
	}
	drop := t.modules&dropBy != 0
	move := !drop && t.offload&moveBy != 0 && bytes >= t.minimum
	switch {
	case drop:
		t.dropped += bytes
	case move:
		t.offloaded += bytes
	default:
		t.kept += bytes
	}
	if t.lines != nil {
		*t.lines = append(*t.lines, Tensor{name, bytes, drop, move})
	}
}

func (s *shape) newTally() tally {
	return tally{modules: s.modules, offload: s.run.Offload.Modules, minimum: s.run.Offload.minimumBytes(s.w)}
}
