package steptime

import "fmt"

// Factors stretch four parts of a step to one machine: a time that the model gives is multiplied by its factor. 0 stands for
// 1, no change. Package topology/steptime/calibrate fits them to measured steps.
type Factors struct {
	Compute float64 `json:"compute"` // kernels: GEMMs, attention, memory-bound ones, the optimizer's step
	NVLink  float64 `json:"nvlink"`  // bytes inside a domain
	NIC     float64 `json:"nic"`     // bytes between domains
	Host    float64 `json:"host"`    // launches and syncs of the host
}

// MaxFactor bounds a factor, and 1/MaxFactor from below: beyond it the machine is not the one that was named.
const MaxFactor = 4

// ordered is the factors with 1 for what is not set.
func (f Factors) ordered() [4]float64 {
	out := [4]float64{f.Compute, f.NVLink, f.NIC, f.Host}
	for i := range out {
		if out[i] == 0 {
			out[i] = 1
		}
	}
	return out
}

// Check refuses factors that are no factors.
func (f Factors) Check() error {
	names := [4]string{"compute", "nvlink", "nic", "host"}
	for i, x := range f.ordered() {
		if !(x >= 1.0/MaxFactor && x <= MaxFactor) {
			return fmt.Errorf("step time: the %s factor %g does not lie between %g and %d", names[i], x, 1.0/MaxFactor, MaxFactor)
		}
	}
	return nil
}

// apply changes the machine; the host's factor is the estimator's.
func (f Factors) apply(h *hardware) {
	x := f.ordered()
	h.bf16, h.hbm = h.bf16/x[0], h.hbm/x[0]
	h.nvlink, h.nic = h.nvlink/x[1], h.nic/x[2]
}
