package megatron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/layout/arch"
)

// Value is what the parser holds for one option: nothing (Python's None, the zero Value), a switch, a number, a text, or a
// list of numbers or texts.
type Value struct {
	set      bool
	list     bool
	isSwitch bool // Truth or a switch
	on       bool
	ints     []int
	floats   []float64
	texts    []string // as typed
}

func none() Value           { return Value{} }
func emptyList() Value      { return Value{set: true, list: true} }
func truth(on bool) Value   { return Value{set: true, isSwitch: true, on: on} }
func textOf(s string) Value { return Value{set: true, texts: []string{s}} }

// add appends a scalar to a list.
func (v *Value) add(one Value) {
	v.ints = append(v.ints, one.ints...)
	v.floats = append(v.floats, one.floats...)
	v.texts = append(v.texts, one.texts...)
}

// IsNone reports whether the parser would hold None.
func (v Value) IsNone() bool { return !v.set }

// IsList reports whether the parser would hold a list, however short.
func (v Value) IsList() bool { return v.list }

// Bool returns a switch's state; false for None.
func (v Value) Bool() bool { return v.on }

// Int returns an integer, the first of a list; 0 for None and for what is no integer.
func (v Value) Int() int {
	if len(v.ints) == 0 {
		return 0
	}
	return v.ints[0]
}

// Ints returns a list of integers (one for a scalar); nil for None. The slice is shared.
func (v Value) Ints() []int { return v.ints }

// Float returns a number, the first of a list; an integer counts. 0 for None and for texts.
func (v Value) Float() float64 {
	switch {
	case len(v.floats) > 0:
		return v.floats[0]
	case len(v.ints) > 0:
		return float64(v.ints[0])
	}
	return 0
}

// Floats returns a list of numbers (one for a scalar); nil for None. The slice is shared.
func (v Value) Floats() []float64 { return v.floats }

// Text returns the first text as typed, a whole number in its plain form; "" for None and for an empty list.
func (v Value) Text() string {
	switch {
	case v.isSwitch:
		return strconv.FormatBool(v.on)
	case len(v.texts) == 0:
		return ""
	}
	return v.texts[0]
}

// Texts returns all texts as typed, one for a scalar; nil for None and for an empty list. The slice is shared.
func (v Value) Texts() []string { return v.texts }

// Equal reports whether two values are the same to the parser; texts of numbers may differ.
func (v Value) Equal(o Value) bool {
	if v.set != o.set || v.list != o.list || v.isSwitch != o.isSwitch || v.on != o.on {
		return false
	}
	if len(v.ints)+len(v.floats) > 0 || len(o.ints)+len(o.floats) > 0 {
		return slices.Equal(v.ints, o.ints) && slices.Equal(v.floats, o.floats)
	}
	return slices.Equal(v.texts, o.texts)
}

// String shows the value much as Python would: None, True, 3, text, [a b].
func (v Value) String() string {
	switch {
	case !v.set:
		return "None"
	case v.isSwitch && v.on:
		return "True"
	case v.isSwitch:
		return "False"
	case v.list:
		return fmt.Sprint(v.texts)
	}
	return v.Text()
}

// convert turns a text into a value of the option's type, or says what is wrong with it.
func (o *Option) convert(text string) (v Value, bad string) {
	v = textOf(text)
	switch o.Type {
	case Integer:
		n, bad := pythonInt(text)
		if bad != "" {
			return none(), bad
		}
		v.ints = []int{n}
		v.texts[0] = strconv.Itoa(n)
	case Number:
		f, ok := pythonFloat(text)
		if !ok {
			return none(), "is not a number"
		}
		v.floats = []float64{f}
	case Truth:
		return truth(text != ""), ""
	case Frequency:
		return frequency(text)
	case Tuple:
		v.list = true
		for part := range strings.SplitSeq(strings.Trim(text, "()"), ",") {
			n, bad := pythonInt(part)
			if bad != "" {
				return none(), "is not a list of whole numbers such as 127,0"
			}
			v.ints = append(v.ints, n)
		}
	}
	return v, ""
}

// frequency reads an integer, or where there is a bracket a list expression
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/arguments.py:327-350).
func frequency(text string) (Value, string) {
	v := textOf(text)
	if !strings.Contains(text, "[") {
		n, bad := pythonInt(text)
		v.ints, v.texts[0] = []int{n}, strconv.Itoa(n)
		return v, bad
	}
	list, bad := frequencyList(text)
	v.ints, v.list = list, true
	return v, bad
}

// frequencyList evaluates a list expression. Upstream lets only these characters through, none of them a blank, before Python
// evaluates them (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/arguments.py:224-232). Nothing is executed here.
func frequencyList(text string) ([]int, string) {
	const wrong = "is not a list expression such as ([0]*3+[1]*58)"
	if len(text) > arch.MaxListText {
		return nil, "is too long a list expression"
	}
	if strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune(",0123456789[]()+*", r) }) >= 0 {
		return nil, wrong + " without blanks"
	}
	list, err := arch.EvalList(text)
	if err != nil {
		return nil, wrong
	}
	return list, ""
}
