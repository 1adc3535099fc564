package evidence

import (
	"fmt"
	"slices"
	"strings"
)

// nearestKey returns ", did you mean x?" for the nearest of the keys, or "" if none is near.
func nearestKey(text string, keys []string) string {
	best, distance := "", 1<<30
	if len(text) > 100 {
		return ""
	}
	for _, k := range keys {
		if d := edits(text, k); d < distance {
			best, distance = k, d
		}
	}
	word := text[strings.LastIndexByte(text, '.')+1:]
	if i := slices.IndexFunc(keys, func(k string) bool { return len(word) > 3 && strings.Contains(k, word) }); distance > 2 && i >= 0 {
		best = keys[i] // a part of the name
	} else if best == "" || distance > max(2, len(best)/2) {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", best)
}

// edits is the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
