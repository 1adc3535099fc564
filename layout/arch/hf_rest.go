package arch

import (
	"encoding/json"
	"slices"
)

// refuse rejects keys whose value would need what Model or Megatron-LM does not have. Null, false, 0 and empty values
// say that the thing is not there.
func (c *hfConfig) refuse(reason string, keys ...string) {
	for _, key := range keys {
		if v, full, ok := c.get(key); ok {
			if !absent(v) {
				c.fail(full, "%s: %s", textOf(v), reason)
				return
			}
			c.ignore(full, v, "not used by the model")
		}
	}
}

func absent(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	case json.Number:
		f, err := v.Float64()
		return err == nil && f == 0
	}
	return false
}

// skip lists keys as ignored.
func (c *hfConfig) skip(reason string, keys ...string) {
	for _, key := range keys {
		if v, full, ok := c.get(key); ok {
			c.ignore(full, v, reason)
		}
	}
}

// rest goes through the keys that nobody asked for.
func (c *hfConfig) rest() {
	c.restOf(c.top, "")
	if c.group != "" {
		c.restOf(c.language, c.group+".")
	}
}

func (c *hfConfig) restOf(group map[string]any, prefix string) {
	for _, key := range sortedNames(group) {
		full := prefix + key
		if c.used[full] {
			continue
		}
		v := group[key]
		switch reason := inert(key); {
		case slices.Contains(textGroups, key) && absent(v):
		case reason != "":
			c.ignore(full, v, reason)
		case absent(v):
			c.ignore(full, v, "not given")
		case prefix == "" && c.group != "" && c.language[key] != nil:
			c.ignore(full, v, c.group+" holds the language model's own")
		case structural(key):
			c.fail(full, "%s: this key looks as if it changed the model's shape, and it is not known for %s", textOf(v), c.imported.Architecture)
			return
		default:
			c.ignore(full, v, "not known; by its name no part of the shape")
		}
	}
}

func sortedNames(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}
