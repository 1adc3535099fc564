package megatron

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// candidate is a change to be tried; below says that it makes a number smaller.
type candidate struct {
	edit
	below bool
}

// maxNumbers bounds the values that are tried for one number.
const maxNumbers = 24

// candidates are the changes that a rule names, one list for each of its turns, nearest first.
func (c *launch) candidates(r *rule) [][]candidate {
	var lists [][]candidate
	for _, turn := range r.turn {
		if list := c.turned(turn); len(list) > 0 {
			lists = append(lists, list)
		}
	}
	return lists
}

// turned reads one turn of a rule.
func (c *launch) turned(turn string) []candidate {
	words := strings.Fields(turn)
	switch {
	case turn == "WORLD_SIZE":
		return c.worlds()
	case turn == "BALANCED":
		return c.balancedLayout()
	case words[0] == "MATCH":
		return c.matched(words[1])
	case !strings.HasPrefix(turn, "--"):
		name, value, _ := strings.Cut(turn, "=")
		return []candidate{{edit: edit{variable: name, text: value, drop: value == ""}}}
	}
	o := optionsOf(c.rel).bySpelling[words[0]]
	switch {
	case o == nil:
		return nil
	case len(words) > 1:
		if slices.Equal(c.s.Value(o.Dest).Texts(), words[1:]) {
			return nil
		}
		return []candidate{{edit: edit{option: o, texts: words[1:]}}}
	}
	return c.varied(o)
}

// varied changes one option: a switch is turned, a number moved, a choice replaced, a list shortened, and what was given taken
// out.
func (c *launch) varied(o *Option) []candidate {
	given := c.given(o.Dest)
	drop := candidate{edit: edit{option: o, drop: true}}
	switch {
	case !o.TakesValue() && given:
		return []candidate{drop}
	case !o.TakesValue():
		return []candidate{{edit: edit{option: o}}}
	case o.Name == layoutFlag:
		list := c.balancedLayout()
		if given {
			list = append(list, drop)
		}
		return list
	case o.Name == hybridPatternFlag && c.hybrid():
		return append(c.otherPatterns(o), drop)
	case o.Dest == "hierarchical_context_parallel_sizes":
		var list []candidate
		for _, a := range layout.Divisors(c.Degrees.CP) {
			list = append(list, candidate{edit: edit{option: o, texts: []string{itoa(a), itoa(c.Degrees.CP / a)}}})
		}
		slices.Reverse(list)
		return append(list, drop)
	case o.Choices != nil && !o.List:
		var list []candidate
		for _, text := range o.Choices {
			if text != c.str(o.Dest) {
				list = append(list, candidate{edit: edit{option: o, texts: []string{text}}})
			}
		}
		if given && o.Default.IsNone() {
			list = append([]candidate{drop}, list...)
		}
		return list
	case o.Type == Integer && !o.List:
		return c.numbered(o, drop)
	case o.List && given:
		return append(shortened(o, c.list(o.Dest)), drop)
	}
	if given {
		return []candidate{drop}
	}
	return nil
}

// otherPatterns are the hybrid pattern without unknown letters and with equal MTP parts, and without its pipes.
func (c *launch) otherPatterns(o *Option) []candidate {
	h := c.Shape.Hybrid
	if len(h.Main()) > arch.MaxLayers || len(h.MTP) > arch.MaxLayers {
		return nil // no model, and copies of it would be large
	}
	known := func(r rune) rune {
		if strings.ContainsRune("MG*D+-E|", r) {
			return r
		}
		return -1
	}
	main, mtp := strings.Map(known, strings.Join(h.Segments, "|")), strings.Repeat("/"+strings.Map(known, h.MTP), min(h.Depths, 1<<8))
	var list []candidate
	for _, text := range []string{main + mtp, strings.ReplaceAll(main, "|", "") + mtp} {
		if text != "" && text != c.str(o.Dest) {
			list = append(list, candidate{edit: edit{option: o, texts: []string{text}}})
		}
	}
	return list
}

// shortened takes one value out of a list.
func shortened(o *Option, texts []string) []candidate {
	var list []candidate
	for i := range texts {
		if rest := slices.Delete(slices.Clone(texts), i, i+1); len(rest) > 0 {
			list = append(list, candidate{edit: edit{option: o, texts: rest}})
		}
	}
	return list
}

// numbered moves a number to others that may fit, nearest first; a number that has no default may go.
func (c *launch) numbered(o *Option, drop candidate) []candidate {
	v := c.int(o.Dest)
	if c.none(o.Dest) { // what it is taken for
		switch o.Dest {
		case "expert_tensor_parallel_size":
			v = c.Degrees.ETP
		case "global_batch_size":
			v = c.Batch.GlobalBatchSize
		case "num_virtual_stages_per_pipeline_rank":
			v = 1
		case "microbatch_group_size_per_vp_stage":
			v = c.Degrees.PP
		case "moe_router_num_groups", "flash_attention_version":
			v = 1
		default:
			return nil
		}
	}
	var list []candidate
	for _, n := range c.near(v) {
		list = append(list, candidate{edit: edit{option: o, texts: []string{itoa(n)}}, below: n < v})
	}
	if c.given(o.Dest) && (o.Default.IsNone() || v < 1 || o.Default.Int() <= 0) {
		list = slices.Insert(list, min(4, len(list)), drop)
	}
	return list
}

