package layout

// splitFacts sums up a sequence of layout symbols, as the framework looks at it: one pass, whether the symbols come
// from text or from cells (megatron/core/transformer/pipeline_parallel_layer_layout.py:91-147).
type splitFacts struct {
	pp, cells         int
	e, t, m, l        int  // how many of each symbol
	first, last       byte // first and last symbol of the flattened sequence; 0 if there is none
	eCell, lCell      int  // cells of the last E and L
	decoderAfterMTP   bool
	mtpFirst, mtpLast int // cells of the first and last m; -1 without
	mtpEarly          int // first cell with an m that is not the last chunk of its rank; -1 without
}

func newSplitFacts(pp, cells int) splitFacts {
	return splitFacts{pp: pp, cells: cells, mtpFirst: -1, mtpLast: -1, mtpEarly: -1}
}

func factsOf(s *Split) splitFacts {
	f := newSplitFacts(s.PP, len(s.Cells))
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Embedding {
			f.add(i, 'E', 1)
		}
		f.add(i, 't', c.Decoders)
		f.add(i, 'm', c.MTP)
		if c.Loss {
			f.add(i, 'L', 1)
		}
	}
	return f
}

func (f *splitFacts) add(cell int, symbol byte, n int) {
	if n < 1 {
		return
	}
	if f.first == 0 {
		f.first = symbol
	}
	f.last = symbol
	switch symbol {
	case 'E':
		f.e += n
		f.eCell = cell
	case 'L':
		f.l += n
		f.lCell = cell
	case 't':
		f.t += n
		f.decoderAfterMTP = f.decoderAfterMTP || f.m > 0
	case 'm':
		f.m += n
		if f.mtpFirst < 0 {
			f.mtpFirst = cell
		}
		f.mtpLast = cell
		if f.mtpEarly < 0 && f.pp > 0 && cell < f.cells-f.pp {
			f.mtpEarly = cell
		}
	}
}

func (f *splitFacts) endsWrong() bool {
	return f.first != 'E' || f.last != 'L' || f.e != 1 || f.l != 1
}

// mtpScattered: every m in the last chunk of its rank, and all in one cell.
func (f *splitFacts) mtpScattered() bool { return f.mtpEarly >= 0 || f.mtpFirst != f.mtpLast }
