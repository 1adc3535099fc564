package megatron

import (
	"fmt"
	"regexp"
	"strings"
)

// Bounds of a command line. Real ones have a few hundred words.
const (
	maxWords        = 1 << 14
	maxArgvBytes    = 1 << 22
	maxProblems     = 100
	maxNearestFound = 16 // for how many unknown flags the nearest real one is looked for
)

// Parse reads the arguments of a training script (script name excluded) as Megatron-LM's parser does: exact spellings
// only, --flag=value, switches, lists, the last of repeated flags, values that begin with a minus where they are negative
// numbers. Defaults are those of the release; a flag that has no effect on layout or memory passes like any other.
//
// It follows Python's argparse as upstream uses it (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/arguments.py:112-132:
// no abbreviations, no positional arguments). The error is Problems: not only the first reason for which the parser would
// stop, but all. At most 16,384 words are read.
func Parse(argv []string, r Release) (*Settings, error) {
	s, problems := parse(argv, r)
	if len(problems) > 0 {
		return nil, problems
	}
	return s, nil
}

// parse is Parse that returns the settings in any case: what it can read of a command line with problems.
func parse(argv []string, r Release) (*Settings, Problems) {
	p := argvReader{argv: argv, options: optionsOf(r), settings: newSettings(r)}
	if size := argvBytes(argv); len(argv) > maxWords || size > maxArgvBytes {
		return p.settings, Problems{{Kind: TooLong,
			Message: fmt.Sprintf("%d words of %d bytes in all: at most %d words of %d bytes are read", len(argv), size, maxWords, maxArgvBytes)}}
	}
	p.run()
	if p.unreported > 0 {
		p.problems = append(p.problems, Problem{Kind: Stray, Word: len(argv), Message: fmt.Sprintf("and %d problems more", p.unreported)})
	}
	return p.settings, p.problems
}

func argvBytes(argv []string) int {
	n := 0
	for _, a := range argv {
		n += len(a)
	}
	return n
}

// argvReader walks over the words of an argv once.
type argvReader struct {
	argv       []string
	options    *releaseOptions
	settings   *Settings
	problems   Problems
	unreported int
	searched   int // unknown flags whose nearest was looked for
	literal    int // index of the first "--", behind which nothing is a flag
}

// negativeNumber is what argparse takes for a value although it begins with a minus.
var negativeNumber = regexp.MustCompile(`^-\d+$|^-\d*\.\d+$`)

// isFlag reports whether argparse takes the word for a flag, known or not, rather than for a value. A word with a blank
// that is no known flag is a value.
func (p *argvReader) isFlag(word string) bool {
	if len(word) < 2 || word[0] != '-' {
		return false
	}
	name, _, _ := strings.Cut(word, "=")
	if p.options.bySpelling[name] != nil || word == "-h" || name == "--help" {
		return true
	}
	if strings.HasPrefix(word, "-h") { // the one short option, with its value attached
		return true
	}
	return !negativeNumber.MatchString(word) && !strings.Contains(word, " ")
}

func (p *argvReader) run() {
	p.literal = len(p.argv)
	for i, word := range p.argv {
		if word == "--" {
			p.literal = i
			break
		}
	}
	for i := 0; i < len(p.argv); {
		if i < p.literal && p.isFlag(p.argv[i]) {
			i += p.flag(i)
			continue
		}
		p.report(p.stray(i))
		i++
	}
}

// values counts the values that follow word i, before the next flag.
func (p *argvReader) values(i int) int {
	n := 0
	for i+1+n < p.literal && !p.isFlag(p.argv[i+1+n]) {
		n++
	}
	return n
}

// flag handles the flag at word i and returns how many words it took.
func (p *argvReader) flag(i int) int {
	word := p.argv[i]
	name, attached, joined := strings.Cut(word, "=")
	if o := p.options.bySpelling[word]; o != nil { // no flag has a "=" in its name
		name, joined = word, false
	}
	o := p.options.bySpelling[name]
	if o == nil {
		return p.unknown(i, name)
	}
	switch {
	case !o.TakesValue() && joined:
		p.report(unexpectedProblem(i, name, attached))
		return 1
	case !o.TakesValue():
		p.settings.give(o, truth(o.Action == StoreTrue || o.Action == Toggle && !strings.HasPrefix(name, "--no-")))
		return 1
	case joined && o.MinValues > 1:
		p.report(missingProblem(i, o, name, 1))
		return 1
	case joined:
		p.store(i, name, o, []string{attached})
		return 1
	}
	n := p.values(i)
	if n < o.MinValues {
		p.report(missingProblem(i, o, name, n))
		return 1 + n
	}
	if o.MaxValues >= 0 {
		n = min(n, o.MaxValues)
	}
	p.store(i, name, o, p.argv[i+1:i+1+n])
	return 1 + n
}

// store converts the values of the flag at word i.
func (p *argvReader) store(i int, name string, o *Option, texts []string) {
	v := emptyList()
	for _, text := range texts {
		one, bad := o.convert(text)
		switch {
		case bad != "":
			p.report(typeProblem(i, name, text, bad))
			return
		case !o.allows(one, text):
			p.report(choiceProblem(i, o, name, text, p.settings.release))
			return
		}
		if !o.List {
			p.settings.give(o, one)
			return
		}
		v.add(one)
	}
	p.settings.give(o, v)
}

// unknown reports the flag at word i and takes the values behind it, which belong to whatever it was meant to be.
func (p *argvReader) unknown(i int, name string) int {
	if word := p.argv[i]; strings.HasPrefix(word, "-h") || name == "--help" {
		p.report(Problem{Kind: HelpAsked, Word: i, Flag: clipped(word), Message: clipped(word) + " prints the help and ends the program"})
		return 1
	}
	search := p.searched < maxNearestFound
	p.searched++
	p.report(unknownProblem(i, name, p.settings.release, search))
	return 1 + p.values(i)
}

func (p *argvReader) stray(i int) Problem {
	return Problem{Kind: Stray, Word: i, Value: clipped(p.argv[i]),
		Message: fmt.Sprintf("%s: a word that no flag takes as its value", quoted(p.argv[i]))}
}

func (p *argvReader) report(problem Problem) {
	if len(p.problems) >= maxProblems {
		p.unreported++
		return
	}
	p.problems = append(p.problems, problem)
}
