package arch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// LayerFreq is --moe-layer-freq as a person writes it: an integer N (layer i, from 0, is MoE iff
// i % N == 0) or a list expression with one 0 or 1 a layer, such as "([0]*3+[1]*58)" or "([0,1]*24)".
// "" means 1, Megatron's default: every layer is MoE.
//
// Megatron hands the expression to Python's eval (megatron/training/arguments.py, moe_freq_type). Here
// only integers, lists, +, * and parentheses are understood, nothing is executed, and the result is
// bounded by MaxLayers.
type LayerFreq string

// MaxLayers bounds the number of layers of a model and the length of any list expression.
const MaxLayers = 1 << 14

// Bounds of a list expression's text. Real ones have under 100 characters and two levels.
const (
	MaxListText  = 4096
	maxFreqDepth = 64
)

// Pattern evaluates the expression. Either list is the 0/1 entries as written and every is 0, or list is
// nil and every is the integer N >= 1.
//
// Errors: syntax, an integer below 1, entries other than 0 and 1, more than MaxLayers entries.
func (f LayerFreq) Pattern() (list []int, every int, err error) {
	text := strings.TrimSpace(string(f))
	if text == "" {
		return nil, 1, nil
	}
	if len(text) > MaxListText {
		return nil, 0, fmt.Errorf("layer frequency of %d characters: at most %d are read", len(text), MaxListText)
	}
	p := freqParser{text: text}
	v, err := p.parse()
	if err != nil {
		return nil, 0, fmt.Errorf("layer frequency %q: %w", text, err)
	}
	if !v.isList {
		if v.n < 1 {
			return nil, 0, fmt.Errorf("layer frequency %q: %d is below 1", text, v.n)
		}
		return nil, v.n, nil
	}
	for i, e := range v.list {
		if e != 0 && e != 1 {
			return nil, 0, fmt.Errorf("layer frequency %q: entry %d is %d, not 0 or 1", text, i+1, e)
		}
	}
	return v.list, 0, nil
}

// EvalList evaluates a list expression, whatever integers it lists: the parser of --moe-layer-freq and its like takes all of
// them, and only building the model asks for 0 and 1. Errors are those of Pattern, and an expression that is no list.
func EvalList(text string) ([]int, error) {
	if len(text) > MaxListText {
		return nil, fmt.Errorf("list expression of %d characters: at most %d are read", len(text), MaxListText)
	}
	p := freqParser{text: text}
	v, err := p.parse()
	if err == nil && !v.isList {
		err = errors.New("an integer")
	}
	return v.list, err
}

// Expand says for each of numLayers layers whether it is MoE. A list must have exactly that many entries
// (megatron/core/models/gpt/gpt_layer_specs.py, get_gpt_decoder_layer_specs).
func (f LayerFreq) Expand(numLayers int) ([]bool, error) {
	if numLayers < 0 || numLayers > MaxLayers {
		return nil, fmt.Errorf("%d layers: between 0 and %d are supported", numLayers, MaxLayers)
	}
	list, every, err := f.Pattern()
	if err != nil {
		return nil, err
	}
	moe := make([]bool, numLayers)
	if every > 0 {
		for i := range moe {
			moe[i] = i%every == 0
		}
		return moe, nil
	}
	if len(list) != numLayers {
		return nil, fmt.Errorf("layer frequency %q has %d entries for %d layers", string(f), len(list), numLayers)
	}
	for i := range moe {
		moe[i] = list[i] == 1
	}
	return moe, nil
}

// UnmarshalJSON accepts a number or a string and refuses what Pattern refuses.
func (f *LayerFreq) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		*f = ""
		return nil
	}
	if strings.HasPrefix(text, `"`) {
		s, err := strconv.Unquote(text)
		if err != nil {
			return fmt.Errorf("layer frequency %s: not a plain string", text)
		}
		text = s
	}
	if _, _, err := LayerFreq(text).Pattern(); err != nil {
		return err
	}
	*f = LayerFreq(text)
	return nil
}

// MarshalJSON writes a plain integer as a number and everything else as a string.
func (f LayerFreq) MarshalJSON() ([]byte, error) {
	if f == "" {
		return []byte("1"), nil
	}
	if n, err := strconv.Atoi(string(f)); err == nil {
		return strconv.AppendInt(nil, int64(n), 10), nil
	}
	return strconv.AppendQuote(nil, string(f)), nil
}

// freqValue is an integer or a list of integers, the only two values of the grammar.
type freqValue struct {
	isList bool
	n      int
	list   []int
}

