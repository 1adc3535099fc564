package layout

import "fmt"

// didYouMean returns ", did you mean x?" for the nearest of the names, or "" if none is near.
func didYouMean(text string, names []string) string {
	best, distance := "", 1<<30
	if len(text) > 64 {
		return ""
	}
	for _, n := range names {
		d := 2 * editDistance(text, n)
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

// editDistance is the Levenshtein distance in bytes.
func editDistance(a, b string) int {
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

// clip shortens text from outside before it goes into a message.
func clip(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}
