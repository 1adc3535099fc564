package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// document is a YAML file of one mapping, with what errors about it need.
type document struct {
	name string
	data []byte
	root *ast.MappingNode // nil for an empty file
}

// readDocument reads a file and refuses what none of ours contains: several documents, aliases, anything but a mapping.
func readDocument(name, what string, r io.Reader) (*document, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: a %s file is at most %d bytes", name, what, maxFile)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // as some editors of Windows begin a file
	if tooDeep(data) {
		return nil, fmt.Errorf("%s: brackets nested more than %d deep", name, mostNested)
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	d := &document{name: name, data: data}
	bodies := 0
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		bodies++
		switch body := doc.Body.(type) {
		case *ast.MappingNode:
			d.root = body
		case *ast.MappingValueNode:
			d.root = &ast.MappingNode{Values: []*ast.MappingValueNode{body}}
		case *ast.CommentGroupNode, *ast.NullNode:
			bodies--
		default:
			return nil, fmt.Errorf("%s:%d: a %s file is a list of keys with their values, not a %s", name, line(doc.Body), what, doc.Body.Type())
		}
	}
	if bodies > 1 {
		return nil, fmt.Errorf("%s: %d documents in one file: keep the first", name, bodies)
	}
	if alias := firstAlias(file); alias != nil {
		return nil, fmt.Errorf("%s:%d: anchors and aliases are not read: write the value out", name, line(alias))
	}
	return d, nil
}

// mostNested bounds brackets within brackets, those in texts counted too; files of ours have 3.
const mostNested = 64

// tooDeep reports brackets that the parser would take minutes over.
func tooDeep(data []byte) bool {
	depth := 0
	for _, b := range data {
		switch b {
		case '[', '{':
			if depth++; depth > mostNested {
				return true
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return false
}

type aliasFinder struct{ found ast.Node }

func (f *aliasFinder) Visit(n ast.Node) ast.Visitor {
	switch n.(type) {
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode:
		if f.found == nil {
			f.found = n
		}
	}
	return f
}

func firstAlias(file *ast.File) ast.Node {
	f := &aliasFinder{}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			ast.Walk(f, doc.Body)
		}
	}
	return f.found
}

func line(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

// at is an error about the value at a path such as moe.topk, with an excerpt of the file.
func (d *document) at(key, format string, args ...any) error {
	where := d.name
	excerpt := ""
	if path, err := yaml.PathString("$." + key); err == nil {
		if file, err := parser.ParseBytes(d.data, 0); err == nil {
			if node, err := path.FilterFile(file); err == nil && line(node) > 0 {
				where = fmt.Sprintf("%s:%d", d.name, line(node))
			}
		}
		if text, err := path.AnnotateSource(d.data, false); err == nil {
			excerpt = "\n" + strings.TrimRight(string(text), "\n")
		}
	}
	return fmt.Errorf("%s: %s: %s%s", where, key, fmt.Sprintf(format, args...), excerpt)
}

// decode fills a struct by its JSON keys. Every key that it does not have is an error, all of them at once.
func (d *document) decode(into any) error {
	if d.root == nil {
		return nil
	}
	var problems []error
	d.unknown(d.root, reflect.TypeOf(into).Elem(), "", &problems)
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	text, err := yaml.YAMLToJSON(d.data)
	if err != nil {
		return fmt.Errorf("%s: %s", d.name, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	err = json.Unmarshal(text, into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return d.at(wrong.Field, "%s where a %s is wanted", wrong.Value, wanted(wrong.Type))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return nil
}

// decodeYAML fills a struct by its YAML keys, as decode does by JSON's. The decoder's own strictness names one unknown key, any.
func (d *document) decodeYAML(into any) error {
	if d.root == nil {
		return nil
	}
	var problems []error
	d.unknown(d.root, reflect.TypeOf(into).Elem(), "", &problems)
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	if err := yaml.NewDecoder(bytes.NewReader(d.data), yaml.Strict()).Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %s", d.name, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	return nil
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "list"
	case reflect.String:
		return "text"
	}
	return "group of keys"
}

// mostProblems bounds the unknown keys that are named.
const mostProblems = 20

// unknown collects the keys that a type does not have. Those written twice the parser refuses.
func (d *document) unknown(m *ast.MappingNode, t reflect.Type, prefix string, problems *[]error) {
	fields := keysOf(t)
	for _, v := range m.Values {
		key := strings.Trim(v.Key.String(), `"'`)
		at := line(v.Key)
		field, ok := fields[key]
		if !ok {
			names := make([]string, 0, len(fields))
			for name := range fields {
				names = append(names, name)
			}
			if len(*problems) == mostProblems {
				*problems = append(*problems, fmt.Errorf("%s: there are more", d.name))
			}
			if len(*problems) > mostProblems {
				return
			}
			*problems = append(*problems, fmt.Errorf("%s:%d: unknown key %s%s", d.name, at, prefix+key, suggestion(key, names)))
			continue
		}
		for field.Kind() == reflect.Pointer {
			field = field.Elem()
		}
		if field.Kind() != reflect.Struct {
			continue
		}
		switch inner := v.Value.(type) {
		case *ast.MappingNode:
			d.unknown(inner, field, prefix+key+".", problems)
		case *ast.MappingValueNode:
			d.unknown(&ast.MappingNode{Values: []*ast.MappingValueNode{inner}}, field, prefix+key+".", problems)
		}
	}
}

// keysOf lists a struct's fields by their JSON keys, or where they have none by their YAML keys.
func keysOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(cmp.Or(f.Tag.Get("json"), f.Tag.Get("yaml")), ","); name != "" && name != "-" {
			out[name] = f.Type
		}
	}
	return out
}

// suggestion names the nearest of the keys, if one is near.
func suggestion(key string, names []string) string {
	best, distance := "", 1<<30
	for _, n := range names {
		d := levenshtein.ComputeDistance(key, n)
		if d < distance || d == distance && n < best {
			best, distance = n, d
		}
	}
	if best == "" || len(key) > 64 || distance > max(2, len(best)/2) {
		return ""
	}
	return fmt.Sprintf(": did you mean %s?", best)
}