// freqParser evaluates, left to right and with Python's precedence,
//
//	sum     = product { "+" product }
//	product = atom { "*" atom }
//	atom    = integer | "[" [ sum { "," sum } [ "," ] ] "]" | "(" sum ")"
type freqParser struct {
	text  string
	pos   int
	depth int
}

func (p *freqParser) parse() (freqValue, error) {
	v, err := p.sum()
	if err != nil {
		return freqValue{}, err
	}
	if p.peek() != 0 {
		return freqValue{}, fmt.Errorf("unexpected %q at %d", p.text[p.pos], p.pos+1)
	}
	return v, nil
}

// peek returns the next character that is not a blank, or 0 at the end.
func (p *freqParser) peek() byte {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
	if p.pos == len(p.text) {
		return 0
	}
	return p.text[p.pos]
}

func (p *freqParser) sum() (freqValue, error) {
	v, err := p.product()
	for err == nil && p.peek() == '+' {
		p.pos++
		var w freqValue
		if w, err = p.product(); err == nil {
			v, err = addFreq(v, w)
		}
	}
	return v, err
}

func (p *freqParser) product() (freqValue, error) {
	v, err := p.atom()
	for err == nil && p.peek() == '*' {
		p.pos++
		var w freqValue
		if w, err = p.atom(); err == nil {
			v, err = mulFreq(v, w)
		}
	}
	return v, err
}

func (p *freqParser) atom() (freqValue, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxFreqDepth {
		return freqValue{}, errors.New("nested too deep")
	}
	switch c := p.peek(); {
	case c == 0:
		return freqValue{}, errors.New("ends too early")
	case c == '(':
		p.pos++
		v, err := p.sum()
		if err != nil {
			return v, err
		}
		return v, p.expect(')')
	case c == '[':
		p.pos++
		return p.list()
	case '0' <= c && c <= '9':
		return p.integer()
	default:
		return freqValue{}, fmt.Errorf("unexpected %q at %d", c, p.pos+1)
	}
}

func (p *freqParser) expect(c byte) error {
	if p.peek() != c {
		return fmt.Errorf("%q expected at %d", c, p.pos+1)
	}
	p.pos++
	return nil
}

func (p *freqParser) list() (freqValue, error) {
	v := freqValue{isList: true}
	for p.peek() != ']' {
		e, err := p.sum()
		if err != nil {
			return v, err
		}
		if e.isList {
			return v, errors.New("a list inside a list")
		}
		v.list = append(v.list, e.n)
		if p.peek() == ']' {
			break
		}
		if err := p.expect(','); err != nil {
			return v, err
		}
	}
	p.pos++
	return v, nil
}

func (p *freqParser) integer() (freqValue, error) {
	start := p.pos
	for p.pos < len(p.text) && '0' <= p.text[p.pos] && p.text[p.pos] <= '9' {
		p.pos++
	}
	digits := p.text[start:p.pos]
	n, err := strconv.Atoi(digits)
	if digits[0] == '0' && n > 0 {
		return freqValue{}, fmt.Errorf("%.20s at %d: Python takes no leading zeros", digits, start+1)
	}
	if err != nil || n > MaxLayers {
		return freqValue{}, fmt.Errorf("integer above %d at %d", MaxLayers, start+1)
	}
	return freqValue{n: n}, nil
}

var errFreqTooLong = fmt.Errorf("more than %d entries", MaxLayers)

func addFreq(v, w freqValue) (freqValue, error) {
	switch {
	case v.isList != w.isList:
		return v, errors.New("a list plus an integer")
	case !v.isList:
		return checkedFreq(v.n + w.n)
	case len(v.list)+len(w.list) > MaxLayers:
		return v, errFreqTooLong
	}
	joined := make([]int, 0, len(v.list)+len(w.list))
	return freqValue{isList: true, list: append(append(joined, v.list...), w.list...)}, nil
}

func mulFreq(v, w freqValue) (freqValue, error) {
	if w.isList {
		v, w = w, v
	}
	switch {
	case w.isList:
		return v, errors.New("a list times a list")
	case !v.isList:
		return checkedFreq(v.n * w.n)
	case len(v.list)*w.n > MaxLayers:
		return v, errFreqTooLong
	}
	out := make([]int, 0, len(v.list)*w.n)
	if len(v.list) > 0 {
		for range w.n {
			out = append(out, v.list...)
		}
	}
	return freqValue{isList: true, list: out}, nil
}

// checkedFreq keeps intermediate integers small enough that no later product can overflow.
func checkedFreq(n int) (freqValue, error) {
	if n > MaxLayers {
		return freqValue{}, fmt.Errorf("integer above %d", MaxLayers)
	}
	return freqValue{n: n}, nil
}
