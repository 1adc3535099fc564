// Package plan does the whole job: it enumerates the legal layouts of a model on a number of GPUs, prices the
// memory and the step time of each, drops what does not fit, and ranks the rest.
//
// Start with Search:
//
//	result, err := plan.Search(ctx, plan.Request{Model: model, Platform: h100, GPUs: 256})
//
// A Result holds the ranked plans, one per pair of meshes, what was searched and what cut the rest, and, when
// nothing fits, the nearest miss with the cheapest way out. Describe prices one layout that somebody else chose
// in the same terms.
//
// Describe, Judge, Size, Next, Diff and Timeline answer the other questions: one layout priced, a command line judged, a
// cluster sized, experiments proposed, two layouts compared, a step laid out in time. Everything here is safe for
// concurrent use, keeps no state between calls and stops with its context; the examples show each.
//
// It is the one package that knows all others below it, and it holds no formula of its own beyond the fit rule
// (fit.go) and the ranking rule (rank.go).
package plan
