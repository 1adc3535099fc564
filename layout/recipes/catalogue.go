package recipes

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/moeplan/moeplan/layout"
)

// recipesJSON is the built-in collection. Its header says where it comes from.
//
//go:embed recipes.json
var recipesJSON []byte

// All returns every record in its stable order. The slice is the caller's; the records are shared and read-only.
func All() []*Recipe { return slices.Clone(catalogue()) }

var catalogue = sync.OnceValue(func() []*Recipe {
	all, err := decode(bytes.NewReader(recipesJSON))
	if err != nil {
		panic("bug: embedded recipes: " + err.Error())
	}
	return all
})

// decode reads a collection. A field, kind, precision or dispatcher that is not known is an error, and so is a record
// without an ID or a source, or with an ID twice.
func decode(r io.Reader) ([]*Recipe, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var file struct {
		Header  map[string]string `json:"header"`
		Records []*Recipe         `json:"records"`
	}
	if err := dec.Decode(&file); err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(file.Records))
	for _, r := range file.Records {
		if seen[r.ID] {
			return nil, fmt.Errorf("record %q: listed twice", r.ID)
		}
		seen[r.ID] = true
		if err := r.validate(); err != nil {
			return nil, fmt.Errorf("record %q: %w", r.ID, err)
		}
	}
	return file.Records, nil
}

var (
	dispatchers = []string{"", "alltoall", "deepep", "hybridep", "flex"}
	graphScopes = []string{"", "eager", "router", "attn", "full-iteration", "other"}
	widths      = []string{"", "fp32", "bf16"}
)

func (r *Recipe) validate() error {
	oneOf := func(what, value string, of []string) error {
		if !slices.Contains(of, value) {
			return fmt.Errorf("%s %q: want one of %s", what, value, strings.TrimSpace(strings.Join(of, " ")))
		}
		return nil
	}
	var errs []error
	if r.ID == "" || r.Source == "" || r.Model == "" || r.GPU == "" || r.Task == "" {
		errs = append(errs, errors.New("ID, model, GPU, task and source are required"))
	}
	if !slices.Contains(kinds, r.Kind) {
		errs = append(errs, fmt.Errorf("unknown kind %q", r.Kind))
	}
	if r.Precision != "" {
		_, err := layout.ParsePrecision(r.Precision)
		errs = append(errs, err)
	}
	for _, n := range []int{r.GPUs, r.GlobalBatch, r.MicroBatch, r.Sequence, r.TP, r.CP, r.PP, r.VPP, r.EP, r.ETP, r.First, r.Last} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("negative size %d", n))
		}
	}
	errs = append(errs, oneOf("dispatcher", r.Dispatcher, dispatchers), oneOf("graphs", r.Graphs, graphScopes),
		oneOf("main grads", r.MainGrads, widths), oneOf("moments", r.Moments, widths), oneOf("cross entropy", r.CrossEntropy, []string{"", "te", "native"}))
	return errors.Join(errs...)
}
