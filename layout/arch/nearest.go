package arch

import "slices"

// maxNearest is how many names an UnknownModelError offers.
const maxNearest = 3

// nearest returns the IDs of the models whose names are the fewest edits away from the folded query,
// nearest first, equals in catalogue order.
func nearest(query string) []string {
	if len(query) > 64 {
		query = query[:64] // no name is longer; bounds the work
	}
	type candidate struct {
		id    string
		edits int
	}
	var all []candidate
	for _, m := range catalogue() {
		best := -1
		for _, n := range names(m) {
			if d := editDistance(query, fold(n)); best < 0 || d < best {
				best = d
			}
		}
		all = append(all, candidate{m.ID, best})
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.edits - b.edits })
	list := make([]string, 0, maxNearest)
	for _, c := range all[:min(maxNearest, len(all))] {
		list = append(list, c.id)
	}
	return list
}

// editDistance counts the insertions, deletions and substitutions of single bytes that turn a into b
// (Levenshtein 1966), with one row of memory.
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
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
