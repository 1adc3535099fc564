package megatron

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

//go:embed testdata/flags.json
var recordedParser []byte

// option is one option of the recorded parser.
type option struct {
	Type    string          `json:"t"`
	Nargs   json.RawMessage `json:"n"`
	Choices []any           `json:"c"`
}

func parser(t *testing.T) map[string]option {
	t.Helper()
	var file struct {
		Flags map[string]option `json:"flags"`
	}
	if err := json.Unmarshal(recordedParser, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Flags) != 839 {
		t.Fatalf("the recorded parser has %d options, not 839", len(file.Flags))
	}
	options := map[string]option{}
	for names, o := range file.Flags {
		for name := range strings.SplitSeq(names, ",") {
			options[name] = o
		}
	}
	return options
}

// syntax is what the types of Megatron's own accept; the rest are strings. The expressions of moe_freq_type are
// evaluated by Python: digits, lists, * and + only (NVIDIA/Megatron-LM@d98e8a64dd megatron/training/arguments.py).
var syntax = map[string]*regexp.Regexp{
	"int":               regexp.MustCompile(`^-?[0-9]+$`),
	"tuple_type":        regexp.MustCompile(`^[0-9]+,[0-9]+$`),
	"moe_freq_type":     regexp.MustCompile(`^([0-9]+|\([][0-9,*+() ]+\))$`),
	"la_freq_type":      regexp.MustCompile(`^([0-9]+|\([][0-9,*+() ]+\))$`),
	"no_rope_freq_type": regexp.MustCompile(`^([0-9]+|\([][0-9,*+() ]+\))$`),
}

// problem says what the recorded parser would object to in a flag; "" if nothing.
func (o option) problem(values []string) string {
	n := len(values)
	switch string(o.Nargs) {
	case "null":
		if n != 1 {
			return "takes one value"
		}
	case "0":
		if n != 0 {
			return "takes no value"
		}
	case `"+"`:
		if n == 0 {
			return "takes at least one value"
		}
	case `"*"`:
	default:
		if strconv.Itoa(n) != string(o.Nargs) {
			return "takes " + string(o.Nargs) + " values"
		}
	}
	for _, v := range values {
		if v == "" || v[0] == '-' {
			return "reads " + strconv.Quote(v) + " as an option"
		}
		if pattern := syntax[o.Type]; pattern != nil && !pattern.MatchString(v) {
			return v + " is no " + o.Type
		}
		if o.Type == "float" {
			if _, err := strconv.ParseFloat(v, 64); err != nil {
				return v + " is no float"
			}
		}
		if o.Choices != nil && !slices.Contains(o.Choices, any(v)) {
			return v + " is none of its choices"
		}
	}
	return ""
}

// TestEveryFlagParses holds every flag of every catalogue model in every layout of the table against the recorded
// parser of NVIDIA/Megatron-LM@d98e8a64dd: it exists, with that many values of that type among its choices, once.
func TestEveryFlagParses(t *testing.T) {
	options := parser(t)
	checked := 0
	commands := eachCommand(t, func(t *testing.T, _ *arch.Model, _ *layout.Layout, c *Command) {
		for _, r := range c.Runs {
			args, err := SplitArgs(r.Argv[2:])
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(args.Argv(), r.Argv[2:]) {
				t.Errorf("a flag stands twice in %v", r.Argv)
			}
			for _, f := range args {
				o, ok := options[f.Name]
				if !ok {
					t.Errorf("%s does not exist", f.Name)
				} else if p := o.problem(f.Values); p != "" {
					t.Errorf("%s %v: %s", f.Name, f.Values, p)
				}
				checked++
			}
		}
	})
	t.Logf("%d flags of %d commands", checked, commands)
}

// TestParserObjects makes sure that the check above can fail.
func TestParserObjects(t *testing.T) {
	options := parser(t)
	for _, tt := range []struct {
		flag   string
		values []string
		reason string
	}{
		{"--num-layers", nil, "an int option without a value"},
		{"--num-layers", []string{"4", "5"}, "two values"},
		{"--num-layers", []string{"4.5"}, "not an int"},
		{"--swiglu", []string{"true"}, "store_true takes none"},
		{"--recompute-granularity", []string{"some"}, "not a choice"},
		{"--moe-aux-loss-coeff", []string{"small"}, "not a float"},
		{"--window-size", []string{"127"}, "tuple_type wants two"},
		{"--moe-layer-freq", []string{"[0]*3;exit()"}, "not a list expression"},
		{"--cp-comm-type", nil, "nargs +"},
		{"--recompute-modules", []string{"--x"}, "argparse sees an option"},
	} {
		if options[tt.flag].problem(tt.values) == "" {
			t.Errorf("%s %v passes: %s", tt.flag, tt.values, tt.reason)
		}
	}
	if _, ok := options["--fake-init-process-group"]; ok {
		t.Error("the parser has --fake-init-process-group after all")
	}
}
