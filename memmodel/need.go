package memmodel

import "github.com/moeplan/moeplan/layout"

// Need is what a layout takes on its fullest GPU, bytes; each figure is the largest over the stages.
type Need struct {
	Allocated int64 // torch.cuda.max_memory_allocated
	Low, High int64 // what the card sees
	Host      int64 // of the host's memory, with offload
	Rank      int   // pipeline rank with the largest High
}

// Need is [Estimator.Estimate] without the account: like [Estimator.Peak] it allocates nothing for a pipeline split it has
// seen. The layout must be one that Estimate accepts.
func (e *Estimator) Need(l *layout.Layout) Need {
	s := newShape(e.model, &e.run, e.kinds, l)
	split := e.classesOf(l.Split)
	acts := s.activations()
	known := e.fixedOf(&s, split)
	var n Need
	for i := range split.classes {
		c := &split.classes[i]
		f := e.figuresWith(&s, c, &known[i], &acts)
		d := s.device(c, &f)
		if d.High > n.High {
			n.High, n.Rank = d.High, c.rank
		}
		n.Allocated, n.Low = max(n.Allocated, f.peak()), max(n.Low, d.Low)
		h := s.hostBytes(&f)
		n.Host = max(n.Host, h.Total())
	}
	return n
}

// Need is that of one stage.
func (s *Stage) Need() Need {
	return Need{s.PeakAllocated, s.Device.Low, s.Device.High, s.Host.Total(), s.PipelineRank}
}

// Max is the need of the fullest of both.
func (n Need) Max(o Need) Need {
	if o.High > n.High {
		n.High, n.Rank = o.High, o.Rank
	}
	n.Allocated, n.Low, n.Host = max(n.Allocated, o.Allocated), max(n.Low, o.Low), max(n.Host, o.Host)
	return n
}
