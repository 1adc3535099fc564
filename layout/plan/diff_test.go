package plan

import (
	"context"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
)

func parsed(t *testing.T, r *Request, text string) layout.Layout {
	t.Helper()
	l, err := layout.Parse(text, layout.Defaults{World: r.GPUs, Model: r.Model})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The flags of a difference are exactly those of the degrees that differ, and a layout does not differ from itself.
func TestDiff(t *testing.T) {
	r := ask(t, "qwen3-235b", "h100", 256)
	a := parsed(t, &r, "tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm")
	b := parsed(t, &r, "tp2 pp8 vpp6 ep16 recompute=full")
	d, err := Diff(context.Background(), r, a, b)
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for _, f := range d.Flags {
		flags = append(flags, f.Flag+" "+f.A+" -> "+f.B)
	}
	want := []string{
		"--expert-model-parallel-size 32 -> 16",
		"--recompute-granularity selective -> full",
		"--recompute-modules moe_act layernorm -> ",
		"--recompute-method  -> uniform",
		"--recompute-num-layers  -> 1",
	}
	if strings.Join(flags, "\n") != strings.Join(want, "\n") {
		t.Errorf("flags\n%s\nwant\n%s", strings.Join(flags, "\n"), strings.Join(want, "\n"))
	}
	if !strings.Contains(d.Closing, "GiB less") {
		t.Errorf("closing %q: full recompute needs less memory", d.Closing)
	}
	same, err := Diff(context.Background(), r, a, a)
	if err != nil {
		t.Fatal(err)
	}
	if len(same.Flags) != 0 || !strings.Contains(same.Closing, "not distinguishable") || !strings.Contains(same.Closing, "same memory") {
		t.Errorf("a layout differs from itself: %+v, %q", same.Flags, same.Closing)
	}
}

// Two layouts that differ in dispatcher and overlap alone differ in their first run, and no more once both are tuned.
func TestDiffOfSoftware(t *testing.T) {
	r := ask(t, "qwen3-235b", "h100", 256)
	const key = "tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm"
	d, err := Diff(context.Background(), r, parsed(t, &r, key), parsed(t, &r, key+" dispatcher=deepep overlap=on"))
	if err != nil {
		t.Fatal(err)
	}
	if d.B.Plan.StepTimeMS > 0.7*d.A.Plan.StepTimeMS || d.B.Plan.TunedTimeMS != d.A.Plan.TunedTimeMS {
		t.Errorf("steps %.0f and %.0f ms, tuned %.0f and %.0f", d.A.Plan.StepTimeMS, d.B.Plan.StepTimeMS, d.A.Plan.TunedTimeMS, d.B.Plan.TunedTimeMS)
	}
	if !strings.Contains(d.Closing, "as written B takes") || !strings.Contains(d.Closing, "tuned, B and A are not distinguishable") {
		t.Error(d.Closing)
	}
}

// A comparison tells apart what the ranking tells apart, whichever of the two is named first.
func TestInTime(t *testing.T) {
	const same = "B and A are not distinguishable in time"
	for _, c := range []struct {
		a, b float64
		want string
	}{
		{100, 100, same}, {100, 104.9, same}, {104.9, 100, same},
		{100, 105.1, "B takes 5 % more time than A"}, {105.1, 100, "B takes 5 % less time than A"},
		{100, 150, "B takes 50 % more time than A"}, {100, 50, "B takes 50 % less time than A"},
	} {
		if got := inTime(c.a, c.b); got != c.want {
			t.Errorf("%g against %g: %s, want %s", c.b, c.a, got, c.want)
		}
	}
}
