package topology

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/agnivade/levenshtein"
)

// platformsJSON is the built-in catalogue. Its header says where it comes from.
//
//go:embed platforms.json
var platformsJSON []byte

// Platforms returns the catalogue in its stable order: by generation, NVIDIA first. The slice is the
// caller's; the platforms are shared and read-only.
func Platforms() []*Platform { return slices.Clone(catalogue().Platforms) }

// SourceText returns what a figure's source stands for: "AIC" is a key of the catalogue's legend; a source
// that is no key explains itself and is returned as it is.
func SourceText(source string) string {
	if text, ok := catalogue().Sources[source]; ok {
		return text
	}
	return source
}

type catalogueFile struct {
	Header    map[string]string `json:"header"`
	Sources   map[string]string `json:"sources"`
	Platforms []*Platform       `json:"platforms"`
}

var catalogue = sync.OnceValue(func() *catalogueFile {
	file, err := decodeCatalogue(bytes.NewReader(platformsJSON))
	if err != nil {
		panic("bug: embedded platforms: " + err.Error())
	}
	return file
})

// decodeCatalogue reads a catalogue; a field that Platform does not know is an error.
func decodeCatalogue(r io.Reader) (*catalogueFile, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var file catalogueFile
	if err := dec.Decode(&file); err != nil {
		return nil, err
	}
	for i, p := range file.Platforms {
		if p.ID == "" || slices.ContainsFunc(file.Platforms[:i], func(q *Platform) bool { return q.ID == p.ID }) {
			return nil, fmt.Errorf("platform %d: ID %q is empty or listed twice", i+1, p.ID)
		}
	}
	return &file, nil
}

// aliases are other names of catalogue platforms, in the folded form of names.
var aliases = []struct{ short, id string }{
	{"a100", "a100-80"}, {"a100sxm", "a100-80"}, {"a10080gb", "a100-80"}, {"a100sxm80gb", "a100-80"},
	{"a10040gb", "a100-40"}, {"a100sxm40gb", "a100-40"},
	{"h100sxm", "h100"}, {"h100sxm5", "h100"}, {"h10080", "h100"}, {"h10080gb", "h100"}, {"dgxh100", "h100"},
	{"h800sxm", "h800"}, {"h20sxm", "h20"}, {"h2096gb", "h20"},
	{"h200sxm", "h200"}, {"h200141gb", "h200"}, {"dgxh200", "h200"},
	{"b200sxm", "b200"}, {"dgxb200", "b200"}, {"b300sxm", "b300"}, {"dgxb300", "b300"},
	{"gb200nvl72", "gb200"}, {"nvl36", "gb200-nvl36"}, {"gb300nvl72", "gb300"},
}

// UnknownPlatformError is what LookupPlatform returns for a name that fits no platform.
type UnknownPlatformError struct {
	Name    string
	Nearest []string // up to three catalogue IDs, nearest first
}

func (e *UnknownPlatformError) Error() string {
	name := e.Name
	if len(name) > 80 {
		name = name[:77] + "..."
	}
	return fmt.Sprintf("unknown platform %q: nearest names %s", name, strings.Join(e.Nearest, ", "))
}

// LookupPlatform finds a platform by its ID or an alias. Case, "-", "_", "." and blanks make no difference.
// The error is an *UnknownPlatformError.
func LookupPlatform(name string) (*Platform, error) {
	query := fold(name)
	id := query
	for _, a := range aliases {
		if a.short == query {
			id = fold(a.id)
		}
	}
	for _, p := range catalogue().Platforms {
		if fold(p.ID) == id {
			return p, nil
		}
	}
	return nil, &UnknownPlatformError{name, nearestPlatforms(query)}
}

// fold brings a name to the form in which names are compared: lower case without separators.
func fold(name string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(strings.ToLower(name))
}

// nearestPlatforms returns the three IDs the fewest edits away from the folded query, equals in catalogue
// order.
func nearestPlatforms(query string) []string {
	if len(query) > 64 {
		query = query[:64] // no name is longer; bounds the work
	}
	type candidate struct {
		id    string
		edits int
	}
	var all []candidate
	for _, p := range catalogue().Platforms {
		best := levenshtein.ComputeDistance(query, fold(p.ID))
		for _, a := range aliases {
			if a.id == p.ID {
				best = min(best, levenshtein.ComputeDistance(query, a.short))
			}
		}
		all = append(all, candidate{p.ID, best})
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.edits - b.edits })
	var list []string
	for _, c := range all[:min(3, len(all))] {
		list = append(list, c.id)
	}
	return list
}
