package layout

import "github.com/moeplan/moeplan/layout/arch"

// Cell is what one chunk of one pipeline rank holds, in order: embedding, decoder layers, MTP layers, loss.
type Cell struct {
	Embedding bool
	// First is the 0-based index of the first decoder layer, Decoders how many follow it. An empty cell's First is
	// the index of the layer that comes next.
	First    int
	Decoders int
	MTP      int  // MTP layers (all of a model's sit in one cell)
	Loss     bool // final norm, output layer and loss
}

// Split places a model's layers on PP stages of VPP chunks each. Cell i belongs to pipeline rank i mod PP
// and chunk i div PP, the order of --pipeline-model-parallel-layout
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/transformer/pipeline_parallel_layer_layout.py:43).
//
// A Split is immutable once made and may be shared by any number of layouts. EvenSplit, BalancedSplit and ParseSplit
// make them.
type Split struct {
	PP, VPP int
	Cells   []Cell // PP*VPP of them
}

// Cell returns the cell of one pipeline rank and chunk.
func (s *Split) Cell(rank, chunk int) Cell { return s.Cells[chunk*s.PP+rank] }

// Decoders returns how many decoder layers one pipeline rank holds in all its chunks.
func (s *Split) Decoders(rank int) int {
	n := 0
	for i := rank; i < len(s.Cells); i += s.PP {
		n += s.Cells[i].Decoders
	}
	return n
}

// NumLayers returns the number of decoder layers in the whole split.
func (s *Split) NumLayers() int {
	n := 0
	for i := range s.Cells {
		n += s.Cells[i].Decoders
	}
	return n
}

// NumMTP returns the number of MTP layers in the whole split.
func (s *Split) NumMTP() int {
	n := 0
	for i := range s.Cells {
		n += s.Cells[i].MTP
	}
	return n
}

// Equal reports whether two splits place the same layers in the same cells; a nil Split equals only nil.
func (s *Split) Equal(t *Split) bool {
	if s == t || s == nil || t == nil {
		return s == t
	}
	if s.PP != t.PP || s.VPP != t.VPP || len(s.Cells) != len(t.Cells) {
		return false
	}
	for i := range s.Cells {
		if s.Cells[i] != t.Cells[i] {
			return false
		}
	}
	return true
}

// IsEven reports whether the split is what Megatron does by itself for the model, so that a command line needs no
// --pipeline-model-parallel-layout.
func (s *Split) IsEven(m *arch.Model) bool {
	cells := s.PP * s.VPP
	if cells < 1 || len(s.Cells) != cells || m.NumLayers%cells != 0 {
		return false
	}
	for i := range s.Cells {
		if s.Cells[i] != evenCell(m, cells, i) {
			return false
		}
	}
	return true
}

// EvenSplit is Megatron's own placement: chunk c of rank r of v chunks holds L/(PP*v) layers from c*(L/v) + r*L/(PP*v),
// which is cell by cell in order, and every MTP layer sits on the last cell
// (megatron/core/transformer/transformer_layer.py:70, multi_token_prediction.py:795). It is nil where PP*VPP does not
// divide the layers.
func EvenSplit(m *arch.Model, pp, vpp int) *Split {
	if pp < 1 || vpp < 1 || vpp > MaxSize || pp > MaxSize || m.NumLayers < 1 || m.NumLayers%(pp*vpp) != 0 {
		return nil
	}
	s := &Split{PP: pp, VPP: vpp, Cells: make([]Cell, pp*vpp)}
	for i := range s.Cells {
		s.Cells[i] = evenCell(m, pp*vpp, i)
	}
	return s
}

func evenCell(m *arch.Model, cells, i int) Cell {
	n := m.NumLayers / cells
	c := Cell{Embedding: i == 0, First: i * n, Decoders: n, Loss: i == cells-1}
	if c.Loss {
		c.MTP = m.MTPNumLayers
	}
	return c
}
