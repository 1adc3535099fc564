package layout

import (
	"fmt"
	"strconv"
	"strings"
)

// maxSplitText and maxSplitSymbols bound a layout string before and after expansion, so that no text costs more than
// that to read. Real ones have a few hundred symbols.
const (
	maxSplitText    = 1 << 13
	maxSplitSymbols = 1 << 16
)

// String returns the split as a --pipeline-model-parallel-layout string, such as "Et*5|(t*6|)*14t*5L": E embedding,
// t decoder layer, m MTP layer, L loss, cells in order and separated by |. Runs of equal cells are folded where that
// is shorter. ParseSplit reads it back.
func (s *Split) String() string { return string(s.appendText(nil)) }

func (s *Split) appendText(b []byte) []byte {
	last := len(s.Cells) - 1
	var unit []byte
	for i := 0; i < last; {
		run := 1
		for i+run < last && sameContent(&s.Cells[i], &s.Cells[i+run]) {
			run++
		}
		unit = append(s.Cells[i].appendText(unit[:0]), '|')
		if folded := len(unit) + len("()*1"); run > 1 && folded < run*len(unit) {
			b = append(b, '(')
			b = append(b, unit...)
			b = append(b, ")*"...)
			b = strconv.AppendInt(b, int64(run), 10)
		} else {
			for range run {
				b = append(b, unit...)
			}
		}
		i += run
	}
	if last >= 0 {
		b = s.Cells[last].appendText(b)
	}
	return b
}

// sameContent compares two cells by what a layout string says of them.
func sameContent(a, b *Cell) bool {
	return a.Embedding == b.Embedding && a.Decoders == b.Decoders && a.MTP == b.MTP && a.Loss == b.Loss
}

func (c *Cell) appendText(b []byte) []byte {
	if c.Embedding {
		b = append(b, 'E')
	}
	b = appendRun(b, 't', c.Decoders)
	b = appendRun(b, 'm', c.MTP)
	if c.Loss {
		b = append(b, 'L')
	}
	return b
}

// appendRun writes t, tt or t*3.
func appendRun(b []byte, symbol byte, n int) []byte {
	switch {
	case n < 1:
		return b
	case n == 1:
		return append(b, symbol)
	case n == 2:
		return append(b, symbol, symbol)
	}
	return strconv.AppendInt(append(b, symbol, '*'), int64(n), 10)
}

// ParseSplit reads a --pipeline-model-parallel-layout string for pp pipeline ranks and a model with mtp MTP layers
// (negative: any number). The number of decoder layers is whatever the string holds: Check compares it with the model.
//
// Grammar, after every comma is removed: stages separated by |, each a sequence of E, t, m and L, possibly empty;
// (text)*N repeats text, which may contain | and x*N but no parenthesis; then x*N repeats one character
// (megatron/core/transformer/pipeline_parallel_layer_layout.py:253-321). At most 8,192 characters are
// read, and at most 65,536 symbols result.
//
// E and L are taken for the first and last cell even if the string puts empty stages around them, because that is where
// the framework builds embedding and output layer; CheckSplit reports it. An error is a *SizeError for a pp below 1, or
// Violations: every rule of the string's own that is broken.
func ParseSplit(text string, pp, mtp int) (*Split, error) {
	if pp < 1 || pp > MaxSize {
		return nil, &SizeError{What: "pp", Value: strconv.Itoa(pp), Problem: fmt.Sprintf("is not between 1 and %d", MaxSize)}
	}
	stages, violations := checkSplitText(text, pp, -1, mtp)
	if errs := violations.Errors(); len(errs) > 0 {
		return nil, errs
	}
	s := &Split{PP: pp, VPP: len(stages) / pp, Cells: make([]Cell, len(stages))}
	first := 0
	for i, stage := range stages {
		n := strings.Count(stage, "t")
		s.Cells[i] = Cell{First: first, Decoders: n, MTP: strings.Count(stage, "m")}
		first += n
	}
	s.Cells[0].Embedding = true
	s.Cells[len(stages)-1].Loss = true
	return s, nil
}

// CheckSplit returns every rule that a layout string breaks for pp pipeline ranks, numLayers decoder layers and mtp MTP
// layers, in the framework's order. A negative numLayers or mtp is not compared.
func CheckSplit(text string, pp, numLayers, mtp int) Violations {
	_, violations := checkSplitText(text, pp, numLayers, mtp)
	return violations
}

