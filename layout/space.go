package layout

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/moeplan/moeplan/layout/arch"
)

// Space is what an enumeration tries: lists of candidates, and the run they share. Lists are ascending; Recompute is
// cheapest first. The space holds every combination in which ETP*EP stays within MaxExpertGroup and PP*VPP within
// MaxCells; those are bounds of the search, not rules.
type Space struct {
	World int
	Run   Run // with its defaults filled in
	Wide  bool

	TP, CP, PP, ETP, EP, VPP, MBS []int
	Recompute                     []Recompute

	MaxExpertGroup int // largest ETP*EP; 0: any
	MaxCells       int // largest PP*VPP: the model's layers + 2 + its MTP layers
}

// Pins are what a person fixed. A pin replaces the default list of its axis, so it may also widen it: single numbers are
// tried as they are, of a low..high range the divisors of the world (VPP: all of it; MBS: the divisors of the batch).
type Pins struct {
	TP, CP, PP, EP, ETP, VPP, MBS Range
	Recompute                     []Recompute
}

// Bounds of the default lists (ranking-findings 5.1 of the project's reference; replay of 151 tuned layouts).
var (
	defaultTP  = []int{1, 2, 4, 8}
	defaultETP = []int{1, 2, 4, 8}
	defaultVPP = []int{1, 2, 3, 4, 6, 8, 12}
	defaultMBS = []int{1, 2, 3, 4, 8}
	wideMBS    = []int{1, 2, 4, 8}
)

const (
	maxDefaultPP = 64
	// A context parallel rank keeps at least this many tokens.
	defaultCPTokens = 4096
	wideCPTokens    = 2048
)

// DefaultSpace is the space that tuned layouts are found in: TP 1 to 8 inside a node; CP only while a rank keeps 4096
// tokens; ETP 1; EP up to 64; PP up to 64; VPP 1 to 12; micro-batches of 1, 2, 3, 4 and 8 sequences; the model's
// recompute ladder. nodeSize is the number of GPUs that TP may span unpinned.
//
// Errors: *SizeError for a world, node, sequence or batch that cannot be meant; *NoLayoutError for a pinned range in
// which nothing divides the world; what arch.Model.Validate says of the model.
func DefaultSpace(m *arch.Model, world, nodeSize int, run Run, pins Pins) (*Space, error) {
	return newSpace(m, world, nodeSize, run, pins, false)
}

// WideSpace is DefaultSpace with CP while a rank keeps 2048 tokens, ETP up to 8, any EP, and micro-batches of 1, 2, 4
// and 8 sequences.
func WideSpace(m *arch.Model, world, nodeSize int, run Run, pins Pins) (*Space, error) {
	return newSpace(m, world, nodeSize, run, pins, true)
}

func newSpace(m *arch.Model, world, nodeSize int, run Run, pins Pins, wide bool) (*Space, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	run = run.WithDefaults(world)
	for _, c := range []struct {
		what       string
		size, most int
	}{{"world size", world, MaxSize}, {"node size", nodeSize, MaxSize}, {"sequence length", run.SeqLength, MaxSequence},
		{"global batch size", run.GlobalBatchSize, MaxSequence}} {
		if err := checkSize(c.what, c.size, c.most); err != nil {
			return nil, err
		}
	}
	s := &Space{World: world, Run: run, Wide: wide, MaxCells: m.NumLayers + 2 + m.MTPNumLayers, Recompute: pins.Recompute}
	if s.Recompute == nil {
		s.Recompute = RecomputeLadder(m)
	}
	if m.MoE != nil && !wide && pins.EP.IsZero() && pins.ETP.IsZero() {
		s.MaxExpertGroup = maxFlexGroup
	}
	divisors := Divisors(world)
	natural := naturalLists(m, run, divisors, nodeSize, wide)
	for _, a := range []struct {
		name string
		list *[]int
		pin  Range
		from []int // unpinned
		all  []int // what a pinned range picks from
	}{
		{"TP", &s.TP, pins.TP, natural.TP, divisors},
		{"CP", &s.CP, pins.CP, natural.CP, divisors},
		{"PP", &s.PP, pins.PP, natural.PP, divisors},
		{"ETP", &s.ETP, pins.ETP, natural.ETP, divisors},
		{"EP", &s.EP, pins.EP, natural.EP, divisors},
		{"VPP", &s.VPP, pins.VPP, natural.VPP, upTo(s.MaxCells)},
		{"MBS", &s.MBS, pins.MBS, natural.MBS, Divisors(run.GlobalBatchSize)},
	} {
		if *a.list = a.from; a.pin.IsZero() {
			continue
		}
		if *a.list = a.pin.pick(a.all); len(*a.list) == 0 {
			return nil, nothingPinned(a.name, a.pin, a.all, world, run)
		}
	}
	if m.MoE == nil && run.Order != "" && pins.ETP.IsZero() {
		s.ETP = s.TP // in another order Megatron's own choice, ETP = TP, is the one that builds
	}
	return s, nil
}

