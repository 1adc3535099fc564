package config

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestCalibrationRoundTrip(t *testing.T) {
	want := Calibration{GPU: "h100", Runs: 7, Factors: CalibrationFactors{1.1, 1, 0.9, 1.25}, Before: 0.1, LeftOut: 0.04, Memory: &CalibrationMemory{0.5, 2}}
	var out bytes.Buffer
	if err := WriteCalibration(&out, &want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadCalibration("c.yaml", &out)
	if err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v, %v: want %+v", got, err, want)
	}
}

func TestCalibrationRefused(t *testing.T) {
	const rest = "gpu: h100\nruns: 3\n"
	for _, c := range []struct{ text, want, reason string }{
		{"", "no gpu", "an empty file"},
		{rest, "factors.compute is missing", "a factor of 0 would make everything free"},
		{rest + "factors: {compute: 1, nvlink: 1, nic: 9, host: 1}\n", "nic factor 9", "beyond what a machine of that name can be"},
		{rest + "factors: {compute: 1, nvlink: 1, nic: .nan, host: 1}\n", "NaN", "no number"},
		{rest + "factors: {compute: 1, nvlink: 1, nic: 1, hots: 1}\n", "hots", "an unknown key is named"},
		{rest + "factors: {compute: 1, nvlink: 1, nic: 1, host: 1}\nmemory: {offset_gib: 1000}\n", "offset_gib 1000", "more than a card has"},
		{strings.Repeat("#", maxFile+1), "at most", "too large"},
	} {
		if _, err := ReadCalibration("c.yaml", strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "c.yaml") {
			t.Errorf("%.40q: %v, want %q (%s)", c.text, err, c.want, c.reason)
		}
	}
}

// FuzzReadCalibration: no bytes panic, and what is accepted can be used.
func FuzzReadCalibration(f *testing.F) {
	f.Add("gpu: h100\nfactors: {compute: 1, nvlink: 1, nic: 1, host: 1}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ReadCalibration("fuzz.yaml", strings.NewReader(text)); err == nil && c.Factors.Of().Check() != nil {
			t.Errorf("accepted %+v", c)
		}
	})
}
