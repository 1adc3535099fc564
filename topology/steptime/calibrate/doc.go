// Package calibrate adapts the step-time model to one machine from a handful of measured steps.
//
// Only four factors are fitted ([steptime.Factors]): compute, NVLink, network and host. Everything else of the model stays,
// so that a few runs suffice and a fitted number keeps a meaning: a network factor of 1.3 says that bytes between domains
// take 1.3 times as long as on the published machines.
//
//	fit, err := calibrate.Fit(runs)
//	fit.Factors  // for steptime.Run
//	fit.Before, fit.LeftOut // the errors without the fit, and of each run when the others alone were fitted
//
// The fit minimises a soft-L1 loss on the logarithm of the step time, with a prior on each factor's logarithm around 0, by
// Nelder and Mead's simplex (A simplex method for function minimization, The Computer Journal 7, 1965), from gonum. A factor
// that no run's time depends on stays exactly 1.
package calibrate
