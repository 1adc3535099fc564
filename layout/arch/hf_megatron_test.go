package arch_test

import (
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
)

// TestHFFlagsAreReadBack: the flags of an imported model are flags of Megatron-LM, and stand for the same model.
func TestHFFlagsAreReadBack(t *testing.T) {
	for _, m := range arch.All() {
		imported, _, err := arch.FromHF(strings.NewReader(arch.HFText(m)), m.HFID)
		if err != nil {
			t.Error(err)
			continue
		}
		argv := append([]string{"--micro-batch-size", "1", "--seq-length", "4096", "--max-position-embeddings", "4096"}, imported.MegatronFlags...)
		settings, err := megatron.Parse(argv, megatron.Main)
		if err != nil {
			t.Errorf("%s: %v", m.ID, err)
			continue
		}
		resolved, err := megatron.Resolve(settings, 1, nil)
		if err != nil {
			t.Errorf("%s: %v", m.ID, err)
			continue
		}
		read, err := megatron.Model(resolved)
		if err != nil {
			t.Errorf("%s: %v", m.ID, err)
			continue
		}
		total, active := read.Parameters()
		wantTotal, wantActive := m.Parameters()
		if total != wantTotal || active != wantActive || read.MTPNumLayers != m.MTPNumLayers {
			t.Errorf("%s: %d and %d parameters, %d MTP layers, want %d, %d and %d", m.ID, total, active, read.MTPNumLayers, wantTotal, wantActive, m.MTPNumLayers)
		}
	}
}
