package steptime

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology"
)

// goldenFile is testdata/golden.json: what the notes' own model predicts for 84 published runs, and what was
// measured.
type goldenFile struct {
	Source string      `json:"source"`
	Rows   []goldenRow `json:"rows"`
}

type goldenRow struct {
	Config       anchorConfig       `json:"config"`
	Step         float64            `json:"step_s"`
	Intra        float64            `json:"ep_bytes_intra"`
	Inter        float64            `json:"ep_bytes_inter"`
	Microbatches int                `json:"n_microbatches"`
	Bubble       float64            `json:"bubble_fraction"`
	Stage        float64            `json:"stage_fwd_bwd_s"`
	DP           float64            `json:"dp_comm_s"`
	Optimizer    float64            `json:"optimizer_s"`
	Layer        map[string]float64 `json:"layer_ms"`
}

func readGolden(t testing.TB) goldenFile {
	t.Helper()
	var f goldenFile
	if err := json.Unmarshal(anchorsJSON, &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Rows) != 84 {
		t.Fatalf("%d golden rows, want 84", len(f.Rows))
	}
	return f
}

// platform is a platform of the catalogue, with a NIC rate in GB/s unless that is 0.
func platform(t testing.TB, id string, nic float64) *topology.Platform {
	t.Helper()
	p, err := topology.LookupPlatform(id)
	if err == nil && nic > 0 {
		p, err = p.With(topology.Override{Figure: topology.FigureNIC, Value: 8 * nic})
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func testModel(t testing.TB, name string) *arch.Model {
	t.Helper()
	m, err := anchorModel(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// evenLayers is the split with as many decoder layers on every chunk as goes, the rest on the first ones,
// embedding first, MTP and loss last.
func evenLayers(m *arch.Model, pp, vpp int) *layout.Split {
	s := &layout.Split{PP: pp, VPP: vpp, Cells: make([]layout.Cell, pp*vpp)}
	cells, first := len(s.Cells), 0
	for i := range s.Cells {
		n := m.NumLayers / cells
		if i < m.NumLayers%cells {
			n++
		}
		s.Cells[i] = layout.Cell{First: first, Decoders: n}
		first += n
	}
	s.Cells[0].Embedding = true
	s.Cells[cells-1].Loss = true
	s.Cells[cells-1].MTP = m.MTPNumLayers
	return s
}

func (r *goldenRow) layout(t testing.TB, m *arch.Model) (layout.Layout, Software) {
	t.Helper()
	l, sw, err := r.Config.layout()
	if err != nil {
		t.Fatal(err)
	}
	l.Split = evenLayers(m, l.PP, l.VPP)
	return l, sw
}

func (r *goldenRow) estimator(t testing.TB, m *arch.Model, run Run) *Estimator {
	t.Helper()
	e, err := New(m, platform(t, r.Config.Platform, r.Config.NIC), run)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestGolden reproduces every component of the notes' model with all corrections off.
//
// Tolerances: layer times are recorded to 0.1 us, hence half of that beside 1e-5; all else 1e-6.
func TestGolden(t *testing.T) {
	run := DefaultRun()
	run.Corrections = Corrections{}
	worst := map[string]float64{}
	for _, r := range readGolden(t).Rows {
		c := &r.Config
		m := testModel(t, c.Model)
		e := r.estimator(t, m, run)
		l, sw := r.layout(t, m)
		check := func(name string, got, want, tolerance float64) {
			t.Helper()
			diff := math.Abs(got - want)
			if want != 0 {
				worst[name] = max(worst[name], diff/want)
			}
			if diff > tolerance || math.IsNaN(got) {
				t.Errorf("%s: %s = %.9g, the notes' model has %.9g", c.ID, name, got, want)
			}
		}
		exact := func(name string, got, want float64) { t.Helper(); check(name, got, want, 1e-6*math.Abs(want)) }

		place, ok := e.place(&l)
		if !ok {
			t.Fatalf("%s: no placement", c.ID)
		}
		k := e.task(&l, sw, place)
		var y layerTime
		kind := denseKind
		if m.MoE != nil {
			kind = moeKind
		}
		e.layer(&k, &y, &contents[kind], k.full)
		parts := map[string]float64{
			"proj": y.proj, "mla_up": y.up, "core": y.core, "mem_attn": y.attnMemory, "mem_moe": y.ffnMem,
			"exp": y.experts, "exp_w": y.expWgrad, "shared": y.shared, "mlp": y.mlp, "rc": y.recompute,
			"comp": y.compute, "ep": y.exchanges * y.dispatch.seconds, "ep_exp": y.exposed[EP],
			"tp": y.exposed[TP], "cp": y.exposed[CP], "host": y.launch, "tot": y.total,
		}
		for name, want := range r.Layer {
			check("layer "+name, 1e3*parts[name], want, 0.5001e-4+1e-5*want)
		}
		exact("ep bytes intra", y.dispatch.intra, r.Intra)
		exact("ep bytes inter", y.dispatch.inter, r.Inter)

		p := e.Price(&l, sw)
		if !p.Known {
			t.Errorf("%s: %v", c.ID, p.Notes.Texts())
			continue
		}
		if p.Microbatches != r.Microbatches {
			t.Errorf("%s: %d micro-batches, want %d", c.ID, p.Microbatches, r.Microbatches)
		}
		exact("bubble", p.BubbleFraction, r.Bubble)
		exact("stage", p.StageSeconds, r.Stage)
		exact("optimizer", p.Optimizer-fixedTail, r.Optimizer)
		if c.NIC > 0 {
			// The notes' override of the NIC rate reaches EP and PP only, ours all axes.
			c.NIC = 0
			other := r.estimator(t, m, run).Price(&l, sw)
			for _, a := range []Axis{DP, EDP} {
				p.Step += other.Communication[a].Exposed - p.Communication[a].Exposed
				p.Communication[a] = other.Communication[a]
			}
		}
		exact("dp", p.Communication[DP].Seconds+p.Communication[EDP].Seconds, r.DP)
		exact("step", p.Step, r.Step)
	}
	for _, name := range slices.Sorted(maps.Keys(worst)) {
		t.Logf("%-15s largest relative difference %.2g", name, worst[name])
	}
}
