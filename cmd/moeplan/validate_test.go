package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/memmodel/calibrate"
)

// The replay itself is tested in layout/plan; here only what is said around it.
func TestValidateUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		exit int
		want string
	}{
		{"validate --record m9999", 80, "m9999"},
		{"validate --ranking --record m0001", 80, "one of the two"},
		{"validate --ranking --worst -1", 80, "--worst -1"},
		{"validate --ranking -o xml", 80, "xml"},
	} {
		var out, problems bytes.Buffer
		if code := run(context.Background(), strings.Fields(c.args), &out, &problems); code != c.exit || !strings.Contains(problems.String(), c.want) {
			t.Errorf("%s: exit %d, want %d; %s", c.args, code, c.exit, &problems)
		}
	}
}

func TestWriteRanking(t *testing.T) {
	ratio := 1.25
	r := &plan.Replayed{
		Rows: []plan.ReplayRow{
			{ID: "r1", Model: "m", Platform: "h100", GPUs: 8, MeshText: "tp2 ep8", Grade: plan.Fits, AsIs: &ratio, AsIsPinned: &ratio, Mesh: &ratio,
				Place: new(3), Meshes: new(7), Verdict: "theirs is a default"},
			{ID: "r2", Platform: "h100", Apart: "misread"},
		},
		Legality: plan.Legality{Inconsistent: 2, Refused: 1, Consistent: 5, Legal: 5, Exceptions: []string{"r9 breaks no rule"}},
		Pairs:    []plan.Pairs{{Set: "paper", Pairs: 3, Right: 2, Wrong: []string{"a measured 2, b 1"}}},
		Skipped:  map[string]int{"FSDP": 4},
	}
	var out bytes.Buffer
	if err := writeRanking(&out, r, 20, report.Text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1 of 2 inconsistent ones refused, 5 of 5 others legal", "r9 breaks no rule", "paper: 2 of 3", "a measured 2, b 1",
		"25.0 %", "3/7", "theirs is a default", "misread", "4 records", "0/0/0", "0/100/100",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if share(1, 0) != "-" || shares([3]float64{math.NaN()}) != "-" || behind(math.NaN()) != "-" {
		t.Error("nothing is not shown as -")
	}
}

// TestValidateMemory holds the table of measured memory against the aims that memmodel/calibrate tests; here what is printed.
func TestValidateMemory(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"validate", []string{"589 records", "SimuMax B200", "Aims:", "m0728", "cuBLAS workspace of 8 MiB", "the number of GPUs is unknown"}},
		{"validate -o json", []string{`"median_size"`, `"id": "m0000"`, `"use": "unusable"`, `"outside": [`}},
		{"validate --record m0100", []string{"tensor-model-parallel-size 1", "layout: tp1 cp1 pp4", "predicted", "measured"}},
		{"validate --record m0728 -o json", []string{`"measured_peak_bytes"`}},
		{"validate --record m0554", []string{"unusable", "another test"}},
	} {
		var out, problems bytes.Buffer
		if code := run(context.Background(), strings.Fields(c.args), &out, &problems); code != 0 {
			t.Fatalf("%s: exit %d: %s", c.args, code, &problems)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", c.args, want, &out)
			}
		}
	}
}

// TestUnknownMemoryIsNull: what was not measured or not predicted is null in JSON, and never 0, which is an amount.
func TestUnknownMemoryIsNull(t *testing.T) {
	all := calibrate.Validate()
	whole := memoryAsJSON(all)
	unknown := 0
	for i := range all.Rows {
		row, r := &all.Rows[i], &whole.Records[i]
		for _, c := range []struct {
			what string
			of   int64
			json *int64
		}{{"predicted after a step", row.AfterStep.Predicted, r.PredictedAfterStepBytes}, {"measured after a step", row.AfterStep.Measured, r.MeasuredAfterStepBytes},
			{"predicted peak", row.Peak.Predicted, r.PredictedPeakBytes}, {"measured peak", row.Peak.Measured, r.MeasuredPeakBytes}} {
			switch {
			case c.json == nil && c.of == 0:
				unknown++
			case c.json == nil || *c.json != c.of || c.of == 0:
				t.Errorf("%s: %s is %d, in JSON %v", r.ID, c.what, c.of, c.json)
			}
		}
		if r.Reason != nil && *r.Reason == "" {
			t.Errorf("%s: a reason that says nothing", r.ID)
		}
	}
	if unknown == 0 {
		t.Error("nothing is unknown: then this test says nothing")
	}
	empty := memoryAsJSON(&calibrate.Report{Groups: []calibrate.Group{{Name: "none"}}, Aims: []calibrate.Aim{{Name: "none", Share: 0.9}}})
	text, err := json.Marshal(empty)
	if err != nil {
		t.Fatal(err)
	}
	const nothing = `{"records":0,"median":null,"median_size":null,"p90":null,"worst":null,"worst_id":null}`
	for _, want := range []string{`"after_step":` + nothing, `"peak":` + nothing, `"reached":null`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}
