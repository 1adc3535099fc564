package evidence

import (
	"bytes"
	"encoding/json"
)

// MarshalJSON writes a contract under the keys of its YAML form, in the same order; what is unknown is null.
func (c *Contract) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	add := func(key string, value any) error {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if last := b.Bytes()[b.Len()-1]; last != '{' {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		b.WriteString(key)
		b.WriteString(`":`)
		b.Write(text)
		return nil
	}
	b.WriteByte('{')
	for _, p := range []struct {
		key   string
		value any
	}{{"variable", unknownText(c.Variable)}, {"base", unknownText(c.Base)}, {"candidate", c.Candidate}, {"reasons", append([]string{}, c.Reasons...)}} {
		if err := add(p.key, p.value); err != nil {
			return nil, err
		}
	}
	section := ""
	for i := range contractFields {
		e := &contractFields[i]
		if e.section != section {
			if section != "" {
				b.WriteByte('}')
			}
			section = e.section
			b.WriteString(`,"` + section + `":{`)
		}
		var value any
		switch v := e.into(c).(type) {
		case *string:
			value = unknownText(*v)
		case *int:
			if *v != 0 {
				value = *v
			}
		case *[]string:
			value = append([]string{}, *v...)
		default:
			value = v
		}
		if err := add(e.key, value); err != nil {
			return nil, err
		}
	}
	b.WriteString("}}")
	return b.Bytes(), nil
}

func unknownText(s string) any {
	if s == "" {
		return nil
	}
	return s
}
