package arch

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
)

// catalogueJSON is the built-in catalogue. Its header says where it comes from.
//
//go:embed catalogue.json
var catalogueJSON []byte

// All returns the catalogue in its stable order: families in the order of the source file, MoE first,
// dense last. The slice is the caller's; the models are shared and read-only.
func All() []*Model { return slices.Clone(catalogue()) }

var catalogue = sync.OnceValue(func() []*Model {
	models, err := decodeCatalogue(bytes.NewReader(catalogueJSON))
	if err != nil {
		panic("bug: embedded catalogue: " + err.Error())
	}
	return models
})

// catalogueFile is the form of catalogue.json. Fields that a model leaves out are zero, false or none.
type catalogueFile struct {
	Header map[string]string `json:"header"`
	Models []*Model          `json:"models"`
}

// decodeCatalogue reads a catalogue. A field that Model does not know is an error, so that a misspelt one
// cannot become a silent zero.
func decodeCatalogue(r io.Reader) ([]*Model, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var file catalogueFile
	if err := dec.Decode(&file); err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(file.Models))
	for _, m := range file.Models {
		if err := m.Validate(); err != nil {
			return nil, err
		}
		if seen[m.ID] {
			return nil, fmt.Errorf("model %q: listed twice", m.ID)
		}
		seen[m.ID] = true
	}
	return file.Models, nil
}
