package megatron

import (
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/layout/arch"
)

// Bounds of a list expression. Real ones have under 100 characters and two levels.
const (
	maxPatternText  = 4096
	maxPatternDepth = 64
)

// evalPattern evaluates the list expression of --moe-layer-freq and its like: integers, lists, +, * and parentheses, with
// Python's precedence. Upstream lets only these characters through, none of them a blank, before Python evaluates them
// (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/arguments.py:224-232). Nothing is executed here and no list grows
// beyond arch.MaxLayers entries; unlike arch.LayerFreq it takes entries other than 0 and 1, which the parser takes too.
func evalPattern(text string) ([]int, string) {
	const wrong = "is not a list expression such as ([0]*3+[1]*58)"
	if len(text) > maxPatternText {
		return nil, "is too long a list expression"
	}
	if strings.Trim(text, ",0123456789[]()+*") != "" || strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune(",0123456789[]()+*", r) }) >= 0 {
		return nil, wrong + " without blanks"
	}
	p := patternParser{text: text}
	v := p.sum()
	if p.failed || p.pos != len(text) || !v.isList {
		return nil, wrong
	}
	return v.list, ""
}

// patternValue is an integer or a list of integers.
type patternValue struct {
	isList bool
	n      int
	list   []int
}

// patternParser evaluates
//
//	sum     = product { "+" product }
//	product = atom { "*" atom }
//	atom    = integer | "[" [ sum { "," sum } [ "," ] ] "]" | "(" sum ")"
type patternParser struct {
	text   string
	pos    int
	depth  int
	failed bool
}

func (p *patternParser) fail() patternValue {
	p.failed = true
	return patternValue{}
}

// take steps over a character if it is next.
func (p *patternParser) take(c byte) bool {
	if p.failed || p.pos == len(p.text) || p.text[p.pos] != c {
		return false
	}
	p.pos++
	return true
}

func (p *patternParser) sum() patternValue {
	v := p.product()
	for p.take('+') {
		w := p.product()
		switch {
		case p.failed || v.isList != w.isList || len(v.list)+len(w.list) > arch.MaxLayers || v.n+w.n > arch.MaxLayers:
			return p.fail()
		case v.isList:
			v.list = append(v.list[:len(v.list):len(v.list)], w.list...)
		default:
			v.n += w.n
		}
	}
	return v
}

func (p *patternParser) product() patternValue {
	v := p.atom()
	for p.take('*') {
		w := p.atom()
		if w.isList {
			v, w = w, v
		}
		switch {
		case p.failed || w.isList || len(v.list)*w.n > arch.MaxLayers || v.n*w.n > arch.MaxLayers:
			return p.fail()
		case v.isList:
			repeated := make([]int, 0, len(v.list)*w.n)
			for len(repeated) < len(v.list)*w.n {
				repeated = append(repeated, v.list...)
			}
			v.list = repeated
		default:
			v.n *= w.n
		}
	}
	return v
}

func (p *patternParser) atom() patternValue {
	p.depth++
	defer func() { p.depth-- }()
	switch {
	case p.failed || p.depth > maxPatternDepth:
		return p.fail()
	case p.take('('):
		v := p.sum()
		if !p.take(')') {
			return p.fail()
		}
		return v
	case p.take('['):
		return p.list()
	}
	start := p.pos
	for p.pos < len(p.text) && '0' <= p.text[p.pos] && p.text[p.pos] <= '9' {
		p.pos++
	}
	digits := p.text[start:p.pos]
	n, err := strconv.Atoi(digits)
	if err != nil || n > arch.MaxLayers || len(digits) > 1 && digits[0] == '0' && n > 0 { // Python takes no leading zeros
		return p.fail()
	}
	return patternValue{n: n}
}

func (p *patternParser) list() patternValue {
	v := patternValue{isList: true}
	for !p.take(']') {
		e := p.sum()
		if p.failed || e.isList || len(v.list) == arch.MaxLayers {
			return p.fail()
		}
		v.list = append(v.list, e.n)
		if !p.take(',') {
			if !p.take(']') {
				return p.fail()
			}
			break
		}
	}
	return v
}