// naturalLists are the lists of an axis on which nothing is pinned.
func naturalLists(m *arch.Model, run Run, divisors []int, nodeSize int, wide bool) Space {
	s := Space{ETP: []int{1}, EP: []int{1}, VPP: defaultVPP, MBS: defaultMBS}
	tokens := defaultCPTokens
	if wide {
		tokens, s.MBS = wideCPTokens, wideMBS
	}
	for _, d := range divisors {
		if d <= nodeSize && slices.Contains(defaultTP, d) {
			s.TP = append(s.TP, d)
		}
		if d == 1 || run.SeqLength%(2*d) == 0 && run.SeqLength/d >= tokens {
			s.CP = append(s.CP, d)
		}
		if d <= maxDefaultPP && d <= m.NumLayers+2 {
			s.PP = append(s.PP, d)
		}
	}
	if m.MoE != nil {
		s.EP = intersect(Divisors(m.MoE.NumExperts), divisors)
		if wide {
			s.ETP = intersect(defaultETP, divisors)
		}
	}
	return s
}

func intersect(a, b []int) []int {
	var both []int
	for _, n := range a {
		if slices.Contains(b, n) {
			both = append(both, n)
		}
	}
	return both
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i + 1
	}
	return list
}

func checkSize(what string, n, most int) error {
	switch {
	case n < 1:
		return &SizeError{What: what, Value: strconv.Itoa(n), Problem: "is below 1"}
	case n > most:
		return &SizeError{What: what, Value: strconv.Itoa(n), Problem: fmt.Sprintf("is larger than %d", most)}
	}
	return nil
}

func nothingPinned(name string, pin Range, all []int, world int, run Run) error {
	what := fmt.Sprintf("no %s in %s divides %d GPUs", name, pin, world)
	switch name {
	case "VPP":
		what = fmt.Sprintf("no VPP in %s leaves each chunk something to hold (at most %d)", pin, len(all))
	case "MBS":
		what = fmt.Sprintf("no MBS in %s divides the global batch %d", pin, run.GlobalBatchSize)
	}
	return &NoLayoutError{Message: what, Repairs: []string{orList(nearest(all, pin.spans[0].low))}}
}

// Contains reports whether a layout is one of the space's combinations, legal or not.
func (s *Space) Contains(l *Layout) bool {
	return l.World == s.World && slices.Contains(s.TP, l.TP) && slices.Contains(s.CP, l.CP) && slices.Contains(s.PP, l.PP) &&
		slices.Contains(s.ETP, l.ETP) && slices.Contains(s.EP, l.EP) && slices.Contains(s.VPP, l.VPP) &&
		slices.Contains(s.MBS, l.MicroBatchSize) && slices.Contains(s.Recompute, l.Recompute) &&
		s.groupFits(l.ETP, l.EP) && l.PP*l.VPP <= s.MaxCells
}

func (s *Space) groupFits(etp, ep int) bool {
	return s.MaxExpertGroup == 0 || etp*ep <= s.MaxExpertGroup
}

// sane reports whether rules can divide by every candidate, and multiply candidates.
func (s *Space) sane() bool {
	if s.World < 1 || s.World > MaxSize || s.Run.SeqLength < 1 || max(s.Run.SeqLength, s.Run.GlobalBatchSize) > MaxSequence {
		return false
	}
	for _, list := range [][]int{s.TP, s.CP, s.PP, s.ETP, s.EP, s.VPP, s.MBS} {
		for _, n := range list {
			if n < 1 || n > MaxSize {
				return false
			}
		}
	}
	return true
}
