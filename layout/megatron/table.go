package megatron

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// flagsJSON is the one table of flags. Its header says where it comes from and what its fields mean.
//
//go:embed flags.json
var flagsJSON []byte

// flagTable is the form of flags.json.
type flagTable struct {
	Header       map[string]string `json:"header"`
	Releases     []string          `json:"releases"` // columns: the releases that were compared, oldest first
	Release017_0 struct {
		Missing []string                   `json:"missing"`
		Default map[string]json.RawMessage `json:"default"`
	} `json:"release_0_17_0"`
	Renames []struct {
		Old string `json:"old"`
		New string `json:"new"`
		At  string `json:"at"`
	} `json:"renames"`
	Flags []flagRecord `json:"flags"`

	byName map[string]int
}

// flagRecord is one spelling in all releases. fields are those of its first release.
type flagRecord struct {
	Name  string `json:"name"`
	Dest  string `json:"dest"`
	Group string `json:"group"`
	Since string `json:"since"`
	Until string `json:"until"`
	flagFields
	Changes []struct {
		From string `json:"from"`
		flagFields
	} `json:"changes"`
}

// flagFields are what can differ between releases. A field that is absent is nil; a null is kept as the text "null".
type flagFields struct {
	Action     json.RawMessage `json:"action"`
	Type       json.RawMessage `json:"type"`
	Nargs      json.RawMessage `json:"nargs"`
	Default    json.RawMessage `json:"default"`
	Choices    json.RawMessage `json:"choices"`
	Aliases    json.RawMessage `json:"aliases"`
	Hidden     json.RawMessage `json:"hidden"`
	Deprecated json.RawMessage `json:"deprecated"`
}

func (f *flagFields) each() [8]*json.RawMessage {
	return [8]*json.RawMessage{&f.Action, &f.Type, &f.Nargs, &f.Default, &f.Choices, &f.Aliases, &f.Hidden, &f.Deprecated}
}

var table = sync.OnceValue(func() *flagTable {
	dec := json.NewDecoder(bytes.NewReader(flagsJSON))
	dec.DisallowUnknownFields()
	t := &flagTable{byName: make(map[string]int, 1000)}
	if err := dec.Decode(t); err != nil {
		panic("bug: embedded flags.json: " + err.Error())
	}
	for i := range t.Flags {
		t.byName[t.Flags[i].Name] = i
	}
	return t
})

// record returns the record of a spelling, or nil.
func (t *flagTable) record(name string) *flagRecord {
	if i, ok := t.byName[name]; ok {
		return &t.Flags[i]
	}
	return nil
}

// renamed returns what upstream calls a flag that is gone, "" if it says nothing.
func (t *flagTable) renamed(name string) string {
	for _, r := range t.Renames {
		for old := range strings.FieldsFuncSeq(r.Old, func(c rune) bool { return c == ',' || c == '|' || c == ' ' }) {
			if old == name && strings.HasPrefix(r.New, "--") {
				return r.New
			}
		}
	}
	return ""
}

func (t *flagTable) column(name string) int {
	i := slices.Index(t.Releases, name)
	if i < 0 {
		panic("bug: flags.json has no release " + name)
	}
	return i
}

// column is the index of the release in the table.
func (r Release) column() int {
	if r.place == 0 {
		return len(table().Releases) - 1
	}
	return table().column(releases[r.place-1].flags)
}

// releaseOptions are the options of one release.
type releaseOptions struct {
	all        []*Option // in table order
	bySpelling map[string]*Option
	byDest     map[string]*Option
}

// optionsByPlace builds each release's options once, when they are first asked for.
var optionsByPlace = func() []func() *releaseOptions {
	list := make([]func() *releaseOptions, len(releases)+1)
	for i := range list {
		list[i] = sync.OnceValue(func() *releaseOptions { return buildOptions(Release{uint8(i)}) })
	}
	return list
}()

func optionsOf(r Release) *releaseOptions { return optionsByPlace[r.place]() }

func buildOptions(r Release) *releaseOptions {
	t := table()
	out := &releaseOptions{bySpelling: map[string]*Option{}, byDest: map[string]*Option{}}
	special := r.String() == "0.17.0"
	for i := range t.Flags {
		rec := &t.Flags[i]
		fields, ok := t.fieldsAt(rec, r.column())
		if !ok || special && slices.Contains(t.Release017_0.Missing, rec.Name) {
			continue
		}
		if d, ok := t.Release017_0.Default[rec.Name]; ok && special {
			fields.Default = d
		}
		aliases := decoded[[]string](rec, fields.Aliases)
		if first := out.firstOf(aliases); first != nil { // another spelling of an option that is already there
			out.bySpelling[rec.Name] = first
			continue
		}
		o := rec.option(&fields, aliases)
		o.place = i
		out.all = append(out.all, o)
		out.bySpelling[rec.Name] = o
		if _, ok := out.byDest[o.Dest]; !ok {
			out.byDest[o.Dest] = o
		}
	}
	return out
}

