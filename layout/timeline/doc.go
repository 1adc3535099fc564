// Package timeline lays one training step of a layout out in time: which pass of which micro-batch runs when on every
// pipeline rank, when neighbours exchange, and how much each rank has allocated meanwhile.
//
// It puts two things together that other packages know and prices nothing itself: the order of a rank's passes and
// their memory (memmodel), and how long each takes (steptime). What it adds is who waits for whom: a forward pass for the
// stage before, a backward pass for the stage behind, the optimizer for everybody.
//
//	t, err := timeline.Of(memory, time, &l, steptime.BringUp())
//	t.WriteChrome(w) // for https://ui.perfetto.dev or chrome://tracing
//
// The step that comes out is not Price.Step to the last digit: the price adds the slowest stage's passes up and takes fill
// and drain at its pace. Here each stage fills at its own, which is less; and where the chunks of an interleaved pipeline
// differ, such as one with the loss and an MTP layer beside chunks of a single layer, every stage waits for the largest
// chunk in turn, which is more (measured nowhere; Timeline.Priced stands beside Timeline.Seconds). Stages and chunks that
// are alike give the price exactly.
package timeline
