package plan

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/recipes"
)

// Twin is the published layout nearest to a plan: the same model and GPU kind, the nearest number of GPUs, then the
// nearest pair of meshes (recipes.Nearest). It shows what others run; it takes no part in the ranking.
type Twin struct {
	ID     string `json:"id"`     // of moeplan recipes
	Source string `json:"source"` // where it was published
	Layout string `json:"layout"` // in text form, as far as stated
	GPUs   int    `json:"gpus"`   // that it ran on
	// SameMesh says that it has the plan's TP, CP, PP, ETP and EP on as many GPUs.
	SameMesh  bool   `json:"same_mesh"`
	Precision string `json:"precision"` // "" where not stated
	// What was measured per GPU; null where nothing was published.
	TFLOPS    *float64 `json:"tflops_per_gpu"`
	Tokens    *float64 `json:"tokens_per_second_per_gpu"` // published
	Container string   `json:"container"`                 // of the measurement; "" where not stated

	recipe *recipes.Recipe
}

// twinOf returns the twin of a layout, or nil if the model was not published on that GPU kind.
func twinOf(model, platform string, l *layout.Layout) *Twin {
	r := recipes.Nearest(model, platform, l)
	if r == nil {
		return nil
	}
	published := func(x float64) *float64 {
		if x == 0 {
			return nil
		}
		return &x
	}
	return &Twin{ID: r.ID, Source: r.Source, Layout: r.Layout(), GPUs: r.GPUs, Precision: r.Precision,
		SameMesh: r.GPUs == l.World && r.TP == l.TP && max(1, r.CP) == l.CP && r.PP == l.PP && max(1, r.EP) == l.EP && max(1, r.ETP) == l.ETP,
		TFLOPS:   published(r.TFLOPS), Tokens: published(r.Tokens), Container: r.Container, recipe: r}
}

// Throughput is what was measured in a few words, "" if nothing was.
func (t *Twin) Throughput() string { return t.recipe.Throughput() }

// ShortSource names the source without its commit and folders.
func (t *Twin) ShortSource() string { return t.recipe.ShortSource() }

// Mesh is the twin's pair of meshes in text form, as far as stated.
func (t *Twin) Mesh() string { return t.recipe.Mesh() }

// Text names the nearest published layout and what it reached, "none" for nil. Where it differs from the plan, it says in
// what.
func (t *Twin) Text() string {
	if t == nil {
		return "none"
	}
	text := t.ShortSource()
	if reached := t.Throughput(); reached != "" {
		text += ", " + reached
	}
	if t.Precision != "" {
		text += " in " + t.Precision
	}
	if !t.SameMesh {
		text += fmt.Sprintf("; %s on %d GPUs", t.Mesh(), t.GPUs)
	}
	return text + " (" + t.ID + ")"
}
