package main

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/moeplan/moeplan/layout/evidence"
)

// contractSchema is that of a contract, which writes itself under the keys of its YAML form: what is unknown is null. The
// comments of its type describe them.
func contractSchema() *jsonschema.Schema {
	none := &jsonschema.Schema{Not: &jsonschema.Schema{}}
	s := &jsonschema.Schema{Type: "object", Required: []string{"variable", "base", "candidate", "reasons"}, AdditionalProperties: none,
		Properties: map[string]*jsonschema.Schema{
			"variable":  {Types: []string{"null", "string"}},
			"base":      {Types: []string{"null", "string"}},
			"candidate": {Type: "string", Enum: []any{string(evidence.TrainingEquivalent), string(evidence.BenchmarkOnly)}},
			"reasons":   {Type: "array", Items: &jsonschema.Schema{Type: "string"}},
		}}
	for _, f := range evidence.ContractFields() {
		section := s.Properties[f.Section]
		if section == nil {
			section = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: none}
			s.Properties[f.Section], s.Required = section, append(s.Required, f.Section)
		}
		field := &jsonschema.Schema{Types: []string{"null", f.Type}}
		switch f.Type {
		case "boolean", "number":
			field.Type, field.Types = f.Type, nil
		case "array":
			field.Type, field.Types, field.Items = f.Type, nil, &jsonschema.Schema{Type: "string"}
		}
		section.Properties[f.Key], section.Required = field, append(section.Required, f.Key)
	}
	return s
}
