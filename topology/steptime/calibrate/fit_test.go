package calibrate

import (
	"math"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/topology/steptime"
)

// anchorsOn are published runs on one GPU kind, with their measured times or those of a machine with known factors.
func anchorsOn(t *testing.T, gpu string, truth *steptime.Factors) []Measured {
	var out []Measured
	for _, a := range steptime.Anchors() {
		if a.Platform.ID != gpu {
			continue
		}
		m := Measured{ID: a.ID, Model: a.Model, Platform: a.Platform, Layout: a.Layout, Software: a.Software, Run: steptime.DefaultRun(),
			Seconds: float64(a.Layout.GlobalBatchSize) * float64(a.Layout.SeqLength) / float64(a.Layout.World) / a.Tokens}
		if truth != nil {
			run := m.Run
			run.Factors = *truth
			e, err := steptime.New(m.Model, m.Platform, run)
			if err != nil {
				t.Fatal(err)
			}
			m.Seconds = e.Price(&m.Layout, m.Software).Step
		}
		out = append(out, m)
	}
	if len(out) < 5 {
		t.Fatalf("%d published runs on %s", len(out), gpu)
	}
	return out
}

// A machine whose factors are known is found again, and its left-out runs are predicted.
func TestRecovers(t *testing.T) {
	truth := steptime.Factors{Compute: 1.1, NVLink: 1, NIC: 1.4, Host: 0.8}
	f, err := Fit(anchorsOn(t, "h100", &truth))
	if err != nil {
		t.Fatal(err)
	}
	got, want := f.Factors, truth
	for _, c := range []struct {
		name      string
		got, want float64
		within    float64 // the prior pulls each factor towards 1, the less the runs depend on it the more; few of these wait for the host
	}{{"compute", got.Compute, want.Compute, 0.03}, {"network", got.NIC, want.NIC, 0.1}, {"host", got.Host, want.Host, 0.2}, {"NVLink", got.NVLink, want.NVLink, 0.15}} {
		if math.Abs(c.got/c.want-1) > c.within {
			t.Errorf("%s %.3f, the machine's is %.3f", c.name, c.got, c.want)
		}
	}
	if f.LeftOut.Median > 0.01 || f.Before.Median < 0.03 || !f.Better() {
		t.Errorf("left out %+v, before %+v", f.LeftOut, f.Before)
	}
}

// What the runs do not depend on stays exactly 1: nothing is claimed about a network that no run used.
func TestUnseen(t *testing.T) {
	runs := anchorsOn(t, "h100", nil)
	inside := runs[:0:0]
	for _, r := range runs {
		r.Layout.TP, r.Layout.CP, r.Layout.PP, r.Layout.EP, r.Layout.ETP, r.Layout.VPP = 1, 1, 1, 8, 1, 1
		r.Layout.World, r.Layout.Split = 8, nil
		r.Layout.GlobalBatchSize = 8 * r.Layout.MicroBatchSize
		r.Run.Corrections.ExactSplit = false
		if r.Model.MoE != nil && r.Model.MoE.NumExperts%8 == 0 {
			inside = append(inside, r)
		}
	}
	f, err := Fit(inside[:3])
	if err != nil {
		t.Fatal(err)
	}
	if f.Seen[2] || f.Factors.NIC != 1 {
		t.Errorf("one node saw the network: %+v %v", f.Factors, f.Seen)
	}
	if !f.Seen[0] || !f.Seen[3] {
		t.Errorf("compute and host not seen: %v", f.Seen)
	}
}

// Published runs of one GPU kind come from several sites and releases; the model was fitted to them,
// so that little is left for a fit of one kind to gain; it must not make them worse, and is repeatable.
func TestPublished(t *testing.T) {
	for _, gpu := range []string{"h100", "gb200"} {
		runs := anchorsOn(t, gpu, nil)
		f, err := Fit(runs)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s, %d runs: %+v; before %+v, after %+v, left out %+v", gpu, len(runs), f.Factors, f.Before, f.After, f.LeftOut)
		if f.After.Mean > f.Before.Mean {
			t.Errorf("%s: the fit makes its own runs worse: %+v, before %+v", gpu, f.After, f.Before)
		}
		again, err := Fit(runs)
		if err != nil || again.Factors != f.Factors || again.LeftOut != f.LeftOut {
			t.Errorf("%s: a second fit differs: %+v %v", gpu, again, err)
		}
	}
}

func TestRefused(t *testing.T) {
	runs := anchorsOn(t, "h100", nil)
	bad := runs[1]
	bad.ID, bad.Seconds = "slow", math.NaN()
	broken := runs[1]
	broken.ID, broken.Layout.Split = "broken", nil
	for _, c := range []struct {
		runs []Measured
		want string
	}{
		{runs[:1], "1 runs"},
		{[]Measured{runs[0], bad}, "run slow"},
		{[]Measured{runs[0], broken}, "run broken"},
	} {
		if _, err := Fit(c.runs); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
