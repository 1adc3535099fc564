package layout

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// didYouMean returns ", did you mean x?" for the nearest of the names, or "" if none is near.
func didYouMean(text string, names []string) string {
	best, distance := "", 1<<30
	if len(text) > 64 {
		return ""
	}
	for _, n := range names {
		d := 2 * levenshtein.ComputeDistance(text, n)
		if text != "" && n[0] != text[0] {
			d++ // of equals, the one that starts alike
		}
		if d < distance {
			best, distance = n, d
		}
	}
	if best == "" || distance/2 > max(2, len(best)/2) {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", best)
}

// clip shortens text from outside before it goes into a message.
func clip(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// plain is clip for text that stands in a message without quotes: what a terminal would obey is written out.
func plain(text string) string {
	quoted := strconv.Quote(clip(text))
	return quoted[1 : len(quoted)-1]
}