func (ro *releaseOptions) firstOf(names []string) *Option {
	for _, n := range names {
		if o := ro.bySpelling[n]; o != nil {
			return o
		}
	}
	return nil
}

// fieldsAt applies the changes up to a column. It is false where the release does not have the spelling.
func (t *flagTable) fieldsAt(rec *flagRecord, column int) (flagFields, bool) {
	if t.column(rec.Since) > column || rec.Until != "" && t.column(rec.Until) < column {
		return flagFields{}, false
	}
	fields := rec.flagFields
	for i := range rec.Changes {
		c := &rec.Changes[i]
		if t.column(c.From) > column {
			break
		}
		have := fields.each()
		for j, change := range c.each() {
			if *change != nil {
				*have[j] = *change
			}
		}
	}
	return fields, true
}

// decoded reads a field; an absent or null one is the zero value.
func decoded[T any](rec *flagRecord, raw json.RawMessage) (v T) {
	if raw == nil {
		return v
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(fmt.Sprintf("bug: flags.json: %s: %v", rec.Name, err))
	}
	return v
}

var actionNames = map[string]Action{"": Store, "store": Store, "true": StoreTrue, "false": StoreFalse, "toggle": Toggle}

var typeNames = map[string]ValueType{"": Text, "str": Text, "int": Integer, "float": Number, "bool": Truth, "frequency": Frequency, "tuple": Tuple}

func (rec *flagRecord) option(f *flagFields, aliases []string) *Option {
	action, okAction := actionNames[decoded[string](rec, f.Action)]
	kind, okType := typeNames[decoded[string](rec, f.Type)]
	if !okAction || !okType {
		panic("bug: flags.json: action or type of " + rec.Name)
	}
	o := &Option{
		Name: rec.Name, Spellings: append([]string{rec.Name}, aliases...), Dest: rec.Dest, Group: rec.Group,
		Action: action, Type: kind,
		Hidden: decoded[bool](rec, f.Hidden), Deprecated: decoded[bool](rec, f.Deprecated),
	}
	switch action {
	case Store:
		o.MinValues, o.MaxValues = 1, 1
		switch n := strings.Trim(string(f.Nargs), `"`); n {
		case "", "null":
		case "+":
			o.MaxValues, o.List = -1, true
		case "*":
			o.MinValues, o.MaxValues, o.List = 0, -1, true
		default:
			count, err := strconv.Atoi(n)
			if err != nil {
				panic("bug: flags.json: nargs of " + rec.Name)
			}
			o.MinValues, o.MaxValues, o.List = count, count, true
		}
		for _, raw := range decoded[[]json.RawMessage](rec, f.Choices) {
			o.Choices = append(o.Choices, strings.Trim(string(raw), `"`))
		}
		o.Default = rec.defaultValue(o, f.Default)
	case StoreFalse:
		o.Default = truth(true)
	default:
		o.Default = truth(false)
	}
	if action != Store && f.Default != nil {
		o.Default = rec.defaultValue(o, f.Default)
	}
	return o
}

// defaultValue reads a default, which has the option's type (or is a switch's truth value, or none).
func (rec *flagRecord) defaultValue(o *Option, raw json.RawMessage) Value {
	text := string(raw)
	switch {
	case raw == nil, text == "null":
		return none()
	case text == "true", text == "false":
		return truth(text == "true")
	}
	items := []json.RawMessage{raw}
	list := text[0] == '['
	if list {
		items = decoded[[]json.RawMessage](rec, raw)
	}
	v := emptyList()
	for _, item := range items {
		t := string(item)
		if t[0] == '"' {
			t = decoded[string](rec, item)
		}
		one, bad := o.convert(t)
		if bad != "" {
			panic("bug: flags.json: default of " + rec.Name + ": " + bad)
		}
		if !list {
			return one
		}
		v.add(one)
	}
	return v
}

// allDests holds every dest of every release.
var allDests = sync.OnceValue(func() map[string]bool {
	dests := make(map[string]bool, len(table().Flags))
	for i := range table().Flags {
		dests[table().Flags[i].Dest] = true
	}
	return dests
})
