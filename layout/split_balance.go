package layout

import (
	"math"

	"github.com/moeplan/moeplan/layout/arch"
)

const (
	// moeHeadDiscount scales the output layer's weight in MoE models: its one big GEMM runs more efficiently than
	// the many small ones of a MoE layer. Fitted; the replay of 151 tuned layouts uses the same figure.
	moeHeadDiscount = 0.75
	// evenTolerance is how much more than the best load Megatron's even split may cost and still be preferred,
	// because it needs no layout string: the band within which predicted step times are not told apart.
	evenTolerance = 1.05
)

// splitWeights are the loads of a model's parts in units of one ordinary decoder layer, by multiply-accumulates a token.
type splitWeights struct {
	dense []float64 // excess over 1 of each leading dense layer, summed up to and including it
	tail  float64   // output layer and loss, and all MTP layers with their output layers
}

// weigh counts the active parameters of a part as its multiply-accumulates a token (attention scores are left out: they
// depend on the sequence and occur in every layer).
func weigh(m *arch.Model) splitWeights {
	layers := m.Layers()
	lead := 0
	if m.MoE != nil {
		for lead < len(layers) && layers[lead].Feedforward == arch.DenseMLP {
			lead++
		}
	}
	if lead == len(layers) {
		lead = 0
	}
	macs := func(l arch.Layer) float64 {
		_, active := m.LayerParameters(l)
		return float64(active)
	}
	unit := 0.0
	for _, l := range layers[lead:] {
		unit += macs(l) / float64(len(layers)-lead)
	}
	if unit <= 0 {
		return splitWeights{}
	}
	var w splitWeights
	excess := 0.0
	for _, l := range layers[:lead] {
		excess += macs(l)/unit - 1
		w.dense = append(w.dense, excess)
	}
	h := float64(m.HiddenSize)
	head := float64(m.VocabSize) * h / unit
	if m.MoE != nil {
		head *= moeHeadDiscount
	}
	w.tail = head + float64(m.MTPNumLayers)*(1+2*h*h/unit+head)
	return w
}

// excess is what n leading layers weigh more than n ordinary ones.
func (w *splitWeights) excess(n int) float64 {
	if n = min(n, len(w.dense)); n < 1 {
		return 0
	}
	return w.dense[n-1]
}

// BalancedSplit proposes a split: the one whose most loaded pipeline rank has the least to do, with decoder layers
// weighing 1, leading dense layers their share of multiply-accumulates, and output layer and MTP theirs. Ranks between
// the first and the last hold C or C-1 decoder layers, earlier ranks (whose activations live longer) the fewer; each
// rank's layers are spread evenly over its chunks. The last rank's chunks are as large as those of the rank before, the
// chunk with the loss smaller by what it carries: stages run the same chunk at about the same time and wait for the one
// with the largest. No chunk is empty where the layers suffice for that. Where Megatron's even split is at most 5 % worse,
// it is returned instead.
//
// It is nil for PP*VPP above layers + 2 + MTP layers, for sizes below 1, and for a model that Validate refuses. The
// result depends on nothing but the arguments.
func BalancedSplit(m *arch.Model, pp, vpp int) *Split {
	if pp < 1 || vpp < 1 || pp > MaxSize || vpp > MaxSize || pp*vpp > m.NumLayers+2+m.MTPNumLayers || m.Validate() != nil {
		return nil
	}
	w := weigh(m)
	return w.balance(m, pp, vpp)
}

func (w *splitWeights) balance(m *arch.Model, pp, vpp int) *Split {
	even := EvenSplit(m, pp, vpp)
	if pp == 1 && even != nil {
		return even
	}
	counts, load := w.rankCounts(m.NumLayers, pp, vpp)
	if counts == nil {
		return even
	}
	if even != nil {
		n := m.NumLayers / pp
		if max(float64(n)+w.tail, float64(n)+w.excess(n/vpp)) <= load*evenTolerance {
			return even
		}
	}
	s := &Split{PP: pp, VPP: vpp, Cells: make([]Cell, pp*vpp)}
	room := make([]float64, vpp)
	for rank, n := range counts {
		clear(room)
		last := rank == pp-1
		for c := range room {
			if last && pp > 1 { // as much as the rank before, because stages wait for each other chunk by chunk
				room[c] = float64(s.Cells[c*pp+rank-1].Decoders)
			}
		}
		if last {
			room[vpp-1] -= w.tail
		}
		for range n {
			c := roomiest(room, last)
			room[c]--
			s.Cells[c*pp+rank].Decoders++
		}
	}
	first := 0
	for i := range s.Cells {
		s.Cells[i].First = first
		first += s.Cells[i].Decoders
	}
	s.Cells[0].Embedding = true
	end := &s.Cells[pp*vpp-1]
	end.MTP, end.Loss = m.MTPNumLayers, true
	return s
}

// roomiest picks the chunk with the most room: the earliest of equals on the last rank, whose last chunk carries the loss,
// and the latest elsewhere, where early chunks live longer and the first carries the embedding.
func roomiest(room []float64, earliest bool) int {
	best := 0
	for i, r := range room {
		if r > room[best] || r == room[best] && !earliest {
			best = i
		}
	}
	return best
}

// rankCounts chooses the number of decoder layers of each pipeline rank and returns the largest load.
func (w *splitWeights) rankCounts(layers, pp, vpp int) ([]int, float64) {
	if pp == 1 {
		return []int{layers}, float64(layers) + w.tail + w.excess(layers/vpp)
	}
	low0, low, lowLast := lowerBounds(layers, pp, vpp)
	middle := pp - 2
	bestLoad, bestShort, best0, bestLast := math.Inf(1), 0, -1, -1
	slack := 2 + int(math.Ceil(math.Abs(w.excess(len(w.dense)))))
	for last := layers - low0 - middle*low; last >= lowLast; last-- {
		around := (layers - last) / (pp - 1)
		from, to := max(low0, around-slack), min(layers-last-middle*low, around+slack)
		if middle == 0 {
			from, to = layers-last, layers-last
		}
		for n0 := from; n0 <= to; n0++ {
			load := max(float64(last)+w.tail, float64(n0)+w.excess((n0+vpp-1)/vpp))
			short := 0 // layers by which the first rank falls below C-1 without need
			if middle > 0 {
				c := (layers - last - n0 + middle - 1) / middle
				load, short = max(load, float64(c)), max(0, c-1-n0)
			}
			if load < bestLoad-1e-9 || load < bestLoad+1e-9 && short < bestShort {
				bestLoad, bestShort, best0, bestLast = load, short, n0, last
			}
		}
	}
	if best0 < 0 {
		return nil, 0
	}
	counts := make([]int, pp)
	counts[0], counts[pp-1] = best0, bestLast
	if middle > 0 {
		rest := layers - best0 - bestLast
		for r := 1; r <= middle; r++ {
			counts[r] = rest / middle
			if r > middle-rest%middle {
				counts[r]++
			}
		}
	}
	return counts, bestLoad
}

// lowerBounds are the fewest decoder layers of the first, a middle and the last rank: one a chunk, except that the
// chunks of embedding and loss may hold nothing else if need be.
func lowerBounds(layers, pp, vpp int) (first, middle, last int) {
	for _, b := range [][3]int{
		{vpp, vpp, vpp - 1},
		{vpp - 1, vpp, vpp - 1},
		{1, 1, 0},
		{0, 1, 0},
	} {
		if b[0]+(pp-2)*b[1]+b[2] <= layers {
			return b[0], b[1], b[2]
		}
	}
	return 0, 0, 0
}
