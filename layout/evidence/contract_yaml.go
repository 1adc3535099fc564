package evidence

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a contract file.
const (
	maxContract      = 64 << 10 // those that are written have some 5 kB, and the parser takes seconds over a MiB
	maxContractDepth = 8
)

// ContractError is what is wrong at one place of a contract file.
type ContractError struct {
	Name         string
	Line, Column int // from 1; 0: the whole file
	Message      string
}

func (e *ContractError) Error() string {
	if e.Line == 0 {
		return e.Name + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Message)
}

// WriteContract writes a contract as YAML with a comment where a field needs one.
func WriteContract(w io.Writer, c *Contract) error {
	var b bytes.Buffer
	b.WriteString("# The conditions of a measurement (moeplan contract). Every field is frozen but the one that variable names, by its path,\n" +
		"# such as layout.moe_token_dispatcher; base is its value in the run to compare with. Blank is unknown: fill it in.\n")
	fmt.Fprintf(&b, "variable: %s\nbase: %s\n", quoted(c.Variable), quoted(c.Base))
	fmt.Fprintf(&b, "candidate: %s\nreasons:%s", c.Candidate, list(c.Reasons, "  "))
	section := ""
	for i := range contractFields {
		e := &contractFields[i]
		if e.section != section {
			section = e.section
			fmt.Fprintf(&b, "%s:\n", section)
		}
		value := ""
		switch v := e.into(c).(type) {
		case *string:
			value = quoted(*v)
		case *[]string:
			value = strings.TrimRight(list(*v, "    "), "\n")
		default:
			value = e.text(c)
			if value == "" {
				value = "null"
			}
		}
		line := fmt.Sprintf("  %s: %s", e.key, strings.TrimLeft(value, " "))
		if strings.HasPrefix(value, "\n") {
			line = fmt.Sprintf("  %s:%s", e.key, value)
		} else if what := e.what; e.path() == c.Variable {
			line += "  # the variable under test"
		} else if what != "" {
			line += "  # " + what
		}
		b.WriteString(line + "\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

func list(items []string, indent string) string {
	if len(items) == 0 {
		return " []\n"
	}
	var b strings.Builder
	b.WriteString("\n")
	for _, s := range items {
		b.WriteString(indent + "- " + quoted(s) + "\n")
	}
	return b.String()
}

// quoted is text as a YAML double-quoted scalar, whose escapes JSON shares for what is printable.
func quoted(s string) string { return strconv.QuoteToGraphic(s) }

// ReadContract reads what WriteContract writes, strictly: unknown, repeated and missing sections or keys, values of the wrong
// kind, a variable that is no field, and a label that the fields contradict are a *ContractError with its place. name is for
// messages.
func ReadContract(name string, r io.Reader) (*Contract, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxContract+1))
	if err != nil {
		return nil, err
	}
	y := &contractReader{name: name, seen: map[string]bool{}, contract: &Contract{}}
	if len(data) > maxContract {
		return nil, y.whole("a contract is at most 64 KiB")
	}
	top, err := y.parse(strings.TrimPrefix(string(data), "\ufeff"))
	if err != nil {
		return nil, err
	}
	if err := y.top(top); err != nil {
		return nil, err
	}
	return y.contract, y.check(top)
}

type contractReader struct {
	name      string
	contract  *Contract
	candidate ast.Node
	label     Candidate
	variable  ast.Node
	seen      map[string]bool
}

func (y *contractReader) whole(message string) error {
	return &ContractError{Name: y.name, Message: message}
}

func (y *contractReader) at(n ast.Node, format string, args ...any) error {
	e := &ContractError{Name: y.name, Message: fmt.Sprintf(format, args...)}
	if t := n.GetToken(); t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	return e
}

// parse returns the top mapping.
func (y *contractReader) parse(text string) (top *ast.MappingNode, err error) {
	if strings.ContainsAny(text, "\x00\x1b") {
		return nil, y.whole("control characters do not belong into YAML")
	}
	depth := 0
	for line := range strings.Lines(text) {
		depth = max(depth, len(line)-len(strings.TrimLeft(line, " -?:[{")))
	}
	if depth > 4*maxContractDepth {
		return nil, y.whole("nested too deeply")
	}
	defer func() {
		if r := recover(); r != nil { // a fault of the parser must not become the caller's
			top, err = nil, y.whole(fmt.Sprint("cannot be parsed: ", r))
		}
	}()
	tokens := lexer.Tokenize(text)
	if bracketsDeep(tokens) > maxContractDepth {
		return nil, y.whole("nested too deeply")
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, y.syntax(err)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, y.whole("is no contract: one YAML document with a mapping is")
	}
	switch n := file.Docs[0].Body.(type) {
	case *ast.MappingNode:
		return n, nil
	case *ast.MappingValueNode:
		return ast.Mapping(n.GetToken(), false, n), nil
	}
	return nil, y.whole("is no contract: a mapping is")
}

// bracketsDeep is how deep brackets nest; the parser's memory grows with the square of it.
func bracketsDeep(tokens token.Tokens) (deepest int) {
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
			deepest = max(deepest, depth)
		case token.SequenceEndType, token.MappingEndType:
			depth--
		}
	}
	return deepest
}