// near returns numbers other than v that the sizes of the launch suggest, nearest first: neighbours, multiples of what cuts
// things, divisors of what is cut.
func (c *launch) near(v int) []int {
	d, b, s := &c.Degrees, &c.Batch, &c.Shape
	if v < 0 || v > maxDerived {
		return []int{0, 1}
	}
	numbers := []int{1, 2, 4, 8, v - 2, v - 1, v + 1, v + 2, v / 2, v * 2}
	step := product(b.MicroBatchSize, max(1, c.DP), max(1, c.WeightRemat))
	middle, stages := c.middle()
	if stages > 0 && middle > 0 {
		numbers = append(numbers, v+middle%stages, v-(stages-middle%stages))
	}
	for _, unit := range []int{d.TP, d.CP, d.PP, d.EP, d.ETP, 2 * d.CP, product(d.TP, d.CP), product(2, d.TP, d.CP), step, product(step, max(1, c.Pipeline.GroupSize)),
		product(step, d.PP), product(d.PP, max(1, c.Pipeline.VPP)), 16, product(16, d.TP), product(16, d.ETP)} {
		numbers = append(numbers, layout.NearestMultiples(unit, v)...)
		if low := layout.NearestMultiples(unit, v); len(low) == 1 && low[0] == v {
			numbers = append(numbers, v-unit, v+unit)
		}
	}
	for _, whole := range []int{d.World, s.NumExperts, s.NumLayers, c.counted(), s.Heads, s.QueryGroups, quotient(b.GlobalBatchSize, max(1, c.DP)), product(max(1, c.DP), d.CP), c.EDP,
		quotient(c.counted(), d.PP), quotient(d.World, product(d.TP, d.CP)), quotient(d.World, product(d.ETP, d.PP)), quotient(d.World, product(d.EP, d.PP))} {
		if whole < 1 || whole > 1<<24 {
			continue
		}
		divisors := layout.Divisors(whole)
		i, _ := slices.BinarySearch(divisors, v)
		numbers = append(numbers, divisors[max(0, i-4):min(len(divisors), i+5)]...)
	}
	numbers = slices.DeleteFunc(numbers, func(n int) bool { return n < 1 || n == v })
	slices.SortFunc(numbers, func(a, b int) int {
		return cmp.Or(cmp.Compare(max(a-v, v-a), max(b-v, v-b)), cmp.Compare(a, b))
	})
	numbers = slices.Compact(numbers)
	numbers = numbers[:min(len(numbers), maxNumbers)]
	if n := v + middle; c.countsDecide() && stages == 0 && n > 0 && n != v { // what an end must hold where nobody is between
		numbers = append([]int{n}, numbers...)
	}
	return numbers
}

// worlds are the nearest numbers of GPUs that both meshes divide.
func (c *launch) worlds() []candidate {
	d := &c.Degrees
	a, b := product(d.TP, d.CP, d.PP, max(1, c.WeightRemat)), product(d.ETP, d.EP, d.PP, max(1, c.ExpertWeightRemat))
	var list []candidate
	for _, unit := range []int{leastMultiple(a, b), a, b} {
		for _, n := range layout.NearestMultiples(unit, d.World) {
			if n != d.World && n <= layout.MaxSize {
				list = append(list, candidate{edit: edit{world: n}, below: n < d.World})
			}
		}
	}
	return list
}

func leastMultiple(a, b int) int {
	if a < 1 || b < 1 {
		return 0
	}
	g := a
	for m := b; m != 0; {
		g, m = m, g%m
	}
	return product(a/g, b)
}

// balancedLayout is the layout string that moeplan itself would write.
func (c *launch) balancedLayout() []candidate {
	o := optionsOf(c.rel).bySpelling[layoutFlag]
	d := &c.Degrees
	if o == nil || c.hybrid() || d.PP < 2 || c.Shape.NumLayers < 1 || c.layers == nil || c.model.NumLayers > 1<<12 || d.PP*max(1, c.Pipeline.VPP) > 1<<12 {
		return nil
	}
	m := *c.model
	if m.VocabSize = max(c.Shape.PaddedVocab, 0); m.VocabSize == 0 {
		m.VocabSize = 4 * m.HiddenSize // unknown: something for the output layer to weigh
	}
	var list []candidate
	for _, vpp := range slices.Compact([]int{max(1, c.Pipeline.VPP), 1}) {
		if s := layout.BalancedSplit(&m, d.PP, vpp); s != nil {
			if text := s.String(); text != c.Pipeline.Layout {
				list = append(list, candidate{edit: edit{option: o, texts: []string{text}}})
			}
		}
	}
	return list
}

// matched sets positions to the sequence or the other way round.
func (c *launch) matched(flag string) []candidate {
	n := c.l.SeqLength
	if flag == "--seq-length" {
		n = c.Batch.MaxPositionEmbeddings
	}
	if n < 1 {
		return nil
	}
	return []candidate{{edit: edit{option: optionsOf(c.rel).bySpelling[flag], texts: []string{itoa(n)}}}}
}

func itoa(n int) string { return strconv.Itoa(n) }
