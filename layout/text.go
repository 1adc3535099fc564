package layout

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout/arch"
)

// String returns the layout's text form, which Parse reads:
//
//	tp2 cp1 pp8 vpp4 ep32 etp1 mbs1 recompute=moe_act,layernorm offload=none split=Et*2|(t*3|)*30t*2L
//
// followed by gbs= seq= sp= precision= dispatcher= overlap= order= where they differ from the defaults: 8 Mi tokens a
// step (DefaultGlobalBatch), sequence 4096, sequence parallel iff TP > 1, bf16, alltoall, no overlap, the default order.
// The world is not part of it. A layout without Split has no split= word.
func (l Layout) String() string {
	b := l.appendMain(make([]byte, 0, 128))
	if l.GlobalBatchSize != DefaultGlobalBatch(l.SeqLength, l.World) {
		b = appendWord(b, "gbs=", l.GlobalBatchSize)
	}
	if l.SeqLength != DefaultSequence {
		b = appendWord(b, "seq=", l.SeqLength)
	}
	if l.SequenceParallel != (l.TP > 1) {
		b = append(append(b, " sp="...), onOff(l.SequenceParallel)...)
	}
	if l.Precision != BF16 {
		b = append(append(b, " precision="...), l.Precision.String()...)
	}
	if l.Dispatcher != AllToAll {
		b = append(append(b, " dispatcher="...), l.Dispatcher.String()...)
	}
	if l.EPOverlap {
		b = append(b, " overlap=on"...)
	}
	if l.RankOrder() != folding.DefaultOrder {
		b = append(append(b, " order="...), l.Order...)
	}
	return string(b)
}

// Key is the text form with every word written out, so that two layouts of one world have equal keys iff they are the
// same layout. Parse reads it too.
func (l Layout) Key() string {
	b := l.appendMain(make([]byte, 0, 224))
	b = appendWord(b, "gbs=", l.GlobalBatchSize)
	b = appendWord(b, "seq=", l.SeqLength)
	for _, w := range [...][2]string{
		{" sp=", onOff(l.SequenceParallel)},
		{" precision=", l.Precision.String()},
		{" dispatcher=", l.Dispatcher.String()},
		{" overlap=", onOff(l.EPOverlap)},
		{" order=", string(l.RankOrder())},
	} {
		b = append(append(b, w[0]...), w[1]...)
	}
	return string(b)
}

func (l *Layout) appendMain(b []byte) []byte {
	b = strconv.AppendInt(append(b, "tp"...), int64(l.TP), 10)
	b = appendWord(b, "cp", l.CP)
	b = appendWord(b, "pp", l.PP)
	b = appendWord(b, "vpp", l.VPP)
	b = appendWord(b, "ep", l.EP)
	b = appendWord(b, "etp", l.ETP)
	b = appendWord(b, "mbs", l.MicroBatchSize)
	b = l.Recompute.appendText(append(b, " recompute="...))
	b = append(b, " offload=none"...)
	if l.Split != nil {
		b = l.Split.appendText(append(b, " split="...))
	}
	return b
}

