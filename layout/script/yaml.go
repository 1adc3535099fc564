package script

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Bounds of a YAML file, beside Options.MaxBytes.
const (
	maxYAMLDepth = 32
	maxYAMLKeys  = 5000
)

// ReadYAML reads a YAML file of Megatron-LM arguments: with MODEL_ARGS (flags as keys, as Megatron-MoE-ModelZoo and
// Megatron-LM's functional tests have them) and ENV_VARS beside it, or flat, with the arguments' names as keys. true is
// a flag that is given, false one that is not, a list several words. Anchors, aliases and tags are refused, and so is a
// key that is given twice. ${NAME} and {NAME} that opts.Set answers are replaced.
//
// Errors: *SyntaxError, *LimitError, *UnsupportedError for YAML of another kind; what src returns.
func ReadYAML(name string, src io.Reader, opts Options) (*Script, error) {
	opts = opts.withDefaults()
	text, err := readAll(name, src, opts.MaxBytes)
	if err != nil {
		return nil, err
	}
	dialect, why := detectYAML(text)
	if dialect != ArgsYAML && dialect != FlatYAML {
		return nil, &UnsupportedError{name, dialect, why}
	}
	top, err := parseYAML(name, text)
	if err != nil {
		return nil, err
	}
	y := &yamlReader{name: name, set: opts.Set}
	s := &Script{Name: name, Dialect: dialect, Why: why, Complete: true}
	c := Command{Dialect: Megatron, Env: map[string]string{}}
	pairs, err := y.pairs(top)
	if err != nil {
		return nil, err
	}
	if dialect == FlatYAML {
		err = y.flat(&c, pairs)
	} else {
		err = y.sections(&c, pairs)
	}
	if err != nil {
		return nil, err
	}
	c.Args = c.Megatron
	c.World = Count{0, "a YAML file of arguments does not say how many processes there are"}
	s.Commands, s.Warnings = []Command{c}, y.warnings
	return s, nil
}

// parseYAML returns the one document of a file.
func parseYAML(name, text string) (top ast.Node, err error) {
	if nesting(text) > maxYAMLDepth || indents(text) > 2*maxYAMLDepth {
		return nil, &LimitError{name, "nested too deeply"}
	}
	defer func() {
		if r := recover(); r != nil { // a fault of the parser must not become the caller's
			top, err = nil, &SyntaxError{Name: name, Message: fmt.Sprint("cannot be parsed: ", r)}
		}
	}()
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		line, col, message := yamlPosition(err)
		return nil, &SyntaxError{name, line, col, message}
	}
	var docs []*ast.DocumentNode
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType && d.Body.Type() != ast.NullType {
			docs = append(docs, d)
		}
	}
	if len(docs) != 1 {
		return nil, &SyntaxError{Name: name, Message: fmt.Sprintf("%d documents, want one", len(docs))}
	}
	return docs[0].Body, nil
}

// indents bounds the nesting of block collections: each level opens with a blank, a dash or a question mark.
func indents(text string) int {
	deepest := 0
	for line := range strings.Lines(text) {
		n := 0
		for n < len(line) && strings.IndexByte(" \t-?:&!*", line[n]) >= 0 {
			n++
		}
		if n < len(line) && line[n] != '\n' && line[n] != '#' {
			deepest = max(deepest, n)
		}
	}
	return deepest
}

// yamlPosition takes apart "[line:col] message" followed by an excerpt.
func yamlPosition(err error) (line, col int, message string) {
	message, _, _ = strings.Cut(err.Error(), "\n")
	if at, rest, ok := strings.Cut(message, "] "); ok && strings.HasPrefix(at, "[") {
		if _, e := fmt.Sscanf(at, "[%d:%d", &line, &col); e == nil {
			return line, col, rest
		}
	}
	return 0, 0, message
}

type yamlReader struct {
	name     string
	set      map[string]string
	keys     int
	warnings []Warning
}

type yamlPair struct {
	key       string
	value     ast.Node
	line, col int
}

