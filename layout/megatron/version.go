package megatron

import (
	"slices"
	"strconv"
	"strings"
)

// version is up to three numbers; nil is newer than all.
type version []int

// parseVersion reads "2.9.0", and what follows the numbers ("2.9.0.dev0+1a2b", "2.9rc1") not at all.
func parseVersion(text string) version {
	var v version
	for part := range strings.SplitSeq(text, ".") {
		end := 0
		for end < len(part) && end < 6 && '0' <= part[end] && part[end] <= '9' {
			end++
		}
		n, err := strconv.Atoi(part[:end])
		if err != nil {
			break
		}
		if v = append(v, n); end < len(part) || len(v) == 3 {
			break
		}
	}
	return v
}

// String is the version as dots and numbers; "new" for one that nobody gave.
func (v version) String() string {
	if v == nil {
		return "new"
	}
	words := make([]string, len(v))
	for i, n := range v {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ".")
}

func (v version) atLeast(text string) bool {
	return v == nil || slices.Compare(v, parseVersion(text)) >= 0
}
