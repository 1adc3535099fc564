package arch

import (
	"encoding/json"
	"fmt"
	"math"
)

// hfConfig answers questions about a configuration and keeps account of which keys were asked for. The first error
// stays; after it every answer is a zero.
type hfConfig struct {
	name          string
	top, language map[string]any // language is the language model's group, or top itself
	group         string         // name of that group: "text_config"
	used          map[string]bool
	imported      *Import
	err           error

	rope hfRope
	more []string // flags that no field of Model holds
	eps  string
}

// textGroups are where wrappers keep the language model.
var textGroups = []string{"text_config", "llm_config", "language_config"}

func (c *hfConfig) descend() {
	for _, g := range textGroups {
		if text, ok := c.top[g].(map[string]any); ok && len(text) > 0 {
			c.language, c.group = text, g
			c.used[g] = true
			return
		}
	}
}

func (c *hfConfig) fail(key, format string, args ...any) {
	if c.err == nil {
		c.err = &HFError{Name: c.name, Key: shortText(key), Reason: fmt.Sprintf(format, args...)}
	}
}

func (c *hfConfig) assume(field string, value any, reason string) {
	c.imported.Assumed = append(c.imported.Assumed, HFNote{field, fmt.Sprint(value), reason})
}

func (c *hfConfig) ignore(key string, value any, reason string) {
	c.imported.Ignored = append(c.imported.Ignored, HFNote{key, textOf(value), reason})
}

// get finds a key that is not null, in the language model's group first. null means "not given", as in Python's None.
func (c *hfConfig) get(key string) (value any, full string, ok bool) {
	if v, ok := c.language[key]; ok {
		full = key
		if c.group != "" {
			full = c.group + "." + key
		}
		c.used[full] = true
		if v != nil {
			return v, full, true
		}
	}
	if c.group == "" {
		return nil, key, false
	}
	if v, ok := c.top[key]; ok {
		c.used[key] = true
		if v != nil {
			return v, key, true
		}
	}
	return nil, key, false
}

// first finds the first of several spellings of one thing, and refuses two that contradict each other.
func (c *hfConfig) first(keys ...string) (value any, full string, ok bool) {
	for _, key := range keys {
		v, at, found := c.get(key)
		switch {
		case !found:
		case !ok:
			value, full, ok = v, at, true
		case textOf(v) != textOf(value):
			c.fail(at, "%s contradicts %s, which is %s", textOf(v), full, textOf(value))
		}
	}
	if !ok && len(keys) > 0 {
		full = keys[0]
	}
	return value, full, ok
}

func (c *hfConfig) note(full string, value any, field string) {
	c.imported.Read = append(c.imported.Read, HFNote{full, textOf(value), field})
}

// integer reads a whole number; false where no key gives one.
func (c *hfConfig) integer(field string, keys ...string) (int, bool) {
	v, full, ok := c.first(keys...)
	if !ok || c.err != nil {
		return 0, false
	}
	n, fits := whole(v)
	if !fits {
		if _, list := v.([]any); list {
			c.fail(full, "a list, one value a layer, cannot be represented: every layer has the same %s here", field)
		} else {
			c.fail(full, "%s is not a whole number up to %d", textOf(v), maxTable)
		}
		return 0, false
	}
	c.note(full, v, field)
	return n, true
}

// whole is an integer between 0 and maxTable, also when written as 4096.0.
func whole(v any) (int, bool) {
	number, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := number.Float64()
	if err != nil || f != math.Trunc(f) || f < 0 || f > maxTable {
		return 0, false
	}
	return int(f), true
}

// must reads a number without which there is no model.
func (c *hfConfig) must(field string, keys ...string) int {
	n, ok := c.integer(field, keys...)
	if !ok && c.err == nil {
		c.fail(keys[0], "missing: the model's %s cannot be guessed", field)
	}
	return n
}

// or reads a number with a default, which is noted as assumed.
func (c *hfConfig) or(field string, value int, reason string, keys ...string) int {
	n, ok := c.integer(field, keys...)
	if !ok && c.err == nil {
		c.assume(field, value, reason)
		return value
	}
	return n
}

// optional reads a number that is 0 where it is not given, without a note.
func (c *hfConfig) optional(field string, keys ...string) int {
	n, _ := c.integer(field, keys...)
	return n
}

// boolean, text and float read a value with what holds where no key gives one, without a note of that.
func (c *hfConfig) boolean(field string, missing bool, keys ...string) bool {
	v, full, ok := c.first(keys...)
	if !ok || c.err != nil {
		return missing
	}
	b, isBool := v.(bool)
	if !isBool {
		c.fail(full, "%s is neither true nor false", textOf(v))
		return missing
	}
	c.note(full, v, field)
	return b
}

func (c *hfConfig) text(field, missing string, keys ...string) string {
	v, full, ok := c.first(keys...)
	if !ok || c.err != nil {
		return missing
	}
	s, isText := v.(string)
	if !isText {
		c.fail(full, "%s is not a text", textOf(v))
		return missing
	}
	c.note(full, v, field)
	return s
}

func (c *hfConfig) float(field string, missing float64, keys ...string) float64 {
	v, full, ok := c.first(keys...)
	if !ok || c.err != nil {
		return missing
	}
	number, isNumber := v.(json.Number)
	f, err := number.Float64()
	if !isNumber || err != nil {
		c.fail(full, "%s is not a number", textOf(v))
		return missing
	}
	c.note(full, v, field)
	return f
}

// texts reads a list of names; ok is false where it is not given or empty.
func (c *hfConfig) texts(field, key string) (list []string, ok bool) {
	v, full, given := c.get(key)
	if !given || c.err != nil {
		return nil, false
	}
	items, isList := v.([]any)
	if !isList || len(items) > MaxLayers {
		c.fail(full, "%s is not a list of up to %d names", textOf(v), MaxLayers)
		return nil, false
	}
	for _, item := range items {
		s, isText := item.(string)
		if !isText {
			c.fail(full, "%s in it is not a name", textOf(item))
			return nil, false
		}
		list = append(list, s)
	}
	c.note(full, v, field)
	return list, len(list) > 0
}

// layers reads a list of layer numbers, from 0.
func (c *hfConfig) layers(field, key string, numLayers int) map[int]bool {
	v, full, given := c.get(key)
	if !given || c.err != nil {
		return nil
	}
	items, isList := v.([]any)
	if !isList || len(items) > MaxLayers {
		c.fail(full, "%s is not a list of up to %d layer numbers", textOf(v), MaxLayers)
		return nil
	}
	set := map[int]bool{}
	for _, item := range items {
		n, ok := whole(item)
		if !ok || n >= numLayers {
			c.fail(full, "%s is not one of the layers 0 to %d", textOf(item), numLayers-1)
			return nil
		}
		set[n] = true
	}
	c.note(full, v, field)
	return set
}
