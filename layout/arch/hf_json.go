package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Bounds of a config.json. Real ones have a few kilobytes and five levels.
const (
	maxHFBytes = 1 << 20
	maxHFDepth = 32
)

// decodeHF reads one JSON object. Unlike json.Unmarshal it refuses keys that are given twice, of which one would be
// dropped, and anything after the object.
func decodeHF(r io.Reader, name string) (map[string]any, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxHFBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxHFBytes {
		return nil, &HFError{Name: name, Reason: fmt.Sprintf("more than %d bytes", maxHFBytes)}
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	dec.UseNumber()
	v, err := decodeValue(dec, "", 0)
	var bad *HFError
	switch {
	case errors.As(err, &bad):
		bad.Name = name
		return nil, bad
	case err != nil:
		return nil, &HFError{Name: name, Reason: "not JSON: " + err.Error()}
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, &HFError{Name: name, Reason: "not a JSON object"}
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, &HFError{Name: name, Reason: "there is more after the JSON object"}
	}
	return object, nil
}

func decodeValue(dec *json.Decoder, at string, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth >= maxHFDepth {
		return nil, &HFError{Reason: fmt.Sprintf("nested deeper than %d levels", maxHFDepth)}
	}
	if delim == '[' {
		list := []any{}
		for dec.More() {
			v, err := decodeValue(dec, at+"[]", depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	object := map[string]any{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, errors.New("a key is not a string")
		}
		full := key
		if at != "" {
			full = at + "." + key
		}
		if _, twice := object[key]; twice {
			return nil, &HFError{Key: shortText(full), Reason: "given twice"}
		}
		if object[key], err = decodeValue(dec, full, depth+1); err != nil {
			return nil, err
		}
	}
	_, err = dec.Token()
	return object, err
}

// shortText keeps messages to one line of sensible length.
func shortText(s string) string {
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}

// textOf writes a value as it would stand in the file, shortened.
func textOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return shortText(string(b))
}
