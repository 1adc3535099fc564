package topology

import "github.com/moeplan/moeplan/folding"

// SpanOf returns how all groups of size ranks, stride apart, lie over domains of the given number of ranks
// (rank r in domain r / domain), without listing them and without allocating.
//
// The groups are those of one axis, or of neighbouring axes, of a mesh over world ranks: they start at every
// rank lo + hi*size*stride with lo < stride. So size*stride must divide world. Whatever the domain, the
// result equals counting over the explicit lists; it takes constant time where stride reaches the domain
// or everything divides, at most domain/stride steps where only the stride divides the domain, and otherwise
// walks a group's domains for each place in a domain where a group can start: never more steps than ranks.
//
// All arguments must be at least 1; the zero Span comes back otherwise.
func SpanOf(world, size, stride, domain int) Span {
	if world < 1 || size < 1 || stride < 1 || domain < 1 {
		return Span{}
	}
	switch {
	case size == 1 || stride >= domain:
		// Every rank in a domain of its own.
		s := Span{Size: size, DomainsMin: size, DomainsMax: size, RanksMin: 1, RanksMax: 1}
		if size > 1 {
			s.RingEdges, s.ChainHops = size, size-1
		}
		return s
	case domain%(size*stride) == 0:
		return Span{Size: size, DomainsMin: 1, DomainsMax: 1, RanksMin: size, RanksMax: size,
			SamePairs: int64(size) * int64(size-1)}
	}
	block := size * stride
	var out Span
	if domain%stride == 0 {
		// Only the multiple of the stride counts: the same question with stride 1 in slots of a domain.
		slots := domain / stride
		starts := min(max(1, world/block), slots/gcd(size, slots))
		for hi := range starts {
			out = out.worst(consecutive(hi*size%slots, size, slots))
		}
		return out
	}
	// Groups start at lo + hi*block with lo < stride; only the place in a domain counts, and each once where the places of
	// a domain are few enough to be ticked off.
	var seen [16]uint64
	for hi := range min(max(1, world/block), domain/gcd(block, domain)) {
		for lo := range stride {
			phase := (hi*block + lo) % domain
			if word := phase / 64; word < len(seen) {
				if seen[word]>>(phase%64)&1 != 0 {
					continue
				}
				seen[word] |= 1 << (phase % 64)
			}
			var t tally
			t.walk(phase, size, stride, domain)
			out = out.worst(t.done())
		}
	}
	return out
}

// consecutive is a group of size neighbouring slots from a start inside the first domain.
func consecutive(start, size, slots int) Span {
	var t tally
	first := min(size, slots-start)
	t.add(0, first)
	full, last := (size-first)/slots, (size-first)%slots
	if full > 0 {
		t.close()
		s := &t.span
		s.RanksMin, s.RanksMax = min(s.RanksMin, slots), slots
		s.DomainsMax += full
		s.Size += full * slots
		s.SamePairs += int64(full) * int64(slots) * int64(slots-1)
	}
	if last > 0 {
		t.add(full+1, last)
	}
	return t.done()
}

// walk adds size ranks, stride apart, from a first rank.
func (t *tally) walk(first, size, stride, domain int) {
	for done := 0; done < size; {
		rank := first + done*stride
		d := rank / domain
		n := min(size-done, ((d+1)*domain-rank+stride-1)/stride)
		t.add(d, n)
		done += n
	}
}

// spanOfSteps is SpanOf for groups of two nested progressions: outer.Size copies of the inner one,
// outer.Stride apart. inner.Size*inner.Stride must divide outer.Stride, and outer.Size*outer.Stride world.
// It walks every different start.
func spanOfSteps(world int, inner, outer folding.Step, domain int) Span {
	if inner.Size == 1 {
		return SpanOf(world, outer.Size, outer.Stride, domain)
	}
	if outer.Size == 1 {
		return SpanOf(world, inner.Size, inner.Stride, domain)
	}
	if outer.Stride == inner.Size*inner.Stride {
		return SpanOf(world, inner.Size*outer.Size, inner.Stride, domain)
	}
	innerBlock, block := inner.Size*inner.Stride, outer.Size*outer.Stride
	starts := min(max(1, world/block), domain/gcd(block, domain))
	var out Span
	for hi := range starts {
		for mid := range outer.Stride / innerBlock {
			for lo := range inner.Stride {
				var t tally
				first := hi*block%domain + mid*innerBlock + lo
				for k := range outer.Size {
					t.walk(first+k*outer.Stride, inner.Size, inner.Stride, domain)
				}
				out = out.worst(t.done())
			}
		}
	}
	return out
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
