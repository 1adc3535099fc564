package megatron

import (
	"strconv"
	"strings"
	"unicode"
)

// maxDigits is how many digits Python's int reads from a text at most.
const maxDigits = 4300

// pythonInt reads what Python's int() reads from a text: white space around, one sign, digits of any script, single
// underscores between digits. Numbers that an int cannot hold are refused; Python would take them.
func pythonInt(text string) (n int, bad string) {
	const wrong = "is not a whole number"
	digits, ok := pythonDigits(pythonStrip(text))
	if !ok {
		return 0, wrong
	}
	unsigned := strings.TrimLeft(digits, "+-")
	if len(digits)-len(unsigned) > 1 || unsigned == "" || len(unsigned) > maxDigits || strings.Trim(unsigned, "0123456789") != "" {
		return 0, wrong
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, "is a larger number than can be reckoned with"
	}
	return n, ""
}

// pythonFloat reads what Python's float() reads from a text: as pythonInt, with point and exponent, and nan, inf and
// infinity in any case; no hexadecimal. What is too large is infinite.
func pythonFloat(text string) (float64, bool) {
	s, ok := pythonDigits(pythonStrip(text))
	if !ok || s == "" {
		return 0, false
	}
	switch word := strings.ToLower(strings.TrimLeft(s, "+-")); word {
	case "nan", "inf", "infinity":
		if len(s)-len(word) > 1 {
			return 0, false
		}
	default:
		if strings.Trim(word, "0123456789.e+-") != "" {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && err.(*strconv.NumError).Err != strconv.ErrRange {
		return 0, false
	}
	return f, true
}

// pythonDigits writes digits of other scripts as 0 to 9 and takes out underscores that stand between two digits; any other
// underscore makes it false.
func pythonDigits(text string) (string, bool) {
	plain := true
	for i := range len(text) {
		plain = plain && text[i] != '_' && text[i] < 0x80
	}
	if plain {
		return text, true
	}
	var b strings.Builder
	digit, underscore := false, false
	for _, r := range text {
		if r == '_' {
			if !digit {
				return "", false
			}
			digit, underscore = false, true
			continue
		}
		d, isDigit := digitValue(r)
		if underscore && !isDigit {
			return "", false
		}
		underscore, digit = false, isDigit
		if isDigit {
			b.WriteByte('0' + d)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String(), !underscore
}

// digitValue reads a decimal digit of any script. Unicode orders each script's ten digits one after the other.
func digitValue(r rune) (byte, bool) {
	if '0' <= r && r <= '9' {
		return byte(r - '0'), true
	}
	for _, run := range unicode.Nd.R16 {
		if rune(run.Lo) <= r && r <= rune(run.Hi) {
			return byte((r - rune(run.Lo)) % 10), true
		}
	}
	for _, run := range unicode.Nd.R32 {
		if rune(run.Lo) <= r && r <= rune(run.Hi) {
			return byte((r - rune(run.Lo)) % 10), true
		}
	}
	return 0, false
}

// pythonStrip takes white space off both ends, as str.strip does.
func pythonStrip(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f })
}
