package plan

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/recipes"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/topology/steptime"
)

// TestReplay holds the whole replay against the aims: what a planner that ranks as tuned practice does should reach. It
// prices about 200 questions, half a minute of CPU.
func TestReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("prices 200 questions")
	}
	r, err := Replay(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	keepsToSchema(t, r)
	l := &r.Legality
	if l.Inconsistent != 9 || l.Refused != l.Inconsistent || l.Consistent < 550 || l.Legal != l.Consistent {
		t.Errorf("legality %+v, want all 9 inconsistent records refused and all others legal", *l)
	}
	groups := make(map[string]ReplayGroup)
	for _, g := range r.Groups() {
		groups[g.Name] = g
		t.Logf("%-15s %3d rows, fits %3d, tight %2d; within 5/10/20 %%: as is %.2f, pinned %.2f, mesh %.2f; first 1/5/10: %.2f, free %.2f; time error %.2f of %d",
			g.Name, g.Rows, g.Fits, g.Tight, g.AsIs.Within, g.AsIsPinned.Within, g.Mesh.Within, g.Top, g.TopFree, g.TimeError, g.Timed)
	}
	readmeHas(t, groups)
	all, overlap := groups["all MoE"], groups["EP overlap on"]
	for _, aim := range []struct {
		what       string
		got, least float64
	}{
		{"tuned MoE layouts that fit", float64(all.Fits) / float64(all.Rows), 0.94},
		{"mesh within 10 % of our best", all.Mesh.Within[1], 0.75},
		{"mesh within 20 %", all.Mesh.Within[2], 0.90},
		{"mesh within 10 %, EP overlap on", overlap.Mesh.Within[1], 0.92},
		{"mesh in our first ten", all.Top[2], 0.65},
		{"mesh in our first ten, EP overlap on", overlap.Top[2], 0.88},
		{"anchor pairs in order", float64(r.Pairs[0].Right) / float64(r.Pairs[0].Pairs), 0.97},
		{"pairs of the folding paper in order", float64(r.Pairs[1].Right) / float64(r.Pairs[1].Pairs), 1},
	} {
		if aim.got < aim.least || math.IsNaN(aim.got) {
			t.Errorf("%s: %.3f, the aim is %.2f", aim.what, aim.got, aim.least)
		}
	}
	// The aims of the project name MoE models and no exception. With Mamba and gated delta nets, whose time is not fitted to
	// measurements, the share within 20 % is missed; the README and the command say so.
	with := groups["MoE with these"]
	if with.Rows != all.Rows+groups["Mamba, GDN"].Rows || with.Mesh.Within[1] < 0.75 {
		t.Errorf("with Mamba and gated delta nets: %d rows, within 10 %% %.3f, the aim is 0.75", with.Rows, with.Mesh.Within[1])
	}
	if with.Mesh.Within[2] >= 0.90 {
		t.Errorf("with Mamba and gated delta nets %.3f are within 20 %%: the aim is reached now, say so in the README", with.Mesh.Within[2])
	}
	if r.Pairs[0].Pairs < 60 || r.Pairs[1].Pairs != 33 {
		t.Errorf("%d anchor pairs and %d of the paper, want about 64 and 33", r.Pairs[0].Pairs, r.Pairs[1].Pairs)
	}
	if all.Rows < 130 {
		t.Errorf("%d tuned layouts, want about 140: records were lost", all.Rows)
	}
	for i := range r.Rows { // in JSON null is unknown, never 0
		row := &r.Rows[i]
		if priced := row.Grade != ""; priced != (row.PeakGiB != nil) || priced != (row.StepSeconds != nil) || priced && !(*row.PeakGiB > 0 && *row.StepSeconds > 0) {
			t.Errorf("%s: grade %q with peak %v and step %v", row.ID, row.Grade, row.PeakGiB, row.StepSeconds)
		}
		if row.Place != nil && (*row.Place < 1 || *row.Place > *row.Meshes) || row.PlaceFree != nil && *row.PlaceFree < 1 {
			t.Errorf("%s: place %v of %v, free %v", row.ID, row.Place, row.Meshes, row.PlaceFree)
		}
	}
	for _, row := range r.Worst(20) {
		if row.Verdict == "" {
			t.Logf("%s %s is %.0f %% behind our best, among the worst twenty, and nobody has looked at it: %s against %s",
				row.ID, row.MeshText, 100*(*row.Mesh-1), row.BestOfMesh, row.Best)
		}
	}
}

