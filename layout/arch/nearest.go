package arch

import (
	"slices"

	"github.com/agnivade/levenshtein"
)

// maxNearest is how many names an UnknownModelError offers.
const maxNearest = 3

// shortest is how many characters a query has at the least for which beginnings of names count.
const shortest = 4

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
			full := fold(n)
			// A short form is the beginning of a name; of equals the whole name wins.
			d := 2 * levenshtein.ComputeDistance(query, full)
			if len(query) > shortest && len(query) < len(full) {
				d = min(d, 2*levenshtein.ComputeDistance(query, full[:len(query)])+1)
			}
			if best < 0 || d < best {
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
