package topology

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Figure is one number about a platform, or the fact that nobody states it. The zero Figure is unknown.
type Figure struct {
	Value  float64 // meaningless unless Known
	Known  bool
	Source string // a key of SourceText, or plain text; inside Measured the surrounding table's source holds
	Note   string // "" or what a reader must know about this figure
}

// UnmarshalJSON accepts null, a number, or {"value", "source", "note"} with a value that may be null.
func (f *Figure) UnmarshalJSON(data []byte) error {
	*f = Figure{}
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		var v *float64
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		f.set(v)
		return nil
	}
	var object struct {
		Value  *float64 `json:"value"`
		Source *string  `json:"source"`
		Note   string   `json:"note"`
	}
	if err := strictly(data, &object); err != nil {
		return err
	}
	f.set(object.Value)
	f.Note = object.Note
	if object.Source != nil {
		f.Source = *object.Source
	}
	return nil
}

func (f *Figure) set(v *float64) {
	if v != nil {
		f.Value, f.Known = *v, true
	}
}

// MarshalJSON writes the value, null where it is unknown.
func (f Figure) MarshalJSON() ([]byte, error) {
	if !f.Known {
		return []byte("null"), nil
	}
	return json.Marshal(f.Value)
}

// String writes the value without needless digits, "unknown" where it is.
func (f Figure) String() string {
	if !f.Known {
		return "unknown"
	}
	return strconv.FormatFloat(f.Value, 'f', -1, 64)
}

// Int returns the value of a count rounded down, 0 where it is unknown.
func (f Figure) Int() int {
	if !f.Known {
		return 0
	}
	return int(f.Value)
}

// Text is a statement in words with its source; "" is unknown.
type Text struct {
	Value  string `json:"value"`  // in words; "" is unknown
	Source string `json:"source"` // a key of the catalogue's sources, or plain text; "" is unknown
}

// UnmarshalJSON accepts {"value", "source"}; either may be null.
func (t *Text) UnmarshalJSON(data []byte) error {
	var object struct {
		Value  *string `json:"value"`
		Source *string `json:"source"`
	}
	if err := strictly(data, &object); err != nil {
		return err
	}
	*t = Text{}
	if object.Value != nil {
		t.Value = *object.Value
	}
	if object.Source != nil {
		t.Source = *object.Source
	}
	return nil
}

// strictly decodes one JSON value and refuses fields that v does not have. Decoders do not pass their own
// strictness on to UnmarshalJSON methods.
func strictly(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}
