package megatron

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// Bounds of the search for repairs, in launches that are judged, for one violation and for one command line.
const (
	maxTriesEach = 250
	maxTriesAll  = 1200
	maxRepairs   = 4
	maxEdits     = 3  // in one repair
	maxHalves    = 24 // that are followed up
)

// edit is one change of a launch: an option given or taken out, a variable set or unset, another world.
type edit struct {
	option   *Option
	texts    []string // the option's values
	variable string
	text     string
	drop     bool // of option or variable
	world    int
}

// String writes the change as the user would make it: "--flag value", "drop --flag", "NAME=value", "unset NAME", "252 GPUs".
func (e edit) String() string {
	switch {
	case e.option != nil && e.drop:
		return "drop " + e.option.Name
	case e.option != nil:
		return strings.Join(append([]string{e.option.Name}, e.texts...), " ")
	case e.variable != "" && e.drop:
		return "unset " + e.variable
	case e.variable != "":
		return e.variable + "=" + e.text
	}
	return itoa(e.world) + " GPUs"
}

func repairText(edits []edit) string {
	words := make([]string, len(edits))
	for i, e := range edits {
		words[i] = e.String()
	}
	return strings.Join(words, " and ")
}

// apply makes the changes to a copy. It is false where a value is none that the option takes.
func (r *Resolved) apply(edits []edit) (*Resolved, bool) {
	s := &Settings{release: r.Settings.release, values: maps.Clone(r.Settings.values)}
	world, env := r.Degrees.World, r.Env
	for _, e := range edits {
		switch {
		case e.option != nil && e.drop:
			delete(s.values, e.option.Dest)
		case e.option != nil:
			v, ok := e.option.read(e.texts)
			if !ok {
				return nil, false
			}
			s.give(e.option, v)
		case e.variable != "":
			env = maps.Clone(env)
			if env == nil {
				env = map[string]string{}
			}
			if delete(env, e.variable); !e.drop {
				env[e.variable] = e.text
			}
		default:
			world = e.world
		}
	}
	changed, err := Resolve(s, world, env)
	return changed, err == nil
}

// read makes the value of texts as the parser does.
func (o *Option) read(texts []string) (Value, bool) {
	if !o.TakesValue() {
		return truth(o.Action == StoreTrue || o.Action == Toggle && !strings.HasPrefix(o.Name, "--no-")), true
	}
	v := emptyList()
	for _, text := range texts {
		one, bad := o.convert(text)
		if bad != "" || !o.allows(one, text) {
			return none(), false
		}
		if !o.List {
			return one, true
		}
		v.add(one)
	}
	return v, len(texts) >= o.MinValues && (o.MaxValues < 0 || len(texts) <= o.MaxValues)
}

// repairer looks for changes of one launch.
type repairer struct {
	c     *launch
	known map[layout.RuleID]bool // errors that the launch has anyway
	left  int                    // launches that may still be judged
}

func newRepairer(c *launch, found []buildFailure) *repairer {
	p := &repairer{c: c, known: map[layout.RuleID]bool{}, left: maxTriesAll}
	for _, f := range found {
		if c.severity(f.rule) == layout.Error {
			p.known[f.rule.ID] = true
		}
	}
	return p
}

// half is a change that clears the violation and breaks something else first.
type half struct {
	edits []edit
	c     *launch
	next  *rule
}

// of returns the nearest changes after which the rule holds and no other error has come: single ones, and where there are
// none, up to three together, of which each further one repairs what the one before broke. Each was judged again. Those that
// make it another model come only where nothing else is left.
func (p *repairer) of(f buildFailure) []string {
	texts := []string{}
	for _, edits := range p.editsOf(f) {
		if text := repairText(edits); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

func (p *repairer) editsOf(f buildFailure) [][]edit {
	budget := min(maxTriesEach, p.left)
	p.left -= budget
	var found, reshaped [][]edit
	var halves []half
	search := func(c *launch, r *rule, before []edit) {
		for _, list := range c.candidates(r) {
			below, above := 0, 0
			for _, e := range list {
				if budget == 0 || len(found) >= maxRepairs || below+above >= 2 {
					break
				}
				side := &above
				if e.below {
					side = &below
				}
				if *side > 0 {
					continue
				}
				budget--
				edits := append(slices.Clone(before), e.edit)
				next, ok := p.try(edits, f.rule.ID)
				switch {
				case !ok:
				case next.next == nil:
					*side++
					if !sameShape(next.c, p.c) {
						reshaped = append(reshaped, edits)
						break
					}
					found = append(found, edits)
				case len(edits) < maxEdits && len(halves) < maxHalves:
					halves = append(halves, next)
				}
			}
		}
	}
	search(p.c, f.rule, nil)
	for i := 0; i < len(halves); i++ {
		if len(found) > 0 { // fewest changes first, and no more than that
			break
		}
		if len(reshaped) > 0 && !sameShape(halves[i].c, p.c) {
			continue
		}
		search(halves[i].c, halves[i].next, halves[i].edits)
	}
	p.left += budget
	if len(found) == 0 {
		return reshaped[:min(len(reshaped), maxRepairs)]
	}
	return found
}

// sameShape reports whether two launches train the same model: the same tensors and as many experts a token. Positions,
// padding and how the router is trained may differ.
func sameShape(a, b *launch) bool {
	shape := func(c *launch) arch.Model {
		m := *c.model
		m.MaxPositionEmbeddings, m.MakeVocabSizeDivisibleBy, m.MegatronFlags, m.Launcher = 0, 0, nil, ""
		if m.MoE != nil {
			e := m.MoE
			m.MoE = &arch.MoE{NumExperts: e.NumExperts, TopK: e.TopK, FFNHiddenSize: e.FFNHiddenSize, SharedFFNSize: e.SharedFFNSize,
				SharedExpertGate: e.SharedExpertGate, LatentSize: e.LatentSize, LayerFreq: e.LayerFreq}
		}
		return m
	}
	return reflect.DeepEqual(shape(a), shape(b))
}

// try judges the launch with the changes. It is false where the rule is still broken; next is set where another error has come.
func (p *repairer) try(edits []edit, id layout.RuleID) (half, bool) {
	r, ok := p.c.apply(edits)
	if !ok {
		return half{}, false
	}
	c := newLaunch(r, p.c.o)
	h := half{edits: edits, c: c}
	for _, f := range c.broken() {
		switch {
		case c.severity(f.rule) != layout.Error:
		case f.rule.ID == id:
			return half{}, false
		case !p.known[f.rule.ID] && h.next == nil:
			h.next = f.rule
		}
	}
	return h, true
}
