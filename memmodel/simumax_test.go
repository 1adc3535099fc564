package memmodel

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

type simumaxRow struct {
	ID     string  `json:"id"`
	PPRank int     `json:"pp_rank"`
	Peak   float64 `json:"peak_mib"`
	Config struct {
		Layers                int `json:"num_layers"`
		Dense                 int `json:"dense_layers"`
		Hidden                int `json:"hidden"`
		FFN                   int `json:"ffn"`
		MoEFFN                int `json:"moe_ffn"`
		SharedFFN             int `json:"shared_ffn"`
		Experts, TopK         int
		Heads                 int `json:"heads"`
		KVGroups              int `json:"kv_groups"`
		HeadDim               int `json:"head_dim"`
		Vocab                 int `json:"vocab_padded"`
		TP, PP, CP, EP, World int
		Seq                   int    `json:"seq_length"`
		MLA                   bool   `json:"mla"`
		QLora                 int    `json:"q_lora"`
		KVLora                int    `json:"kv_lora"`
		QKNope                int    `json:"qk_nope"`
		QKRope                int    `json:"qk_rope"`
		VDim                  int    `json:"v_dim"`
		CPComm                string `json:"cp_comm_type"`
	} `json:"config"`
}

// model builds the sliced architecture of a row.
func (r *simumaxRow) model() *arch.Model {
	c := &r.Config
	m := &arch.Model{
		ID: r.ID, Kind: arch.GPT, NumLayers: c.Layers, HiddenSize: c.Hidden, FFNHiddenSize: c.FFN,
		NumAttentionHeads: c.Heads, NumQueryGroups: c.KVGroups, KVChannels: c.HeadDim,
		VocabSize: c.Vocab, MakeVocabSizeDivisibleBy: 1,
		Activation: arch.SwiGLU, Normalization: arch.RMSNorm,
	}
	if c.MLA {
		m.MLA = &arch.MLA{QLoraRank: c.QLora, KVLoraRank: c.KVLora, QKHeadDim: c.QKNope, QKPosEmbHeadDim: c.QKRope, VHeadDim: c.VDim}
		m.QKNorm = arch.MLALatentNorm
	}
	if c.Experts > 0 {
		m.MoE = &arch.MoE{NumExperts: c.Experts, TopK: c.TopK, FFNHiddenSize: c.MoEFFN, SharedFFNSize: c.SharedFFN,
			LayerFreq: arch.LayerFreq(fmt.Sprintf("([0]*%d+[1]*%d)", c.Dense, c.Layers-c.Dense))}
	}
	return m
}

// TestSimuMaxPeaks compares with the 23 distinct per-stage peaks measured on B200.
func TestSimuMaxPeaks(t *testing.T) {
	data, err := os.ReadFile("testdata/simumax_b200.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Rows []simumaxRow }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Rows) != 23 {
		t.Fatalf("%d rows, want the 23 distinct peaks", len(file.Rows))
	}
	worst := 0.0
	for i := range file.Rows {
		r := &file.Rows[i]
		c := &r.Config
		m := r.model()
		l := layout.Layout{
			Degrees: folding.Degrees{World: c.World, TP: c.TP, CP: c.CP, PP: c.PP, EP: max(c.EP, 1), ETP: 1},
			VPP:     1, MicroBatchSize: 1, SeqLength: c.Seq, SequenceParallel: c.TP > 1,
		}
		if c.Experts == 0 {
			l.ETP = c.TP
		}
		l.GlobalBatchSize = 4 * l.DP()
		l.Split = evenStages(c.Layers, c.PP)

		run := DefaultRun(100)
		run.CrossEntropy = TEFusedBF16CE
		run.CPAllToAll = c.CPComm == "a2a"
		run.TorchWorkspace = 8*mib + 128*kib // the container is of the older kind: memory-findings.md C1
		e, err := New(m, run)
		if err != nil {
			t.Fatal(err)
		}
		stages, err := e.Estimate(&l)
		if err != nil {
			t.Fatal(err)
		}
		s := stages[r.PPRank]
		got := float64(s.PeakAllocated) / float64(mib)
		off := 100 * (got - r.Peak) / r.Peak
		worst = math.Max(worst, math.Abs(off))
		t.Logf("%-42s stage %d: %9.1f MiB measured, %9.1f predicted (%+.2f %%, %+.0f MiB)", r.ID, r.PPRank, r.Peak, got, off, got-r.Peak)
		if math.Abs(off) > 0.3 {
			t.Errorf("%s stage %d is off by %.2f %%; the issue asks for 1 %%, 0.3 %% was reached", r.ID, r.PPRank, off)
		}
	}
	t.Logf("worst %.2f %%", worst)
}

// evenStages puts the same number of layers on each of pp stages.
func evenStages(layers, pp int) *layout.Split {
	s := &layout.Split{PP: pp, VPP: 1, Cells: make([]layout.Cell, pp)}
	for r := range s.Cells {
		s.Cells[r] = layout.Cell{Embedding: r == 0, First: r * layers / pp, Decoders: layers / pp, Loss: r == pp-1}
	}
	return s
}
