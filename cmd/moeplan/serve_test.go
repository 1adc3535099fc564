package main

import (
	"context"
	"net/url"
	"strings"
	"testing"
)

// asForm is the form as a person finds it, with changes.
func asForm(changes ...string) url.Values {
	q := url.Values{}
	for _, f := range formFields() {
		if f.Default != "" {
			q.Set(f.Name, f.Default)
		}
	}
	for i := 0; i < len(changes); i += 2 {
		q.Set(changes[i], changes[i+1])
	}
	return q
}

// TestFormAnswers: the form's defaults are a question, and its fields reach the planner.
func TestFormAnswers(t *testing.T) {
	a, err := answerForm(context.Background(), asForm("model", "qwen3-30b-a3b", "gpus", "32", "tp", "2", "seq", "8192", "grads", "bf16", "recompute", "full"))
	if err != nil {
		t.Fatal(err)
	}
	q := a.Result.Request
	if q.GPUs != 32 || q.SeqLength != 8192 || q.Gradients != "bf16" || len(a.Result.Plans) == 0 {
		t.Fatalf("%+v", q)
	}
	for _, p := range a.Result.Plans {
		if p.Sizes.TP != 2 || p.Sizes.Recompute != "full" {
			t.Errorf("%s", p.Key)
		}
	}
}

// TestFormRefuses: what a request says is a stranger's; it must not name files, and every mistake has words.
func TestFormRefuses(t *testing.T) {
	for _, x := range []struct{ name, value, want string }{
		{"model", "/etc/passwd.yaml", "files are not read"}, {"gpu", "../x.yml", "files are not read"}, {"model", "nonesuch", "nonesuch"},
		{"gpu", "nonesuch", "nonesuch"}, {"gpus", "x", "not a number"}, {"gpus", "-8", "below 1"}, {"gpus", "12", "whole number"},
		{"gpus", "99999999999", "more than"}, {"seq", "0", "below 1"}, {"tp", "8..2", "reversed"}, {"recompute", "nonesuch", "nonesuch"},
		{"grads", "fp4", "neither"}, {"precision", "fp2", "fp2"}, {"objective", "nonesuch", "nonesuch"},
	} {
		_, err := answerForm(context.Background(), asForm(x.name, x.value))
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s=%s: %v, want %q", x.name, x.value, err, x.want)
		}
	}
}
