package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
)

// ReadModel reads a model of a person's own: the keys of the catalogue, which are Megatron-LM's flag names. The shape may be
// left to megatron_flags; where both are given they must say the same. name is that of the file, for errors.
func ReadModel(name string, r io.Reader) (*arch.Model, error) {
	d, err := readDocument(name, "model", r)
	if err != nil {
		return nil, err
	}
	m := &arch.Model{}
	if err := d.decode(m); err != nil {
		return nil, err
	}
	if !idForm().MatchString(m.ID) {
		return nil, d.at("id", "%q is no name: lower case letters, digits, dots and dashes", m.ID)
	}
	if len(m.MegatronFlags) == 0 {
		return nil, d.at("megatron_flags", "missing: the architecture as Megatron-LM flags, which commands for it are made of; "+
			"moeplan models import config.json writes them, and the shape may be left to them")
	}
	said, err := shapeOf(m.MegatronFlags)
	if err != nil {
		return nil, d.at("megatron_flags", "%s", err)
	}
	if err := d.agree(m, said); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(m.Sources) == 0 {
		m.Sources = []string{"given in " + name}
	}
	return m, nil
}

// shapeOf is the model that architecture flags describe.
func shapeOf(flags []string) (*arch.Model, error) {
	// What Megatron-LM wants of a command line beside the architecture.
	argv := append([]string{"--micro-batch-size", "1", "--seq-length", "4096", "--max-position-embeddings", "4096"}, flags...)
	settings, err := megatron.Parse(argv, megatron.Main)
	if err != nil {
		return nil, err
	}
	resolved, err := megatron.Resolve(settings, 1, nil)
	if err != nil {
		return nil, err
	}
	return megatron.Model(resolved)
}

// looseFields are those that flags do not decide: names, sources, what is beside the shape, and the norm of queries and
// keys, of which flags know fewer kinds than weights have.
var looseFields = []string{"id", "hf_id", "architecture", "megatron_flags", "launcher", "sources", "unverified", "notes",
	"computed_params_total", "computed_params_active", "max_position_embeddings", "qk_norm"}

// agree fills what the file leaves out from the flags, and refuses what contradicts them.
func (d *document) agree(m, said *arch.Model) error {
	given := map[string]bool{}
	for _, v := range d.root.Values {
		given[strings.Trim(v.Key.String(), `"'`)] = true
	}
	into, from := reflect.ValueOf(m).Elem(), reflect.ValueOf(said).Elem()
	var problems []error
	for i := range into.NumField() {
		key, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
		switch {
		case !given[key] && (key == "qk_norm" || key == "launcher" || !slices.Contains(looseFields, key)):
			into.Field(i).Set(from.Field(i))
		case given[key] && !slices.Contains(looseFields, key) && !sameShape(into.Field(i).Interface(), from.Field(i).Interface()):
			problems = append(problems, d.at(key, "%s, but megatron_flags say %s", shortJSON(into.Field(i).Interface()), shortJSON(from.Field(i).Interface())))
		}
	}
	return errors.Join(problems...)
}

// sameShape compares two values as JSON writes them. Of a MoE the list of its layers counts by what it stands for.
func sameShape(a, b any) bool {
	x, okX := a.(*arch.MoE)
	y, okY := b.(*arch.MoE)
	if okX && okY && x != nil && y != nil {
		p, q := *x, *y
		if p.NumExperts != q.NumExperts || p.TopK != q.TopK || p.FFNHiddenSize != q.FFNHiddenSize ||
			p.SharedFFNSize != q.SharedFFNSize || p.LatentSize != q.LatentSize {
			return false
		}
		return true // the router changes no size, and layer frequencies have several spellings: Validate reads them
	}
	return shortJSON(a) == shortJSON(b)
}

func shortJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(text) > 120 {
		text = append(text[:117:117], "..."...)
	}
	return string(text)
}

// WriteModel writes a model as YAML that ReadModel takes; comments go above it, one line each.
func WriteModel(w io.Writer, m *arch.Model, comments ...string) error {
	var b strings.Builder
	for _, c := range comments {
		fmt.Fprintf(&b, "# %s\n", strings.Join(strings.Fields(c), " "))
	}
	writeFields(&b, reflect.ValueOf(*m), "")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFields writes what is not zero, in the order of the type.
func writeFields(b *strings.Builder, v reflect.Value, indent string) {
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		if key == "" || key == "-" || f.IsZero() {
			continue
		}
		if frequency, ok := f.Interface().(arch.LayerFreq); ok {
			fmt.Fprintf(b, "%s%s: %s\n", indent, key, shortJSON(frequency))
			continue
		}
		switch f.Kind() {
		case reflect.Pointer:
			if f.Elem().Kind() == reflect.Struct {
				fmt.Fprintf(b, "%s%s:\n", indent, key)
				writeFields(b, f.Elem(), indent+"  ")
				continue
			}
			fmt.Fprintf(b, "%s%s: %s\n", indent, key, scalar(f.Elem()))
		case reflect.Slice:
			if key == "megatron_flags" {
				writeFlags(b, indent+key, f.Interface().([]string))
				continue
			}
			fmt.Fprintf(b, "%s%s:\n", indent, key)
			for j := range f.Len() {
				fmt.Fprintf(b, "%s  - %s\n", indent, scalar(f.Index(j)))
			}
		default:
			fmt.Fprintf(b, "%s%s: %s\n", indent, key, scalar(f))
		}
	}
}

// writeFlags writes a flag and its values on a line of their own.
func writeFlags(b *strings.Builder, key string, words []string) {
	fmt.Fprintf(b, "%s: [", key)
	for i, w := range words {
		if strings.HasPrefix(w, "--") {
			b.WriteString("\n ")
		}
		fmt.Fprintf(b, " %s", strconv.Quote(w))
		if i < len(words)-1 {
			b.WriteByte(',')
		}
	}
	b.WriteString("\n]\n")
}

func scalar(v reflect.Value) string {
	if v.Kind() == reflect.String {
		text, err := yaml.Marshal(v.String())
		if err == nil && strings.Count(string(text), "\n") == 1 {
			return strings.TrimSpace(string(text))
		}
		return strconv.Quote(v.String())
	}
	return fmt.Sprint(v.Interface())
}
