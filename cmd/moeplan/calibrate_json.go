package main

import "github.com/moeplan/moeplan/topology/steptime/calibrate"

// calibratedJSON is what calibrate -o json prints.
type calibratedJSON struct {
	GPU string `json:"gpu"` // platform of all runs
	// Factors are what the times of four parts of a step are multiplied by; 1 where no run depends on the part.
	Factors calibratedFactors `json:"factors"`
	Runs    []calibratedRun   `json:"runs"` // in the order of the file
	// Before, After and LeftOut are the sizes of the relative errors: without factors, with those fitted to all runs, and of
	// each run with those fitted to all others.
	Before  calibratedErrors `json:"before"`
	After   calibratedErrors `json:"after"`
	LeftOut calibratedErrors `json:"left_out"`
	// Better says that runs which were left out are predicted better with the fit; only then a file is written.
	Better bool `json:"better"`
	// File is what was written; null if nothing was.
	File *string `json:"file"`
}

// calibratedFactors are factors of times; 1.2 is a fifth slower than published machines.
type calibratedFactors struct {
	Compute calibratedFactor `json:"compute"` // kernels
	NVLink  calibratedFactor `json:"nvlink"`  // bytes inside a domain
	NIC     calibratedFactor `json:"nic"`     // bytes between domains
	Host    calibratedFactor `json:"host"`    // launches and syncs
}

type calibratedFactor struct {
	Factor float64 `json:"factor"` // of the time
	Fitted bool    `json:"fitted"` // some run's time depends on this part
}

// calibratedRun is one run with its step times.
type calibratedRun struct {
	ID        string  `json:"id"`          // as given, or its line
	Measured  float64 `json:"measured_ms"` // as given
	BeforeMS  float64 `json:"before_ms"`   // predicted without factors
	AfterMS   float64 `json:"after_ms"`    // with those fitted to all runs
	LeftOutMS float64 `json:"left_out_ms"` // with those fitted to the other runs
}

// calibratedErrors are sizes of relative errors: 0.1 is a step predicted 10 % too long or too short.
type calibratedErrors struct {
	Mean   float64 `json:"mean"`   // of the sizes
	Median float64 `json:"median"` // of the sizes
	P90    float64 `json:"p90"`    // nine in ten are smaller
	Worst  float64 `json:"worst"`  // the largest size
}

func calibratedAsJSON(gpu string, f *calibrate.Fitted, file *string) *calibratedJSON {
	out := &calibratedJSON{GPU: gpu, Before: calibratedErrors(f.Before), After: calibratedErrors(f.After), LeftOut: calibratedErrors(f.LeftOut), Better: f.Better(), File: file,
		Factors: calibratedFactors{Compute: calibratedFactor{f.Factors.Compute, f.Seen[0]}, NVLink: calibratedFactor{f.Factors.NVLink, f.Seen[1]},
			NIC: calibratedFactor{f.Factors.NIC, f.Seen[2]}, Host: calibratedFactor{f.Factors.Host, f.Seen[3]}}}
	for _, r := range f.Rows {
		out.Runs = append(out.Runs, calibratedRun{r.ID, 1e3 * r.Measured, 1e3 * r.Before, 1e3 * r.After, 1e3 * r.LeftOut})
	}
	return out
}
