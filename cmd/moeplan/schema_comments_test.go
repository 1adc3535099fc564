package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// The descriptions of the schemas are the comments of the types, so that both are one text and the program holds neither.

const modulePath = "github.com/moeplan/moeplan"

// declared are the struct types of a package by name, with their comments.
type declared map[string]struct {
	fields *ast.StructType
	doc    string
}

// commentsOf reads packages of this module, each once.
type commentsOf struct {
	t        *testing.T
	packages map[string]declared
}

func (c *commentsOf) of(path string) declared {
	if d, ok := c.packages[path]; ok {
		return d
	}
	d := declared{}
	c.packages[path] = d
	dir, ok := strings.CutPrefix(path, modulePath)
	switch {
	case path == "main":
		dir = "/cmd/moeplan"
	case !ok:
		return d
	}
	names, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*.go"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				d.add(g)
			}
		}
	}
	return d
}

func (d declared) add(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		s := spec.(*ast.TypeSpec)
		st, ok := s.Type.(*ast.StructType)
		if !ok {
			continue
		}
		e := d[s.Name.Name]
		if e.fields, e.doc = st, s.Doc.Text(); e.doc == "" {
			e.doc = g.Doc.Text()
		}
		d[s.Name.Name] = e
	}
}

// describe puts the comments of a type and its fields into its schema.
func (c *commentsOf) describe(s *jsonschema.Schema, t reflect.Type, inline ast.Expr) {
	if s == nil {
		return
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
		if star, ok := inline.(*ast.StarExpr); ok {
			inline = star.X
		}
	}
	if special()[t] != nil && s.Properties == nil {
		return
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if list, ok := inline.(*ast.ArrayType); ok {
			inline = list.Elt
		}
		c.describe(s.Items, t.Elem(), inline)
	case reflect.Map:
		if m, ok := inline.(*ast.MapType); ok {
			inline = m.Value
		}
		c.describe(s.AdditionalProperties, t.Elem(), inline)
	case reflect.Struct:
		fields, _ := inline.(*ast.StructType)
		if t.Name() != "" {
			e := c.of(t.PkgPath())[t.Name()]
			fields = e.fields
			if s.Description == "" {
				s.Description = sentence(e.doc, t.Name(), nil)
			}
		}
		if fields != nil {
			c.describeFields(s, t, fields)
		}
	}
}

func (c *commentsOf) describeFields(s *jsonschema.Schema, t reflect.Type, fields *ast.StructType) {
	keys := map[string]string{} // of fields by their Go names
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			keys[f.Name] = name
		}
	}
	shared := "" // the last comment above a field: it may be about the next ones too
	for _, field := range fields.Fields.List {
		doc := field.Doc.Text()
		if doc != "" {
			shared = doc
		}
		for _, name := range field.Names {
			f, _ := t.FieldByName(name.Name)
			key, ok := keys[name.Name]
			p := s.Properties[key]
			if !ok || p == nil {
				continue
			}
			text := strings.TrimSpace(doc + "\n" + field.Comment.Text())
			if text == "" && regexp.MustCompile(`\b`+name.Name+`\b`).MatchString(shared) {
				text = shared
			}
			if text = sentence(text, name.Name, keys); text != "" {
				p.Description = text
			}
			c.describe(p, f.Type, field.Type)
		}
		if len(field.Names) == 0 { // embedded: its keys are this object's
			for i := range t.NumField() {
				f := t.Field(i)
				if e := f.Type; f.Anonymous && embeds(field.Type, f.Name) {
					if e.Kind() == reflect.Pointer {
						e = e.Elem()
					}
					if decl := c.of(e.PkgPath())[e.Name()].fields; decl != nil {
						c.describeFields(s, e, decl)
					}
				}
			}
		}
	}
}

func embeds(expr ast.Expr, name string) bool {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return embeds(e.X, name)
	case *ast.SelectorExpr:
		return e.Sel.Name == name
	case *ast.Ident:
		return e.Name == name
	}
	return false
}

// sentence is a comment as a description: one line, keys instead of Go names, without its own name at the beginning.
func sentence(text, name string, keys map[string]string) string {
	text = strings.Join(strings.Fields(text), " ")
	if rest, ok := strings.CutPrefix(text, name+" "); ok {
		if text = keys[name] + " " + rest; keys[name] == "" {
			text = strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "$1 $2")) + " " + rest
		}
		for _, verb := range []string{"is ", "are ", "says "} {
			if short, ok := strings.CutPrefix(rest, verb); ok {
				text = short
			}
		}
	}
	for from, to := range keys {
		if from != strings.ToUpper(from) && !slices.Contains(proper, from) { // TP and DP are words
			text = regexp.MustCompile(`\b`+from+`\b`).ReplaceAllString(text, to)
		}
	}
	return regexp.MustCompile(`\bnil\b`).ReplaceAllString(text, "null")
}

// proper are names of fields that comments use as the names of things.
var proper = []string{"Bridge", "Go", "GPUs", "Megatron", "NVLink", "PyTorch"}

// TestEveryKeyIsDescribed: whoever reads a schema finds each of its keys explained.
func TestEveryKeyIsDescribed(t *testing.T) {
	var walk func(s *jsonschema.Schema, path string) int
	walk = func(s *jsonschema.Schema, path string) int {
		if s == nil {
			return 0
		}
		n := len(s.Properties)
		for name, p := range s.Properties {
			if p.Description == "" {
				t.Errorf("%s/%s has no description: its field has no comment", path, name)
			}
			n += walk(p, path+"/"+name)
		}
		n += walk(s.Items, path+"/*")
		if s.Properties == nil {
			n += walk(s.AdditionalProperties, path+"/*")
		}
		return n
	}
	for _, o := range outputs {
		text, err := os.ReadFile(filepath.Join("..", "..", "schema", o.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		if walk(&s, o.name) == 0 {
			t.Errorf("%s has no key: the walk does not find them", o.name)
		}
	}
}
