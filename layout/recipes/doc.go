// Package recipes holds the training layouts that NVIDIA and two papers published: 926 records of which model ran
// on how many GPUs of which kind with which layout, and what it reached, where that was measured.
//
// Start with Find, which searches them, or Nearest, which names the record closest to a layout of one's own.
//
// A record repeats what its source states and nothing else: a size of 0 and an empty text are "not stated". The
// same layout often appears in several records (a recipe, a table row of each release, a verification card).
// Software of a table row is that of the recipe the row is matched with, as of Megatron-Bridge 067f987df, and
// may be newer than the measurement; the row's container says when it was measured.
//
// The package knows spellings, not prices: whether a published layout fits or is fast is for layout/plan to say.
package recipes
