package main

import (
	"encoding/json"
	"testing"
)

func TestJSONProblem(t *testing.T) {
	for _, tt := range []struct{ in, want, reason string }{
		{`[1]`, "array where an object is wanted", "the whole line"},
		{`{"request":[]}`, "request: array where an object is wanted", "the type of ours has a page of fields"},
		{`{"request":{"gpus":"8"}}`, "request.gpus: string where a whole number is wanted", "the path, not Go's names"},
		{`{"request":{"gpus":1e300}}`, "request.gpus: number 1e300 where a whole number is wanted", "the value"},
		{`{"plans":{}}`, "plans: object where an array is wanted", "a list"},
		{`{"plans":[{"key":1}]}`, "plans.key: number where a string is wanted", "within a list"},
		{`{"assumed":0}`, "assumed: number where an object is wanted", "a map"},
		{`{"request"`, "unexpected end of JSON input", "what is no JSON says so itself"},
	} {
		var file planFile
		err := json.Unmarshal([]byte(tt.in), &file)
		if err == nil {
			t.Errorf("%s is accepted", tt.in)
			continue
		}
		if got := jsonProblem(err).Error(); got != tt.want {
			t.Errorf("%s (%s): %q, want %q", tt.in, tt.reason, got, tt.want)
		}
	}
}
