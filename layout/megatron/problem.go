package megatron

import (
	"errors"
	"fmt"
	"strings"
)

// ErrArguments is what every Problems is, for errors.Is: the command line does not get past the parser.
var ErrArguments = errors.New("megatron: arguments that the parser refuses")

// ProblemKind says what is wrong with one part of a command line.
type ProblemKind string

const (
	UnknownFlag     ProblemKind = "unknown-flag"     // no release of Megatron-LM has it
	NotYet          ProblemKind = "not-yet"          // a later release has it
	Gone            ProblemKind = "gone"             // only an earlier release has it
	BadType         ProblemKind = "bad-type"         // not a number where one is wanted, and the like
	BadChoice       ProblemKind = "bad-choice"       // not one of the texts that the flag takes
	MissingValue    ProblemKind = "missing-value"    // fewer values than it needs
	UnexpectedValue ProblemKind = "unexpected-value" // --switch=value
	Stray           ProblemKind = "stray"            // a word that belongs to no flag
	HelpAsked       ProblemKind = "help"             // -h or --help: the program prints its help and stops
	TooLong         ProblemKind = "too-long"         // more words than are read here
)

// Problem is one reason for which the parser would refuse a command line.
type Problem struct {
	Kind    ProblemKind `json:"kind"`
	Word    int         `json:"word"`    // index in the argv, from 0
	Flag    string      `json:"flag"`    // the flag as written, clipped; "" for a stray word
	Value   string      `json:"value"`   // the text at fault, clipped; "" where there is none
	Message string      `json:"message"` // one line
	Repair  string      `json:"repair"`  // what to write instead; "" if nothing is near
}

// Error is the message with its repair.
func (p *Problem) Error() string {
	if p.Repair == "" {
		return p.Message
	}
	return p.Message + "; try " + p.Repair
}

// Problems are all reasons for which the parser would refuse a command line, in the order of its words.
type Problems []Problem

// Error joins all problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i := range ps {
		lines[i] = ps[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Is makes errors.Is(err, ErrArguments) true.
func (ps Problems) Is(target error) bool { return target == ErrArguments }

// unknownProblem describes a flag that the release does not have.
func unknownProblem(word int, name string, r Release, search bool) Problem {
	p := Problem{Kind: UnknownFlag, Word: word, Flag: clipped(name)}
	var e *UnknownFlagError
	if search || table().record(name) != nil {
		e = unknownFlag(name, r)
	} else {
		e = &UnknownFlagError{Name: name, Release: r}
	}
	p.Repair = e.Instead
	if p.Repair == "" {
		p.Repair = e.Nearest
	}
	switch {
	case e.Since == "" && strings.HasPrefix(name, "--"):
		p.Message = fmt.Sprintf("%s: Megatron-LM %s has no such flag", p.Flag, r)
	case e.Since == "":
		p.Message = fmt.Sprintf("%s: a word that no flag takes as its value", quoted(name))
	case e.newer():
		p.Kind = NotYet
		p.Message = fmt.Sprintf("%s: Megatron-LM %s does not have it yet, it came with %s", p.Flag, r, e.Since)
	default:
		p.Kind = Gone
		p.Message = fmt.Sprintf("%s: Megatron-LM %s does not have it any more, the last release with it is %s", p.Flag, r, e.Until)
	}
	return p
}

func typeProblem(word int, flag, value, bad string) Problem {
	return Problem{Kind: BadType, Word: word, Flag: clipped(flag), Value: clipped(value),
		Message: fmt.Sprintf("%s: %s %s", clipped(flag), quoted(value), bad)}
}

func choiceProblem(word int, o *Option, flag, value string, r Release) Problem {
	known := strings.Join(o.Choices, ", ")
	if len(known) > 4*maxShownText {
		known = known[:4*maxShownText] + "..."
	}
	p := Problem{Kind: BadChoice, Word: word, Flag: clipped(flag), Value: clipped(value), Repair: nearestChoice(value, o.Choices),
		Message: fmt.Sprintf("%s: Megatron-LM %s takes %s, not %s", clipped(flag), r, known, quoted(value))}
	if since := choiceSince(o, value, r); since != "" {
		p.Message += fmt.Sprintf(" (which came with %s)", since)
	}
	return p
}

// choiceSince names the first later release in which the option takes the value; "" if none does.
func choiceSince(o *Option, value string, r Release) string {
	for i := r.order(); i < len(releases); i++ {
		later := Release{uint8(i + 1)}
		if p := optionsOf(later).bySpelling[o.Name]; later.Compare(r) > 0 && p != nil && p.Accepts(value) {
			return later.String()
		}
	}
	if p := optionsOf(Main).bySpelling[o.Name]; r != Main && p != nil && p.Accepts(value) {
		return Main.String()
	}
	return ""
}

func missingProblem(word int, o *Option, flag string, have int) Problem {
	want := "a value"
	switch {
	case o.MaxValues < 0:
		want = "at least one value"
	case o.MinValues > 1:
		want = fmt.Sprintf("%d values, not %d", o.MinValues, have)
	}
	return Problem{Kind: MissingValue, Word: word, Flag: clipped(flag),
		Message: fmt.Sprintf("%s needs %s", clipped(flag), want)}
}

func unexpectedProblem(word int, flag, value string) Problem {
	return Problem{Kind: UnexpectedValue, Word: word, Flag: clipped(flag), Value: clipped(value), Repair: clipped(flag),
		Message: fmt.Sprintf("%s is a switch and takes no value, not %s", clipped(flag), quoted(value))}
}
