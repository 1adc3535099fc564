package arch

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// SizeCheck compares the sizes that a model's name states with those that its shape has.
type SizeCheck struct {
	Name string `json:"name"` // the part of the name that states them: "235B-A22B"
	// StatedTotal and StatedActive are parameters as the name rounds them; 0 where it states none.
	StatedTotal  float64 `json:"stated_total"`
	StatedActive float64 `json:"stated_active"`
	Total        int64   `json:"total"`
	Active       int64   `json:"active"`
	// Agrees is false if the total is more than 10 % off, or the active parameters more than 30 %, which names count with
	// or without the embeddings.
	Agrees  bool   `json:"agrees"`
	Message string `json:"message"`
}

var (
	sizeWord     = lazily(`(?i)(^|[-_/. ])(a?)([0-9]+(?:\.[0-9]+)?)([bt])($|[-_/. ])`)
	expertsWord  = lazily(`(?i)(^|[-_/. ])[0-9]+e($|[-_/. ])`)
	timesWord    = lazily(`(?i)(^|[-_/. ])[0-9]+x[0-9]`)
	sizeTolerant = [2]float64{0.10, 0.30}
)

// lazily compiles an expression when it is first used, so that programs that import no model do not wait for it when they start.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// checkSize uses the first name that states a size. It is nil if none does: "8x7B" counts experts, not parameters.
func checkSize(names []string, m *Model) *SizeCheck {
	for _, name := range names {
		if timesWord().MatchString(name) {
			continue
		}
		total, active, words := statedSize(name)
		if total == 0 && active == 0 {
			continue
		}
		s := &SizeCheck{Name: strings.Join(words, "-"), StatedTotal: total, StatedActive: active, Agrees: true}
		s.Total, s.Active = m.Parameters()
		var parts []string
		for i, pair := range [][2]float64{{total, float64(s.Total)}, {active, float64(s.Active)}} {
			if pair[0] == 0 {
				continue
			}
			off := pair[1]/pair[0] - 1
			if math.Abs(off) > sizeTolerant[i] {
				s.Agrees = false
			}
			parts = append(parts, fmt.Sprintf("%s %.4g B, the name says %.4g B (%+.1f %%)", []string{"total", "active"}[i], pair[1]/1e9, pair[0]/1e9, 100*off))
		}
		s.Message = strings.Join(parts, "; ")
		return s
	}
	return nil
}

// statedSize reads "235B-A22B", "1T", "17B-16E" (active parameters and experts) and "1B-7B" (active and total).
func statedSize(name string) (total, active float64, words []string) {
	var plain []float64
	// Neighbouring words share a separator, so each match starts at the end of the last one's word.
	for at := 0; at < len(name); {
		loc := sizeWord().FindStringSubmatchIndex(name[at:])
		if loc == nil {
			break
		}
		n, err := strconv.ParseFloat(name[at+loc[6]:at+loc[7]], 64)
		scale := 1e9
		if strings.EqualFold(name[at+loc[8]:at+loc[9]], "t") {
			scale = 1e12
		}
		if err == nil && n > 0 {
			words = append(words, name[at+loc[4]:at+loc[9]])
			if loc[4] != loc[5] {
				active = n * scale
			} else {
				plain = append(plain, n*scale)
			}
		}
		at += loc[9]
	}
	switch {
	case len(plain) == 1 && active == 0 && expertsWord().MatchString(name):
		active = plain[0]
	case len(plain) == 1:
		total = plain[0]
	case len(plain) == 2 && active == 0:
		active, total = min(plain[0], plain[1]), max(plain[0], plain[1])
	case len(plain) > 0:
		total = plain[0]
	}
	return total, active, words
}
