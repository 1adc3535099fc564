package layout

// Cell is what one chunk of one pipeline rank holds, in order: embedding, decoder layers, MTP layers, loss.
type Cell struct {
	Embedding bool
	// First is the 0-based index of the first decoder layer, Decoders how many follow it.
	First    int
	Decoders int
	MTP      int  // MTP layers (all of a model's sit in one cell)
	Loss     bool // final norm, output layer and loss
}

// Split places a model's layers on PP stages of VPP chunks each. Cell i belongs to pipeline rank i mod PP
// and chunk i div PP, the order of --pipeline-model-parallel-layout
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/transformer/pipeline_parallel_layer_layout.py:43).
//
// A Split is immutable once made and may be shared by any number of layouts.
type Split struct {
	PP, VPP int
	Cells   []Cell // PP*VPP of them
}

// Cell returns the cell of one pipeline rank and chunk.
func (s *Split) Cell(rank, chunk int) Cell { return s.Cells[chunk*s.PP+rank] }
