package arch

import (
	"fmt"
	"strings"
)

// aliases are short forms that are not part of any catalogue name. Llama 3 and 3.1 share their shapes
// (catalogue notes of llama3.1-*).
var aliases = []struct{ short, id string }{
	{"dsv2", "deepseek-v2"},
	{"dsv2-lite", "deepseek-v2-lite"},
	{"dsv3", "deepseek-v3"},
	{"llama3-8b", "llama3.1-8b"},
	{"llama3-70b", "llama3.1-70b"},
	{"llama3-405b", "llama3.1-405b"},
	{"meta-llama/llama-3.1-8b", "llama3.1-8b"},
	{"meta-llama/llama-3.1-70b", "llama3.1-70b"},
	{"meta-llama/llama-3.1-405b", "llama3.1-405b"},
	{"nemotron-nano", "nemotron-3-nano"},
	{"nemotron-super", "nemotron-3-super"},
	{"nemotron-ultra", "nemotron-3-ultra"},
}

// UnknownModelError is what Lookup returns for a name that fits no model.
type UnknownModelError struct {
	Name    string
	Nearest []string // up to three catalogue IDs, nearest first
}

func (e *UnknownModelError) Error() string {
	return fmt.Sprintf("unknown model %s: nearest names %s", quoteName(e.Name), strings.Join(e.Nearest, ", "))
}

// AmbiguousModelError is what Lookup returns for a short form that fits several models.
type AmbiguousModelError struct {
	Name       string
	Candidates []string // catalogue IDs in catalogue order, at least two
}

func (e *AmbiguousModelError) Error() string {
	return fmt.Sprintf("model %s is ambiguous: %s", quoteName(e.Name), strings.Join(e.Candidates, ", "))
}

// Lookup finds a model of the catalogue by its ID, its Hugging Face name with or without the
// organisation, or a short form. Upper and lower case, and the characters "-", "_", "." and blank, make no
// difference.
//
// The first of these that fits any model decides: the whole name; the beginning of a name ("qwen3-235b",
// "mixtral"); the beginning of one of its parts ("scout", "a22b"). A short form never ends inside a number
// or before a version's point: "minimax-m2" is another model than "minimax-m2.5".
//
// Errors: *UnknownModelError with the nearest names, *AmbiguousModelError with all candidates.
// The model is shared and read-only.
func Lookup(name string) (*Model, error) {
	query := fold(name)
	for _, fits := range []func(string) bool{
		func(full string) bool { return fold(full) == query },
		func(full string) bool { return begins(full, query) },
		func(full string) bool { return beginsPart(full, query) },
	} {
		if query == "" {
			break
		}
		switch found := search(fits); len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return nil, &AmbiguousModelError{Name: name, Candidates: ids(found)}
		}
	}
	return nil, &UnknownModelError{Name: name, Nearest: nearest(query)}
}

// search returns the models with a name for which fits holds, in catalogue order, each once.
func search(fits func(string) bool) []*Model {
	var found []*Model
	for _, m := range catalogue() {
		for _, n := range names(m) {
			if fits(n) {
				found = append(found, m)
				break
			}
		}
	}
	return found
}

// names lists what a model may be called: ID, Hugging Face name, the same without organisation, aliases.
func names(m *Model) []string {
	list := []string{m.ID, m.HFID}
	if _, repository, ok := strings.Cut(m.HFID, "/"); ok {
		list = append(list, repository)
	}
	for _, a := range aliases {
		if a.id == m.ID {
			list = append(list, a.short)
		}
	}
	return list
}

func ids(models []*Model) []string {
	list := make([]string, len(models))
	for i, m := range models {
		list[i] = m.ID
	}
	return list
}

const separators = "–—-_. "

// fold brings a name to the form in which names are compared: lower case without separators.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(separators, r) {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// begins reports whether the folded query is a beginning of full that ends neither inside a number nor
// before a version's point.
func begins(full, query string) bool {
	full = strings.ToLower(full)
	end := 0
	for _, want := range []byte(query) {
		for end < len(full) && strings.IndexByte(separators, full[end]) >= 0 {
			end++
		}
		if end == len(full) || full[end] != want {
			return false
		}
		end++
	}
	if end == 0 || end == len(full) || !isDigit(full[end-1]) {
		return end > 0
	}
	return !isDigit(full[end]) && full[end] != '.'
}

// beginsPart is begins for any part of full that follows "-", "/" or "_". Single letters find nothing.
func beginsPart(full, query string) bool {
	if len(query) < 2 {
		return false
	}
	for i := range len(full) {
		if strings.IndexByte("-/_", full[i]) >= 0 && begins(full[i+1:], query) {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// quoteName quotes a name for a message of one line, and shortens an absurd one.
func quoteName(name string) string {
	if len(name) > 80 {
		name = name[:77] + "..."
	}
	return fmt.Sprintf("%q", name)
}