// readmeHas holds the table of the README against the replay, row by row.
func readmeHas(t *testing.T, groups map[string]ReplayGroup) {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	percent := func(shares ...float64) string {
		var text []string
		for _, x := range shares {
			text = append(text, fmt.Sprintf("%.0f", 100*x))
		}
		return strings.Join(text, "/") + " %"
	}
	for _, row := range [][2]string{
		{"H100", "h100"}, {"B200", "b200"}, {"B300", "b300"}, {"GB200", "gb200"}, {"GB300", "gb300"}, {"all MoE", "all MoE"},
		{"of them with EP overlap", "EP overlap on"}, {"Mamba, gated delta net", "Mamba, GDN"}, {"MoE with these", "MoE with these"}, {"dense", "dense"},
	} {
		g := groups[row[1]]
		want := fmt.Sprintf("| %s | %d | %s | %s | %s | %s |", row[0], g.Rows, percent(float64(g.Legal)/float64(g.Rows)),
			percent(float64(g.Fits)/float64(g.Rows)), percent(g.Mesh.Within[:]...), percent(g.Top[:]...))
		if !strings.Contains(string(readme), want+"\n") {
			t.Errorf("README.md has no row %s", want)
		}
	}
}

// TestVerdictsNameRecords: a verdict or an exclusion of a record that does not exist would never be seen.
func TestVerdictsNameRecords(t *testing.T) {
	for _, table := range []map[string]string{apart, verdicts} {
		for id := range table {
			if recipes.Lookup(id) == nil {
				t.Errorf("no record %s", id)
			}
		}
	}
}

func TestQuestions(t *testing.T) {
	for _, c := range []struct {
		reason, id, skipped string
		check               func(*question) bool
	}{
		{"software, precision and optimizer of an executed recipe", "r0019", "", func(q *question) bool {
			return q.software.Dispatcher == layout.HybridEP && q.software.EPOverlap && q.software.Graph == steptime.FullIteration &&
				q.software.Since2606 && q.layout.Precision == layout.MXFP8 && q.layout.VPP == 8 &&
				q.memory.GradientBytes == 2 && q.memory.MomentBytes == 2 && q.memory.PrecisionAware && q.memory.CrossEntropy == memmodel.TEFusedBF16CE
		}},
		{"a table row has the software and the optimizer of its recipe", "r0741", "", func(q *question) bool {
			return q.software.EPOverlap && q.software.Graph == steptime.FullIteration && q.memory.GradientBytes == 2 && q.memory.MomentBytes == 2
		}},
		{"a layout string decides VPP and MTP", "r0010", "", func(q *question) bool {
			return q.layout.VPP == 4 && q.model.MTPNumLayers == 1 && q.layout.Split.Cells[15].Decoders == 1
		}},
		{"recompute that is not stated is chosen", "r1030", "", func(q *question) bool { return q.anyRecompute }},
		{"an unstated dispatcher on B200 before 26.04", "r1025", "", func(q *question) bool { return q.software.Dispatcher == layout.AllToAll }},
		{"the optimizer of the recipe: matrices dealt to ranks under Muon", "r0071", "", func(q *question) bool {
			return q.memory.Optimizer == memmodel.Muon && q.memory.LayerWise && !q.memory.DistributedOptimizer
		}},
		{"a spill buffer is no offload", "r0019", "", func(q *question) bool { return !q.offload }},
		{"optimizer state on the host is", "r1050", "", func(q *question) bool { return q.offload }},
		{"a model that the catalogue does not have", "r0433", "the catalogue has no such model", nil},
		{"fully sharded", "r1096", "FSDP", nil},
	} {
		q, why := asked(recipes.Lookup(c.id))
		if why != c.skipped || (q == nil) != (c.skipped != "") {
			t.Errorf("%s: %q, want %q", c.reason, why, c.skipped)
			continue
		}
		if q != nil && !c.check(q) {
			t.Errorf("%s: %s: %v, %+v, %+v", c.reason, c.id, q.layout, q.software, q.memory)
		}
	}
}

func TestCountPairs(t *testing.T) {
	runs := []measuredRun{
		{"a", "1", 100, 10}, {"a", "2", 104, 9}, {"a", "3", 200, 9.5}, {"a", "4", 50, 12}, {"b", "5", 1000, 1},
	}
	p := count("test", runs, 0.05)
	// 1-2 is too close; 1-3, 2-3 and those with 4 count; 5 asks another question.
	if p.Pairs != 5 || p.Right != 1 || len(p.Wrong) != 4 || !strings.Contains(p.Wrong[0], "3 measured 200, 1 100") {
		t.Errorf("%+v", p)
	}
}

func TestSpread(t *testing.T) {
	s := spreadOf([]float64{1.3, 1, 1.05, 1.1})
	if math.Abs(s.Median-1.075) > 1e-12 || s.Within != [3]float64{0.5, 0.75, 0.75} {
		t.Errorf("%+v", s)
	}
	if s := spreadOf(nil); !math.IsNaN(s.Median) {
		t.Errorf("of nothing: %+v", s)
	}
}

// TestReplayWorkers: the outcome does not depend on the number of goroutines. One small question stands for all.
func TestReplayWorkers(t *testing.T) {
	q, _ := asked(recipes.Lookup("r1301"))
	a, err := q.replay(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	b, _ := q.replay(context.Background())
	if *a.Mesh != *b.Mesh || a.Best != b.Best || *a.Place != *b.Place || !slices.Equal(a.Refused, b.Refused) {
		t.Errorf("%+v, then %+v", a, b)
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Replay(canceled, 1); err == nil {
		t.Error("a canceled replay ended without an error")
	}
}