func appendWord(b []byte, name string, n int) []byte {
	return strconv.AppendInt(append(append(b, ' '), name...), int64(n), 10)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// Defaults are what a layout's text leaves open.
type Defaults struct {
	World int // number of GPUs
	Run   Run // zero fields take WithDefaults
	// Model decides the split where the text has none, and how many MTP layers a given one must hold. Nil: a missing
	// split stays nil and any number is accepted.
	Model *arch.Model
}

// maxLayoutText bounds the text of a layout: longer ones are refused unread.
const maxLayoutText = 1 << 14

// layoutWords are the words of the text form: those whose value follows immediately (tp2, also tp=2), and those with =.
var (
	sizeWords  = []string{"tp", "cp", "pp", "vpp", "ep", "etp", "mbs"}
	valueWords = []string{"recompute", "offload", "split", "gbs", "seq", "sp", "precision", "dispatcher", "overlap", "order"}
)

// Parse reads a layout's text form: words in any order, separated by white space. An unnamed degree, VPP or micro-batch
// is 1 (VPP follows from a given split); unnamed recompute is none; an unnamed split is BalancedSplit's; split=even asks
// for Megatron's own. What the run fixes comes from the defaults.
//
// It checks the text, not the layout: see Check. The error joins everything that is wrong, one a line: unknown or
// repeated words (with the nearest known one), sizes (*SizeError), names, and Violations of the split.
func Parse(text string, d Defaults) (Layout, error) {
	if len(text) > maxLayoutText {
		return Layout{}, fmt.Errorf("layout text of %d characters: at most %d are read", len(text), maxLayoutText)
	}
	p := layoutParser{seen: make(map[string]string, 16)}
	for _, word := range strings.Fields(text) {
		p.word(word)
	}
	l := p.layout(d)
	if err := errors.Join(p.errs...); err != nil {
		return Layout{}, err
	}
	return l, nil
}

type layoutParser struct {
	seen map[string]string
	errs []error
}

func (p *layoutParser) fail(err error) {
	if err != nil {
		p.errs = append(p.errs, err)
	}
}

// word files one word of the text under its name.
func (p *layoutParser) word(word string) {
	name, value, equals := strings.Cut(word, "=")
	if !equals {
		digits := strings.IndexAny(word, "-0123456789")
		if digits < 0 {
			digits = len(word)
		}
		name, value = word[:digits], word[digits:]
	}
	if !slices.Contains(sizeWords, name) && (!equals || !slices.Contains(valueWords, name)) {
		p.fail(unknownWord(word, name))
		return
	}
	if _, again := p.seen[name]; again {
		p.fail(fmt.Errorf("layout word %q: %s is given twice", clip(word), name))
		return
	}
	p.seen[name] = value
}

func unknownWord(word, name string) error {
	switch name {
	case "dp", "edp":
		return fmt.Errorf("layout word %q: %s follows from the other degrees and the world; leave it out", clip(word), name)
	case "gpus", "world":
		return fmt.Errorf("layout word %q: the world is not part of a layout's text", clip(word))
	}
	hint := didYouMean(name, slices.Concat(sizeWords, valueWords))
	if slices.Contains(valueWords, name) {
		hint = ", did you mean " + name + "=...?"
	}
	return fmt.Errorf("unknown layout word %q%s", clip(word), hint)
}

// size returns a word's number, or the fallback where it is not given.
func (p *layoutParser) size(name string, fallback, most int) int {
	text, ok := p.seen[name]
	if !ok {
		return fallback
	}
	n, err := parseNumber(name, text, most)
	p.fail(err)
	return n
}

func (p *layoutParser) flag(name string, fallback bool) bool {
	switch text, ok := p.seen[name]; {
	case !ok:
		return fallback
	case text == "on", text == "off":
		return text == "on"
	default:
		p.fail(fmt.Errorf("%s=%s: want on or off", name, plain(text)))
		return fallback
	}
}

// name reads a word with one of several parsers.
func name[T any](p *layoutParser, word string, fallback T, parse func(string) (T, error)) T {
	text, ok := p.seen[word]
	if !ok {
		return fallback
	}
	v, err := parse(text)
	p.fail(err)
	return v
}

func (p *layoutParser) layout(d Defaults) Layout {
	run := d.Run
	if run.SeqLength = p.size("seq", run.SeqLength, MaxSequence); run.SeqLength < 0 {
		run.SeqLength = 0
	}
	run.GlobalBatchSize = p.size("gbs", run.GlobalBatchSize, MaxSequence)
	run = run.WithDefaults(d.World)
	l := Layout{
		VPP: p.size("vpp", 1, MaxSize), MicroBatchSize: p.size("mbs", 1, MaxSize),
		GlobalBatchSize: run.GlobalBatchSize, SeqLength: run.SeqLength,
		Recompute:  name(p, "recompute", Recompute{}, ParseRecompute),
		Precision:  name(p, "precision", run.Precision, ParsePrecision),
		Dispatcher: name(p, "dispatcher", run.Dispatcher, ParseDispatcher),
		EPOverlap:  p.flag("overlap", run.EPOverlap),
		Order:      name(p, "order", run.Order, parseOrder),
	}
	l.World = d.World
	l.TP, l.CP, l.PP = p.size("tp", 1, MaxSize), p.size("cp", 1, MaxSize), p.size("pp", 1, MaxSize)
	l.EP, l.ETP = p.size("ep", 1, MaxSize), p.size("etp", 1, MaxSize)
	l.SequenceParallel = p.flag("sp", l.TP > 1)
	if text, ok := p.seen["offload"]; ok && text != "none" {
		p.fail(fmt.Errorf("offload=%s: only offload=none is supported so far", plain(text)))
	}
	if len(p.errs) == 0 {
		p.split(&l, d.Model)
	}
	return l
}

// split fills in the split, and VPP where only the split tells it.
func (p *layoutParser) split(l *Layout, m *arch.Model) {
	text, given := p.seen["split"]
	switch {
	case !given && m != nil:
		l.Split = BalancedSplit(m, l.PP, l.VPP)
		return
	case !given:
		return
	case text == "even" && m != nil:
		if l.Split = EvenSplit(m, l.PP, l.VPP); l.Split == nil {
			p.fail(fmt.Errorf("split=even: PP %d * VPP %d does not divide %d layers", l.PP, l.VPP, m.NumLayers))
		}
		return
	}
	mtp := -1
	if m != nil {
		mtp = m.MTPNumLayers
	}
	s, err := ParseSplit(text, l.PP, mtp)
	if err != nil {
		p.fail(err)
		return
	}
	if _, ok := p.seen["vpp"]; !ok {
		l.VPP = s.VPP
	}
	if s.VPP != l.VPP {
		p.fail(fmt.Errorf("vpp%d: the split has %d stages, that is vpp%d with pp%d", l.VPP, len(s.Cells), s.VPP, l.PP))
		return
	}
	l.Split = s
}

// parseOrder reads a rank order string; the default one becomes "".
func parseOrder(text string) (folding.Order, error) {
	seen := map[string]bool{}
	for axis := range strings.SplitSeq(text, "-") {
		switch axis {
		case "tp", "cp", "ep", "dp", "pp":
		default:
			return "", fmt.Errorf("order=%s: %q is none of tp cp ep dp pp", plain(text), clip(axis))
		}
		if seen[axis] {
			return "", fmt.Errorf("order=%s: %s is named twice", plain(text), axis)
		}
		seen[axis] = true
	}
	if folding.Order(text) == folding.DefaultOrder {
		return "", nil
	}
	return folding.Order(text), nil
}
