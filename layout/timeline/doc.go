// Package timeline lays one training step of a layout out in time: which pass of which micro-batch runs when on every
// pipeline rank, when neighbours exchange, and how much each rank has allocated meanwhile.
//
// It puts two things together that other packages know and prices nothing itself: the order of a rank's passes and
// their memory (memmodel), and how long each takes (steptime). What it adds is who waits for whom: a forward pass for the
// stage before, a backward pass for the stage behind, the optimizer for everybody.
//
//	t, err := timeline.Of(memory, time, &l, steptime.BringUp())
//	t.WriteChrome(w, "title") // for https://ui.perfetto.dev or chrome://tracing
//
// The step that comes out is Price.Step where stages have one chunk each or all chunks are alike, and within 1 % of it
// elsewhere: the price plays the same order of passes through, but not every rank of a long pipeline nor every group of
// micro-batches of a long step (Timeline.Priced stands beside Timeline.Seconds).
package timeline
