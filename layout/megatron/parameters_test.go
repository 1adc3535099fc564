package megatron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/memmodel"
)

// parameterCase is a record of param_counts.
type parameterCase struct {
	recordedCommand
	Record, Vocab, Padded, VPP, Ranks int
	Error                             string
	Stages                            []struct {
		PP     int
		Chunks [][5]any
	}
}

// uncounted is what memmodel does not count: per layer with latent attention, --qk-layernorm and no q LoRA the norm of
// hidden size before the query projection, which is the recorder's stand-in and not in the TE spec (gpt_layer_specs.py: a
// plain column-parallel linear).
func uncounted(m *arch.Model, layers int) int64 {
	if m.MLA == nil {
		return 0
	}
	n := 0
	if m.QKNorm == arch.MLALatentNorm && m.MLA.QLoraRank == 0 {
		n += m.HiddenSize
		if m.Normalization == arch.LayerNorm {
			n += m.HiddenSize
		}
	}
	return int64(n * layers)
}

// The architecture and the layout read from a recorded command line give the same layers on every recorded rank and chunk,
// and the same dense and expert elements on every recorded rank.
func TestRecordedParameters(t *testing.T) {
	var file recordings[parameterCase]
	load(t, "parameters.json", &file)
	records, ranks, chunks, counted, known, empty := 0, 0, 0, 0, 0, 0
	for _, c := range file.Cases {
		argv := append(file.argv(c.recordedCommand), "--vocab-size", strconv.Itoa(c.Vocab))
		r := resolve(t, c.World, argv...)
		m, err := Model(r)
		if r.Shape.FFN == 0 && err != nil { // a hidden size of 16 makes a default of 0; no real model has one
			empty++
			continue
		}
		if err != nil {
			t.Errorf("record %d: model: %v", c.Record, err)
			continue
		}
		if c.Error != "" {
			if _, err := Layout(r); !errors.Is(err, ErrSplit) {
				t.Errorf("record %d: refused at %s, here %v", c.Record, c.Error, err)
			}
			continue
		}
		l, err := Layout(r)
		if err != nil {
			t.Errorf("record %d: layout: %v", c.Record, err)
			continue
		}
		records++
		ranks += c.Ranks
		if r.Shape.PaddedVocab != c.Padded || m.PaddedVocab(l.TP) != c.Padded || r.Pipeline.VPP != c.VPP {
			t.Errorf("record %d: padded vocabulary %d, %d, recorded %d; VPP %d, recorded %d", c.Record, r.Shape.PaddedVocab, m.PaddedVocab(l.TP), c.Padded, r.Pipeline.VPP, c.VPP)
		}
		estimator, err := memmodel.New(m, memmodel.DefaultRun(90))
		if err != nil {
			t.Errorf("record %d: %v", c.Record, err)
			continue
		}
		stages, err := estimator.Estimate(&l)
		if err != nil {
			t.Errorf("record %d: %v", c.Record, err)
			continue
		}
		for _, s := range c.Stages {
			var want memmodel.Elements
			layers := 0
			for chunk, held := range s.Chunks {
				cell := l.Split.Cell(s.PP, chunk)
				if got := describe(m, &cell); got != fmt.Sprint(held[:3]) {
					t.Errorf("record %d: stage %d chunk %d holds %s, recorded %v", c.Record, s.PP, chunk, got, held[:3])
				}
				want.Dense += int64(held[3].(float64))
				want.Expert += int64(held[4].(float64))
				chunks++
				layers += cell.Decoders + cell.MTP
			}
			got := stages[s.PP].Parameters
			switch missing := uncounted(m, layers); {
			case got.Dense == want.Dense && got.Expert == want.Expert:
				counted++
			case got.Dense+missing == want.Dense && got.Expert == want.Expert:
				known++
			default:
				t.Errorf("record %d: stage %d of %s: dense %d, recorded %d (%+d); expert %d, recorded %d (%+d)", c.Record, s.PP, l, got.Dense, want.Dense,
					got.Dense-want.Dense, got.Expert, want.Expert, got.Expert-want.Expert)
			}
		}
	}
	t.Logf("%d records, %d ranks, %d chunks of distinct stages, elements of %d stages exact, of %d but for the named parts; %d models refused for an MLP of width 0", records, ranks, chunks, counted, known, empty)
}

// describe writes what a cell holds as the recordings do.
func describe(m *arch.Model, c *layout.Cell) string {
	moe := []string{}
	kinds := m.Layers()
	first, last := 0, 0
	contiguous := true
	for i := c.First; i < c.First+c.Decoders; i++ {
		if kinds[i].Feedforward == arch.MoEMLP {
			moe = append(moe, strconv.Itoa(i+1))
			if first == 0 {
				first = i + 1
			}
			contiguous = contiguous && (last == 0 || last == i)
			last = i + 1
		}
	}
	text := strings.Join(moe, ",")
	if len(moe) > 0 && contiguous {
		text = fmt.Sprintf("%d-%d", first, last)
	}
	layers := ""
	if c.Decoders > 0 {
		layers = fmt.Sprintf("%d-%d", c.First+1, c.First+c.Decoders)
	}
	ends := ""
	if c.Embedding {
		ends = "E"
	}
	if c.Loss {
		ends += "L"
	}
	return fmt.Sprint([]any{layers, text, ends + strings.Repeat("m", c.MTP)})
}