func checkSplitText(text string, pp, numLayers, mtp int) ([]string, Violations) {
	flat, bad := expandSplit(text)
	if bad != "" {
		return nil, Violations{violate("split-symbols", finding{message: bad})}
	}
	stages := strings.Split(flat, "|")
	if pp < 1 || len(stages)%pp != 0 {
		return stages, Violations{violate("split-stages", stagesFinding(len(stages), pp))}
	}
	f := newSplitFacts(pp, len(stages))
	for i, stage := range stages {
		for j := range len(stage) {
			f.add(i, stage[j], 1)
		}
	}
	var vs Violations
	if f.endsWrong() {
		vs = append(vs, violate("split-ends", endsFinding(&f)))
	}
	if numLayers >= 0 && f.t != numLayers || mtp >= 0 && f.m != mtp {
		vs = append(vs, violate("split-layer-count", countFinding(&f, numLayers, mtp)))
	}
	if f.decoderAfterMTP {
		vs = append(vs, violate("split-mtp-after-decoders", finding{message: "a decoder layer t stands after an MTP layer m",
			repairs: []string{"move every m behind the last t"}}))
	}
	if f.mtpScattered() {
		vs = append(vs, violate("split-mtp-chunk", mtpChunkFinding(&f)))
	}
	if len(vs) == 0 && (f.eCell != 0 || f.lCell != len(stages)-1) {
		vs = append(vs, violate("split-ends-moved", movedFinding(&f)))
	}
	return stages, vs
}

// expandSplit applies both kinds of repetition. It returns the flattened string, or what is wrong with the text.
func expandSplit(text string) (flat, bad string) {
	if len(text) > maxSplitText {
		return "", fmt.Sprintf("layout string of %d characters: at most %d are read", len(text), maxSplitText)
	}
	text, ok := expandGroups(strings.ReplaceAll(text, ",", ""))
	if ok {
		text, ok = expandCharacters(text)
	}
	if !ok {
		return "", fmt.Sprintf("layout string expands to more than %d symbols", maxSplitSymbols)
	}
	for i, r := range text {
		if !strings.ContainsRune("EtmL|", r) {
			return "", fmt.Sprintf("%q (symbol %d after expansion) is none of E t m L | and no repetition that can be read", r, i+1)
		}
	}
	return text, ""
}

// expandGroups replaces each (text)*N from the left; a parenthesis that starts no such group stays.
func expandGroups(text string) (string, bool) {
	if !strings.ContainsRune(text, '(') {
		return text, true
	}
	var b strings.Builder
	for len(text) > 0 {
		open := strings.IndexByte(text, '(')
		if open < 0 {
			break
		}
		b.WriteString(text[:open])
		text = text[open:]
		end := strings.IndexByte(text, ')')
		if end > 1 {
			if n, width := repetition(text[end+1:]); width > 0 {
				if !repeatInto(&b, text[1:end], n) {
					return "", false
				}
				text = text[end+1+width:]
				continue
			}
		}
		b.WriteByte('(')
		text = text[1:]
	}
	b.WriteString(text)
	return b.String(), b.Len() <= maxSplitSymbols
}

// expandCharacters replaces each x*N from the left.
func expandCharacters(text string) (string, bool) {
	if !strings.ContainsRune(text, '*') {
		return text, true
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		n, width := 1, 0
		if text[i] != '\n' {
			if n, width = repetition(text[i+1:]); width == 0 {
				n = 1
			}
		}
		if !repeatInto(&b, text[i:i+1], n) {
			return "", false
		}
		i += 1 + width
	}
	return b.String(), true
}

// repetition reads "*N" at the start of text; width 0 means there is none. N saturates.
func repetition(text string) (n, width int) {
	if len(text) < 2 || text[0] != '*' {
		return 0, 0
	}
	for width = 1; width < len(text) && '0' <= text[width] && text[width] <= '9'; width++ {
		n = min(n*10+int(text[width]-'0'), maxSplitSymbols+1)
	}
	if width == 1 {
		return 0, 0
	}
	return n, width
}

func repeatInto(b *strings.Builder, unit string, n int) bool {
	if b.Len()+len(unit)*n > maxSplitSymbols {
		return false
	}
	for range n {
		b.WriteString(unit)
	}
	return true
}

// ExpandSplit writes out the repetitions of a layout string and returns its stages, whatever rules they break. It is false
// for a string with other symbols than E, t, m, L and |, or one too long.
func ExpandSplit(text string) (stages []string, ok bool) {
	flat, bad := expandSplit(text)
	if bad != "" {
		return nil, false
	}
	return strings.Split(flat, "|"), true
}
