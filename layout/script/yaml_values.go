package script

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// words are the command-line words of a value; b is set for a boolean.
func (y *yamlReader) words(p yamlPair) (words []string, b *bool, err error) {
	switch v := p.value.(type) {
	case nil, *ast.NullNode:
		return nil, new(bool), nil // an argument without a value is not given
	case *ast.BoolNode:
		return nil, &v.Value, nil
	case *ast.SequenceNode:
		for _, item := range v.Values {
			if _, list := item.(*ast.SequenceNode); list {
				return nil, nil, y.fail(item, "%s: a list inside a list", p.key)
			}
			w, b, err := y.words(yamlPair{p.key, item, p.line, p.col})
			if err != nil {
				return nil, nil, err
			}
			if b != nil {
				w = []string{strconv.FormatBool(*b)}
			}
			words = append(words, w...)
		}
		return words, nil, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.StringNode, *ast.LiteralNode, *ast.InfinityNode, *ast.NanNode:
		text, err := y.scalar(p, v)
		if err != nil {
			return nil, nil, err
		}
		// A quoted "true" means the same in a file that becomes a command line.
		if text == "true" || text == "false" {
			is := text == "true"
			return nil, &is, nil
		}
		return []string{text}, nil, nil
	}
	return nil, nil, y.fail(p.value, "%s: %s is not read", p.key, kindName(p.value))
}

// scalar is a value as it is written, so that 1e-5 stays 1e-5 and 010 stays 010.
func (y *yamlReader) scalar(p yamlPair, n ast.Node) (string, error) {
	var text string
	switch v := n.(type) {
	case *ast.StringNode:
		text = v.Value
	case *ast.LiteralNode:
		text = v.Value.Value
	default:
		text = n.GetToken().Value
	}
	return y.expand(p, text)
}

// expand replaces ${NAME}, ${NAME:-default} and ${oc.env:NAME} where Set has NAME, and warns where it has not.
func (y *yamlReader) expand(p yamlPair, text string) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		b.WriteString(before)
		if !ok {
			break
		}
		inside, after, closed := strings.Cut(rest, "}")
		if !closed {
			b.WriteString("${" + rest)
			break
		}
		name, fallback, hasDefault := strings.Cut(inside, ":-")
		value, given := y.set[strings.TrimPrefix(name, "oc.env:")]
		switch {
		case given:
		case hasDefault:
			value = fallback
		default:
			value = "${" + inside + "}"
			y.warnings = append(y.warnings, Warning{
				Kind: UnsetVariable, Name: name, Line: p.line, Col: p.col, Affects: []string{p.key}, Set: name + "=VALUE",
				Message: fmt.Sprintf("%s is not set, and %s depends on it; give --set %s=VALUE", name, p.key, name),
			})
		}
		b.WriteString(value)
		if b.Len() > math.MaxUint16 {
			return "", &LimitError{y.name, p.key + ": the value is too long"}
		}
		text = after
	}
	return b.String(), nil
}

func kindName(n ast.Node) string {
	switch n.(type) {
	case nil:
		return "nothing"
	case *ast.AnchorNode, *ast.AliasNode:
		return "an anchor or alias"
	case *ast.TagNode:
		return "a tag"
	case *ast.SequenceNode:
		return "a list"
	case ast.MapNode:
		return "a mapping"
	}
	return "this value"
}