// syntax takes apart goccy's "[line:col] message" and drops its excerpt.
func (y *contractReader) syntax(err error) error {
	message, _, _ := strings.Cut(err.Error(), "\n")
	e := &ContractError{Name: y.name, Message: message}
	if at, rest, ok := strings.Cut(message, "] "); ok && strings.HasPrefix(at, "[") {
		if _, scan := fmt.Sscanf(at, "[%d:%d", &e.Line, &e.Column); scan == nil {
			e.Message = rest
		}
	}
	return e
}

var topKeys = []string{"variable", "base", "candidate", "reasons", "software", "hardware", "launch", "workload", "layout", "measure"}

func (y *contractReader) top(top *ast.MappingNode) error {
	for _, pair := range top.Values {
		key, err := y.key(pair, "", topKeys)
		if err != nil {
			return err
		}
		switch key {
		case "variable", "base", "candidate":
			text, err := y.scalar(pair.Value)
			if err != nil {
				return err
			}
			switch key {
			case "variable":
				y.contract.Variable, y.variable = text, pair.Value
			case "base":
				y.contract.Base = text
			default:
				y.label, y.candidate = Candidate(text), pair.Value
			}
		case "reasons":
			if _, err := y.items(pair.Value); err != nil { // derived anew
				return err
			}
		default:
			if err := y.section(key, pair.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// key returns a pair's key, if it is one of those known and not there yet.
func (y *contractReader) key(pair *ast.MappingValueNode, section string, known []string) (string, error) {
	text, err := y.scalar(pair.Key)
	if err != nil {
		return "", y.at(pair.Key, "a key is a plain word")
	}
	if !slices.Contains(known, text) {
		where := ""
		if section != "" {
			where = " in " + section
		}
		return "", y.at(pair.Key, "unknown key %q%s%s", clipped(text), where, nearestKey(text, known))
	}
	path := section + "." + text
	if y.seen[path] {
		return "", y.at(pair.Key, "%s is given twice", text)
	}
	y.seen[path] = true
	return text, nil
}

func (y *contractReader) section(section string, n ast.Node) error {
	var known []string
	for i := range contractFields {
		if contractFields[i].section == section {
			known = append(known, contractFields[i].key)
		}
	}
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		return y.at(n, "%s is a section with keys", section)
	}
	for _, pair := range pairs {
		key, err := y.key(pair, section, known)
		if err != nil {
			return err
		}
		e := fieldAt(section + "." + key)
		if into, ok := e.into(y.contract).(*[]string); ok {
			if *into, err = y.items(pair.Value); err != nil {
				return err
			}
			continue
		}
		text, err := y.scalar(pair.Value)
		if err != nil {
			return err
		}
		if _, words := e.into(y.contract).(*string); !words && pair.Value.Type() == ast.StringType {
			return y.at(pair.Value, "%s: %q is a text, want a plain value", key, clipped(text))
		}
		if err := e.set(y.contract, text); err != nil {
			return y.at(pair.Value, "%s: %v", key, err)
		}
	}
	for _, key := range known {
		if !y.seen[section+"."+key] {
			return y.at(n, "%s lacks the key %s (blank if unknown)", section, key)
		}
	}
	return nil
}

// scalar is the text of a plain or quoted value; null is "". Anchors, aliases and tags are refused.
func (y *contractReader) scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.NullNode:
		return "", nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	}
	return "", y.at(n, "want one value, found %s", strings.ToLower(n.Type().String()))
}

func (y *contractReader) items(n ast.Node) ([]string, error) {
	if _, ok := n.(*ast.NullNode); ok {
		return nil, nil
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil, y.at(n, "want a list")
	}
	var out []string
	for _, v := range seq.Values {
		text, err := y.scalar(v)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// check holds the parts of a contract against each other.
func (y *contractReader) check(top ast.Node) error {
	for _, key := range topKeys {
		if !y.seen["."+key] {
			return y.at(top, "lacks the key %s", key)
		}
	}
	c := y.contract
	if c.Variable != "" {
		e := fieldAt(c.Variable)
		switch {
		case e == nil:
			return y.at(y.variable, "variable: no field %q%s", clipped(c.Variable), nearestKey(c.Variable, paths()))
		case e.section == "measure":
			return y.at(y.variable, "variable: how a run is measured is no variable of the run")
		case c.Base != "" && e.text(c) == c.Base:
			return y.at(y.variable, "variable: %s is %q in both runs", c.Variable, c.Base)
		}
	} else if c.Base != "" {
		return y.at(y.variable, "base is the value of a variable, and variable is blank")
	}
	if m := &c.Measure; m.First > 0 || m.Last > 0 {
		if m.First <= m.WarmUp || m.Last < m.First {
			return y.at(top, "measure: the window %d to %d begins after the %d warm-up iterations and ends after it begins", m.First, m.Last, m.WarmUp)
		}
	}
	c.Judge()
	switch y.label {
	case c.Candidate:
		return nil
	case TrainingEquivalent:
		return y.at(y.candidate, "candidate: %s, but %s", y.label, strings.Join(c.Reasons, "; "))
	case BenchmarkOnly:
		c.Candidate, c.Reasons = BenchmarkOnly, append(c.Reasons, "declared so")
		return nil
	}
	return y.at(y.candidate, "candidate: %q is neither %s nor %s", clipped(string(y.label)), TrainingEquivalent, BenchmarkOnly)
}
