package script

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

var (
	wideFormat = lazily(`%[-+ #0]*(\*|[0-9]{4,}|[0-9]*\.(\*|[0-9]{4,}))`)
	formatVerb = lazily(`%(%|[-+ #0]*[0-9]*(?:\.[0-9]*)?[a-zA-Z])`)
)

// printFormat gives the interpreter's printf what it lacks: %q, -v and --. Widths of four digits and more, which could
// make any amount of output, are refused.
func printFormat(rest []string) []string {
	name := ""
	if len(rest) > 1 && rest[0] == "-v" {
		name, rest = rest[1], rest[2:]
	}
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	if len(rest) == 0 || wideFormat().MatchString(rest[0]) {
		return nothing
	}
	format, args := rest[0], quoteArguments(rest[0], rest[1:])
	format = formatVerb().ReplaceAllStringFunc(format, func(v string) string {
		if strings.HasSuffix(v, "q") {
			return v[:len(v)-1] + "s"
		}
		return v
	})
	if name == "" {
		return append([]string{"printf", format}, args...)
	}
	var b strings.Builder
	for {
		text, used, err := expand.Format(nil, format, args)
		if err != nil || b.Len() > maxVariableBytes {
			return []string{"false"}
		}
		b.WriteString(text)
		if args = args[used:]; used == 0 || len(args) == 0 {
			break
		}
	}
	value, err := syntax.Quote(b.String(), syntax.LangBash)
	if err != nil || !syntax.ValidName(name) {
		return []string{"false"}
	}
	return []string{"eval", name + "=" + value}
}

// quoteArguments quotes the arguments that %q stands for; a format is used again until its arguments are used up.
func quoteArguments(format string, args []string) []string {
	var verbs []string
	for _, v := range formatVerb().FindAllString(format, -1) {
		if v != "%%" {
			verbs = append(verbs, v)
		}
	}
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if len(verbs) > 0 && strings.HasSuffix(verbs[i%len(verbs)], "q") {
			if q, err := syntax.Quote(a, syntax.LangBash); err == nil {
				out[i] = q
			}
		}
	}
	return out
}
