package megatron

import (
	"fmt"
	"strings"

	"github.com/agnivade/levenshtein"
)

const (
	maxNearestText = 96 // no flag is longer than 80 bytes
	maxShownText   = 60
)

// nearestFlag returns the spelling of a release that takes the fewest edits from name, the first of equals; "" if none is
// similar enough to be what was meant.
func nearestFlag(name string, r Release) string {
	if len(name) > maxNearestText || !strings.HasPrefix(name, "-") {
		return ""
	}
	bare := strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
	best, distance := "", max(2, len(bare)/3)+1
	for _, o := range optionsOf(r).all {
		if o.Hidden {
			continue
		}
		for _, s := range o.Spellings {
			spelling := strings.TrimLeft(s, "-")
			if d := len(spelling) - len(bare); d >= distance || -d >= distance {
				continue
			}
			if d := levenshtein.ComputeDistance(bare, spelling); d < distance {
				best, distance = s, d
			}
		}
	}
	return best
}

// nearestChoice is nearestFlag for one of a few words.
func nearestChoice(text string, choices []string) string {
	if len(text) > maxNearestText {
		return ""
	}
	best, distance := "", max(1, len(text)/2)+1
	for _, c := range choices {
		if len(c) > maxNearestText {
			continue
		}
		if d := levenshtein.ComputeDistance(text, c); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// clipped shortens text from outside before it goes into a message.
func clipped(text string) string {
	if len(text) > maxShownText {
		return strings.ToValidUTF8(text[:maxShownText], "") + "..."
	}
	return text
}

// quoted is clipped in quotes, with control characters escaped.
func quoted(text string) string { return fmt.Sprintf("%q", clipped(text)) }
