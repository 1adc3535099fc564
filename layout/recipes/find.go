package recipes

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout"
)

// Query selects records; its zero fields select all.
type Query struct {
	About string // a model of our catalogue
	GPU   string
	GPUs  int
	Text  string // words that all occur in the record, case aside
}

// Find returns the records that a query selects, in the order of All.
func Find(q Query) []*Recipe {
	words := strings.Fields(strings.ToLower(q.Text))
	var found []*Recipe
	for _, r := range catalogue() {
		if q.About != "" && r.About != q.About || q.GPU != "" && r.GPU != strings.ToLower(q.GPU) || q.GPUs > 0 && r.GPUs != q.GPUs {
			continue
		}
		if text := r.text(); !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			found = append(found, r)
		}
	}
	return found
}

// text is what a query's words are looked for in, lower case.
func (r *Recipe) text() string {
	return strings.ToLower(strings.Join([]string{r.ID, string(r.Kind), r.Task, r.Model, r.About, r.GPU, r.Precision, r.Layout(),
		r.Graphs, r.Offload, r.Optimizer, r.Container, r.Recipe, r.Variant, r.Method, r.Note, r.Source}, " "))
}

// Lookup returns the record with an ID, or nil.
func Lookup(id string) *Recipe {
	for _, r := range catalogue() {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// Nearest returns the record closest to a layout of a model on a GPU kind (both by our catalogues' IDs), or nil if none
// was published: the nearest number of GPUs first, then the nearest pair of meshes, both by factors of two; of equals
// a measured record, then the same precision, sequence length and micro-batch (and no vision tower), then the newest
// container. Records that cannot run and fine-tuning are left out.
func Nearest(model, platform string, l *layout.Layout) *Recipe {
	var best *Recipe
	var least distance
	for _, r := range catalogue() {
		if r.About != model || r.Platform() != platform || r.Inconsistent || !r.Pretraining() || r.GPUs == 0 || r.PP == 0 || r.TP == 0 {
			continue
		}
		if d := r.distance(l); best == nil || d.compare(&least) < 0 {
			best, least = r, d
		}
	}
	return best
}

// distance is how far a record is from a layout, in the order in which it counts.
type distance struct {
	gpus, mesh float64 // factors of two
	unmeasured int
	rest       int // precision, sequence, micro-batch that differ; a vision tower
	container  string
}

func (d *distance) compare(e *distance) int {
	return cmp.Or(cmp.Compare(d.gpus, e.gpus), cmp.Compare(d.mesh, e.mesh), cmp.Compare(d.unmeasured, e.unmeasured),
		cmp.Compare(d.rest, e.rest), -cmp.Compare(d.container, e.container))
}

func (r *Recipe) distance(l *layout.Layout) distance {
	apart := func(a, b int) float64 { return math.Abs(math.Log2(float64(max(a, 1)) / float64(max(b, 1)))) }
	d := distance{
		gpus: apart(r.GPUs, l.World),
		mesh: apart(r.TP, l.TP) + apart(r.CP, l.CP) + apart(r.PP, l.PP) + apart(r.EP, l.EP) + apart(r.ETP, l.ETP),
	}
	for _, differs := range []bool{r.Precision != l.Precision.String(), r.Sequence != l.SeqLength, r.MicroBatch != l.MicroBatchSize,
		strings.Contains(strings.ToLower(r.Model), "vl")} {
		if differs {
			d.rest++
		}
	}
	if r.Throughput() == "" {
		d.unmeasured = 1
	}
	_, d.container, _ = strings.Cut(r.Container, ":")
	return d
}
