package megatron

import "strings"

// width is the longest line that Script writes where words allow it.
const width = 100

// comment writes a text as comment lines, broken at blanks.
func comment(b *strings.Builder, text string) {
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width && line != "#" {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// command writes words on continued lines. A flag stays on the line of its values.
func command(b *strings.Builder, argv []string) {
	var units []string
	for i, word := range argv {
		q := Quote(word)
		if i > 0 && !strings.HasPrefix(word, "--") {
			units[len(units)-1] += " " + q
		} else {
			units = append(units, q)
		}
	}
	for i, unit := range units {
		switch {
		case i == 0:
			b.WriteString(unit)
			continue
		case i == 1, lineLength(b)+len(" ")+len(unit)+len(" \\") > width:
			b.WriteString(" \\\n  ")
		default:
			b.WriteByte(' ')
		}
		b.WriteString(unit)
	}
}

func lineLength(b *strings.Builder) int {
	s := b.String()
	return len(s) - 1 - strings.LastIndexByte(s, '\n')
}

// Quote writes a word so that a POSIX shell reads exactly that word: as it is if it has only characters without meaning
// to a shell, else in single quotes. A NUL cannot be an argument and is kept as it is.
func Quote(word string) string {
	if word == "" {
		return "''"
	}
	for i := range len(word) {
		if c := word[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_@%+=:,./-", c) >= 0) {
			return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return word
}
