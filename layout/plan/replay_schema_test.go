package plan

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// keepsToSchema judges a whole replay by the schema of moeplan validate --ranking -o json. It is done where a replay is made
// anyway: a second one would take as long as all tests of cmd/moeplan.
func keepsToSchema(t *testing.T, r *Replayed) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "schema", "validate-ranking.json"))
	if err != nil {
		t.Fatal(err)
	}
	printed := *r
	if printed.Legality.Exceptions == nil { // the command writes [] for an empty list
		printed.Legality.Exceptions = []string{}
	}
	text, err := json.Marshal(printed)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Error(err)
	}
}
