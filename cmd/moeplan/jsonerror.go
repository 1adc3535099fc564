package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// jsonProblem says what is wrong with a person's JSON in words about the file, where encoding/json tells of Go's types.
func jsonProblem(err error) error {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	if kind.Field == "" {
		return fmt.Errorf("%s where %s is wanted", kind.Value, jsonKind(kind.Type))
	}
	field := strings.ReplaceAll(kind.Field, "Echo.", "") // the name of an embedded struct is ours, and stands in no file
	return fmt.Errorf("%s: %s where %s is wanted", field, kind.Value, jsonKind(kind.Type))
}

// jsonKind is what JSON calls a type.
func jsonKind(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