func (y *yamlReader) fail(n ast.Node, format string, args ...any) error {
	e := &SyntaxError{Name: y.name, Message: fmt.Sprintf(format, args...)}
	if t := n.GetToken(); t != nil && t.Position != nil {
		e.Line, e.Col = t.Position.Line, t.Position.Column
	}
	return e
}

// pairs returns a mapping's entries and refuses duplicates.
func (y *yamlReader) pairs(n ast.Node) ([]yamlPair, error) {
	m, ok := n.(ast.MapNode)
	if !ok {
		return nil, y.fail(n, "a mapping is expected here, not %s", kindName(n))
	}
	var list []yamlPair
	seen := map[string]bool{}
	for it := m.MapRange(); it.Next(); {
		if y.keys++; y.keys > maxYAMLKeys {
			return nil, &LimitError{y.name, fmt.Sprintf("more than %d keys", maxYAMLKeys)}
		}
		key, ok := it.Key().(ast.ScalarNode)
		if !ok {
			return nil, y.fail(n, "a key must be plain text")
		}
		k := fmt.Sprint(key.GetValue())
		if s, ok := it.Key().(*ast.StringNode); ok {
			k = s.Value
		}
		if seen[k] {
			return nil, y.fail(it.Key(), "%s is given twice", k)
		}
		seen[k] = true
		p := yamlPair{key: k, value: it.Value()}
		if t := it.Key().GetToken(); t != nil && t.Position != nil {
			p.line, p.col = t.Position.Line, t.Position.Column
		}
		list = append(list, p)
	}
	return list, nil
}

// sections reads MODEL_ARGS, ENV_VARS and names what else there is.
func (y *yamlReader) sections(c *Command, pairs []yamlPair) error {
	for _, p := range pairs {
		switch p.key {
		case "MODEL_ARGS":
			if p.value == nil || p.value.Type() == ast.NullType {
				continue
			}
			args, err := y.pairs(p.value)
			if err != nil {
				return err
			}
			for _, a := range args {
				if err := y.argument(c, a); err != nil {
					return err
				}
			}
		case "ENV_VARS":
			if p.value == nil || p.value.Type() == ast.NullType {
				continue
			}
			vars, err := y.pairs(p.value)
			if err != nil {
				return err
			}
			for _, v := range vars {
				words, _, err := y.words(v)
				if err != nil {
					return err
				}
				c.Env[v.key] = strings.Join(words, " ")
			}
		default:
			c.Unmapped = append(c.Unmapped, Unmapped{p.key, "", "not arguments of Megatron-LM"})
		}
	}
	return nil
}

// argument writes one entry of MODEL_ARGS, whose keys are flags.
func (y *yamlReader) argument(c *Command, p yamlPair) error {
	words, b, err := y.words(p)
	if err != nil {
		return err
	}
	flag := p.key
	if !strings.HasPrefix(flag, "-") {
		flag = "--" + strings.ReplaceAll(flag, "_", "-")
	}
	switch {
	case b == nil:
		c.Megatron = append(append(c.Megatron, flag), words...)
	case *b:
		c.Megatron = append(c.Megatron, flag)
	}
	return nil
}

// flat reads a mapping whose keys are the names of arguments, with underscores or dashes. Fields whose flag has another
// name go through the table; the rest is spelled with dashes.
func (y *yamlReader) flat(c *Command, pairs []yamlPair) error {
	for _, p := range pairs {
		field := strings.ReplaceAll(strings.TrimLeft(p.key, "-"), "-", "_")
		s, ok := fields[field]
		if !ok || s.kind == takesValue && field != "num_query_groups" {
			if p.value != nil && p.value.Type() == ast.MappingType {
				c.Unmapped = append(c.Unmapped, Unmapped{p.key, "", "a group of settings, not an argument"})
				continue
			}
			if ok {
				p.key = s.flag
			}
			if err := y.argument(c, p); err != nil {
				return err
			}
			continue
		}
		words, b, err := y.words(p)
		if err != nil {
			return err
		}
		value := strings.Join(words, ",")
		if b != nil {
			value = strconv.FormatBool(*b)
		}
		c.put(field, p.key, value, "the value does not fit the argument")
	}
	return nil
}
