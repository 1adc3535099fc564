package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// split places the layers as the framework would build them: by the layout string; by the pipes of a hybrid pattern; by
// the counts of the first and last stage; or evenly, with embedding and loss counted as layers if asked for
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/transformer/transformer_block.py:73, transformer_layer.py:65,
// multi_token_prediction.py:789, core/models/hybrid/hybrid_layer_allocation.py:330).
func (r *Resolved) split() (*layout.Split, error) {
	p, h := &r.Pipeline, r.Shape.Hybrid
	pp, vpp := r.Degrees.PP, max(1, p.VPP)
	switch {
	case !r.Settings.IsNone("pipeline_model_parallel_layout") && h == nil:
		if err := layout.CheckSplit(p.Layout, pp, r.Shape.NumLayers, r.Shape.MTPLayers).Errors(); len(err) > 0 {
			return nil, err
		}
		return layout.ParseSplit(p.Layout, pp, r.Shape.MTPLayers)
	case p.From != "" && p.VPP == 0 && !r.oneChunk():
		return nil, fmt.Errorf("%w: %s does not divide the layers of a stage, or is below 1", ErrSplit, p.From)
	case r.Shape.NumLayers < 1 || r.Shape.NumLayers > layout.MaxSize || vpp > layout.MaxSize || pp*vpp > layout.MaxSize:
		return nil, fmt.Errorf("%w: %d layers on %d stages of %d chunks", ErrSplit, r.Shape.NumLayers, pp, vpp)
	case h != nil && len(h.Segments) > 1:
		return r.segments(pp, vpp)
	case p.First != nil || p.Last != nil:
		return r.firstAndLast(pp, vpp)
	}
	return r.even(pp, vpp)
}

// oneChunk reports whether the flag that sets VPP says 1, which the framework turns into None.
func (r *Resolved) oneChunk() bool {
	vpp, _ := r.virtual()
	return vpp == 1
}

// newSplit makes a split from the decoder layers and the first layer of each cell.
func (r *Resolved) newSplit(pp, vpp int, cell func(rank, chunk int) (first, decoders int)) (*layout.Split, error) {
	s := &layout.Split{PP: pp, VPP: vpp, Cells: make([]layout.Cell, pp*vpp)}
	for i := range s.Cells {
		c := &s.Cells[i]
		c.First, c.Decoders = cell(i%pp, i/pp)
		if c.Decoders < 0 || c.First < 0 || c.First+c.Decoders > r.Shape.NumLayers {
			return nil, fmt.Errorf("%w: %d layers from layer %d on, on chunk %d of stage %d, in a model of %d",
				ErrSplit, c.Decoders, c.First+1, i/pp, i%pp, r.Shape.NumLayers)
		}
	}
	s.Cells[0].Embedding = true
	last := &s.Cells[len(s.Cells)-1]
	last.Loss, last.MTP = true, max(0, r.Shape.MTPLayers)
	return s, nil
}

// even: the layers, plus one each for embedding and loss if they count, in equal parts.
func (r *Resolved) even(pp, vpp int) (*layout.Split, error) {
	n, p := r.countedLayers(), &r.Pipeline
	if n%pp != 0 || n/pp%vpp != 0 {
		return nil, fmt.Errorf("%w: %d layers (embedding and loss counted where asked for) on %d stages of %d chunks", ErrSplit, n, pp, vpp)
	}
	each := n / pp / vpp
	return r.newSplit(pp, vpp, func(rank, chunk int) (int, int) {
		first, decoders := chunk*(n/vpp)+rank*each, each
		if p.AccountForEmbedding {
			if rank == 0 && chunk == 0 {
				decoders--
			} else {
				first--
			}
		}
		if p.AccountForLoss && rank == pp-1 && chunk == vpp-1 {
			decoders--
		}
		return first, decoders
	})
}

// firstAndLast: so many layers on the first and last stage, the rest in equal parts between them.
func (r *Resolved) firstAndLast(pp, vpp int) (*layout.Split, error) {
	p, left, stages := &r.Pipeline, r.Shape.NumLayers, pp
	first, last := 0, 0
	if p.First != nil {
		first = *p.First
		stages--
	}
	if p.Last != nil {
		last = *p.Last
		stages--
	}
	left -= first + last
	middle := 0
	switch {
	case first < 0 || last < 0 || left < 0 || p.AccountForEmbedding || p.AccountForLoss || pp == 1 && stages < 0:
		return nil, fmt.Errorf("%w: %d layers on the first and %d on the last of %d stages of a model of %d", ErrSplit, first, last, pp, r.Shape.NumLayers)
	case stages > 0 && left%stages == 0:
		middle = left / stages
	case stages > 0 || left != 0:
		return nil, fmt.Errorf("%w: %d layers are left for %d stages", ErrSplit, left, stages)
	}
	for _, n := range []int{first, last, middle} {
		if n%vpp != 0 {
			return nil, fmt.Errorf("%w: %d layers of a stage on %d chunks", ErrSplit, n, vpp)
		}
	}
	return r.newSplit(pp, vpp, func(rank, chunk int) (int, int) {
		start, each := chunk*(r.Shape.NumLayers/vpp)+first/vpp, middle/vpp
		switch {
		case rank == 0 && p.First != nil:
			return chunk * (r.Shape.NumLayers / vpp), first / vpp
		case p.First == nil:
			start += rank * each
		default:
			start += (rank - 1) * each
		}
		if rank == pp-1 && p.Last != nil {
			return start, last / vpp
		}
		return start, each
	})
}

// segments: one part of the pattern a cell.
func (r *Resolved) segments(pp, vpp int) (*layout.Split, error) {
	segments := r.Shape.Hybrid.Segments
	if len(segments) != pp*vpp {
		return nil, fmt.Errorf("%w: %d segments of the hybrid layer pattern on %d stages", ErrSplit, len(segments), pp)
	}
	starts, first := make([]int, len(segments)), 0
	for i, s := range segments {
		starts[i] = first
		first += len(s)
	}
	return r.newSplit(pp, vpp, func(rank, chunk int) (int, int) {
		i := chunk*pp + rank
		return starts[i], len(segments[i])
	})
}
