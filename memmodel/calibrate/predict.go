package calibrate

import (
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/memmodel"
	"github.com/moeplan/moeplan/memmodel/launch"
)

// Prediction is what memmodel says about one record.
type Prediction struct {
	Setup launch.Setup
	Stage memmodel.Stage // the recorded one, the last; of a maximum over ranks the one with the largest peak
}

// generation is the compute capability of the GPUs in the records; an unnamed one is taken for an A100.
func (r *Record) generation() int {
	switch r.GPU {
	case "H100", "H800", "H200":
		return 90
	case "B200", "GB200", "GB300":
		return 100
	}
	return 80
}

// Predict prices a record's run: its command line under the hardware and software that the record names.
func (r *Record) Predict() (Prediction, error) {
	argv, adjust := r.Argv, (func(*memmodel.Run))(nil)
	if p, ok := figures[r.ID]; ok {
		var err error
		if argv, err = p.argv(); err != nil {
			return Prediction{}, fmt.Errorf("%s: %w", r.ID, err)
		}
		adjust = p.adjust
	}
	settings, err := megatron.Parse(argv, megatron.Main)
	if err != nil {
		return Prediction{}, fmt.Errorf("%s: %w", r.ID, err)
	}
	resolved, err := megatron.Resolve(settings, r.World, r.Env)
	if err != nil {
		return Prediction{}, fmt.Errorf("%s: %w", r.ID, err)
	}
	setup, err := launch.Read(resolved, r.hardware())
	if err != nil {
		return Prediction{}, fmt.Errorf("%s: %w", r.ID, err)
	}
	if adjust != nil {
		adjust(&setup.Run)
	}
	if !r.maximum() { // the last rank is the last of its data parallel group
		setup.Run.OptimizerRank = setup.Layout.DP() * setup.Layout.CP
	}
	e, err := memmodel.New(setup.Model, setup.Run)
	if err != nil {
		return Prediction{}, fmt.Errorf("%s: %w", r.ID, err)
	}
	stages, err := e.Estimate(&setup.Layout)
	if err != nil {
		return Prediction{}, fmt.Errorf("%s: %w", r.ID, err)
	}
	p := Prediction{setup, stages[len(stages)-1]}
	if r.maximum() {
		for _, s := range stages {
			if s.PeakAllocated > p.Stage.PeakAllocated {
				p.Stage = s
			}
		}
	}
	return p, nil
}

// maximum reports whether the measurement is the largest over all ranks instead of that of the last one.
func (r *Record) maximum() bool { return !strings.HasPrefix(r.Kind, "megatron-") }

// olderWorkspace is PyTorch's cuBLAS workspace in older containers on Blackwell (memory-findings.md C1).
const olderWorkspace = 8<<20 + 128<<10

// hardware is what a record's command line does not say.
func (r *Record) hardware() launch.Hardware {
	h := launch.Hardware{SM: r.generation(), TEFusedCE: memmodel.TEFusedCE}
	if r.older() {
		h.Attention = memmodel.UnfusedAttention
	}
	if olderContainer[r.ID] {
		h.TorchWorkspace = olderWorkspace
	}
	if strings.HasPrefix(r.Kind, "simumax") { // TE 2.11 and cuDNN's attention, as its summary and log say
		h.TEFusedCE, h.TorchWorkspace = memmodel.TEFusedBF16CE, olderWorkspace
	}
	return h
}
