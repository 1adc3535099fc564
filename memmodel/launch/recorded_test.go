package launch

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/memmodel"
)

// load reads a recording of the framework.
func load(t *testing.T, name string, into any) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// setUp reads a recorded command line.
func setUp(t *testing.T, world, vocab int, argv ...string) (Setup, *memmodel.Estimator, *megatron.Resolved) {
	t.Helper()
	argv = append(argv, "--vocab-size", strconv.Itoa(vocab))
	settings, err := megatron.Parse(argv, megatron.Main)
	if err != nil {
		t.Fatal(err)
	}
	r, err := megatron.Resolve(settings, world, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Read(r, Hardware{SM: 80})
	if err != nil {
		t.Fatal(err)
	}
	e, err := memmodel.New(s.Model, s.Run)
	if err != nil {
		t.Fatal(err)
	}
	return s, e, r
}
