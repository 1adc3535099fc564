package main

import (
	"encoding/json"
	"io"
	"reflect"
)

// writeJSON writes a result. A list or map that is empty is [] or {}, never null, so that a program can walk it without
// asking; where null means that something is not known, the type says so with a pointer.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if v != nil {
		v = whole(reflect.ValueOf(v)).Interface()
	}
	return e.Encode(v)
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// whole is a value with empty lists and maps for nil ones. What it changes it copies: results may be shared.
func whole(v reflect.Value) reflect.Value {
	t := v.Type()
	if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return v
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return v
		}
		if t.Kind() == reflect.Interface {
			return whole(v.Elem())
		}
		out := reflect.New(t.Elem())
		out.Elem().Set(whole(v.Elem()))
		return out
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return v
		}
		out := reflect.MakeSlice(t, v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(whole(v.Index(i)))
		}
		return out
	case reflect.Map:
		out := reflect.MakeMapWithSize(t, v.Len())
		for key, value := range v.Seq2() {
			out.SetMapIndex(key, whole(value))
		}
		return out
	case reflect.Struct:
		out := reflect.New(t).Elem()
		out.Set(v)
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				out.Field(i).Set(whole(v.Field(i)))
			}
		}
		return out
	}
	return v
}
