package megatron

import (
	"strings"
	"testing"
)

// BenchmarkCheck judges a legal command line, and one with three errors with and without their repairs.
func BenchmarkCheck(b *testing.B) {
	legal := strings.Fields(bases['E'] + " --tensor-model-parallel-size 2 --sequence-parallel --expert-tensor-parallel-size 1 --expert-model-parallel-size 4 --pipeline-model-parallel-size 4")
	broken := append(strings.Fields(strings.Join(legal, " ")), "--global-batch-size", "63", "--expert-model-parallel-size", "3", "--recompute-granularity", "full")
	for _, c := range []struct {
		name    string
		argv    []string
		repairs bool
	}{{"legal", legal, true}, {"broken", broken, false}, {"repaired", broken, true}} {
		b.Run(c.name, func(b *testing.B) {
			s, err := Parse(c.argv, Main)
			if err != nil {
				b.Fatal(err)
			}
			r, err := Resolve(s, 64, map[string]string{connections: "1"})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				Check(r, CheckSettings{NoRepairs: !c.repairs})
			}
		})
	}
}

// BenchmarkCheckHuge: sizes as large as are read cost no more than milliseconds.
func BenchmarkCheckHuge(b *testing.B) {
	for name, words := range map[string]string{
		"stages": " --pipeline-model-parallel-size 1048576 --num-layers 1048576", "ranks": " --use-tp-pp-dp-mapping --tensor-model-parallel-size 1024 --pipeline-model-parallel-size 32",
		"layers": " --num-layers 16384 --pipeline-model-parallel-size 16", "experts": " --num-experts 1048576 --expert-model-parallel-size 1048576",
	} {
		b.Run(name, func(b *testing.B) {
			s, err := Parse(strings.Fields(bases['E']+words), Main)
			if err != nil {
				b.Fatal(err)
			}
			r, err := Resolve(s, 1<<20, nil)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				Check(r, CheckSettings{})
			}
		})
	}
}
