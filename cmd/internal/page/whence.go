package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout/plan"
)

// whence says what each part of the stages' memory rests on: what moeplan mem --why prints, stages that hold the same beside
// each other.
type whence struct {
	Stages []string // heads of the columns: "pp0", "pp1–6"
	Rows   []whenceRow
	// LeftOut names the stages that have no column, "" for none.
	LeftOut string
}

type whenceRow struct {
	Part, Known string
	GiB         []string // by column
	How, Source string
}

// mostWhence bounds the columns: beyond it stages in the middle are left out.
const mostWhence = 6

// whenceOf lays the parts of all stages out as one table; nil if nobody accounted for them.
func whenceOf(stages []plan.StageAccount, worst int) *whence {
	if len(stages) == 0 {
		return nil
	}
	w := &whence{}
	shown := alike(stages)
	if len(shown) > mostWhence {
		var without []string
		shown = slices.DeleteFunc(shown, func(g [2]int) bool {
			middle := g[0] > 1 && g[1] < len(stages)-1 && !(g[0] <= worst && worst <= g[1])
			if middle {
				without = append(without, spanned(g))
			}
			return middle
		})
		w.LeftOut = strings.Join(without, ", ")
	}
	for column, g := range shown {
		w.Stages = append(w.Stages, spanned(g))
		s := &stages[g[0]]
		for _, p := range s.Parts {
			w.put(column, p.Name, gibs(p.Bytes), p.Basis, p.Formula, p.Source)
		}
		for _, o := range s.Outside {
			w.put(column, "outside: "+o.Name, gibs(o.Low)+"–"+gibs(o.High), o.Basis, "", o.Source)
		}
	}
	slices.SortStableFunc(w.Rows, func(a, b whenceRow) int { // what a later stage alone has comes before what lies outside
		outside := func(r *whenceRow) int {
			if strings.HasPrefix(r.Part, "outside") {
				return 1
			}
			return 0
		}
		return outside(&a) - outside(&b)
	})
	for i := range w.Rows {
		for len(w.Rows[i].GiB) < len(w.Stages) {
			w.Rows[i].GiB = append(w.Rows[i].GiB, "")
		}
	}
	return w
}

func spanned(stages [2]int) string {
	if stages[0] == stages[1] {
		return fmt.Sprintf("pp%d", stages[0])
	}
	return fmt.Sprintf("pp%d–%d", stages[0], stages[1])
}

// alike groups neighbouring stages whose parts are the same.
func alike(stages []plan.StageAccount) (groups [][2]int) {
	for i := range stages {
		if i > 0 && slices.Equal(stages[i].Parts, stages[i-1].Parts) && slices.Equal(stages[i].Outside, stages[i-1].Outside) {
			groups[len(groups)-1][1] = i
			continue
		}
		groups = append(groups, [2]int{i, i})
	}
	return groups
}

// put writes one part of one column.
func (w *whence) put(column int, part, size string, known plan.Basis, how, source string) {
	i := slices.IndexFunc(w.Rows, func(r whenceRow) bool { return r.Part == part })
	if i < 0 {
		i, w.Rows = len(w.Rows), append(w.Rows, whenceRow{Part: part, Known: string(known), How: how, Source: source})
	}
	r := &w.Rows[i]
	if !strings.Contains(r.Known, string(known)) { // it may rest on another ground elsewhere
		r.Known += " or " + string(known)
	}
	for len(r.GiB) < column {
		r.GiB = append(r.GiB, "")
	}
	r.GiB = append(r.GiB, size)
}
