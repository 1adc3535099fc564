package config

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Setting is one flag's value as a file gives it.
type Setting struct {
	Key, Value string
	File       string
	Line       int
}

// Where names the place.
func (s *Setting) Where() string { return fmt.Sprintf("%s:%d", s.File, s.Line) }

// ReadSettings reads a moeplan.yaml: flags without their dashes, each with a value or a list of values. keys are those that
// may be set. Every key that is none of them is an error, all of them at once.
func ReadSettings(name string, r io.Reader, keys []string) ([]Setting, error) {
	d, err := readDocument(name, "settings", r)
	if err != nil || d.root == nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, k := range keys {
		known[k] = true
	}
	var out []Setting
	var problems []error
	for _, v := range d.root.Values {
		s := Setting{Key: strings.Trim(v.Key.String(), `"'`), File: name, Line: line(v.Key)}
		if !known[s.Key] {
			problems = append(problems, fmt.Errorf("%s: unknown key %s%s", s.Where(), s.Key, suggestion(s.Key, keys)))
			continue
		}
		if s.Value, err = settingValue(v.Value); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", s.Where(), s.Key, err))
			continue
		}
		out = append(out, s)
	}
	return out, errors.Join(problems...)
}

// settingValue is what a person would have typed behind the flag.
func settingValue(n ast.Node) (string, error) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, nil
	case *ast.SequenceNode:
		var parts []string
		for _, item := range v.Values {
			part, err := settingValue(item)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		if len(parts) == 0 {
			return "", errors.New("an empty list: leave the key out instead")
		}
		return strings.Join(parts, ","), nil
	case *ast.NullNode:
		return "", errors.New("no value: leave the key out instead")
	case *ast.MappingNode, *ast.MappingValueNode:
		return "", errors.New("a group of keys where one value is wanted")
	case *ast.LiteralNode:
		return "", errors.New("a block of text where one value is wanted: write it on the line of its key")
	case *ast.TagNode:
		return "", fmt.Errorf("a tag, %s: write the value alone", v.Start.Value)
	}
	return n.GetToken().Value, nil
}
