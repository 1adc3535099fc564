// Package evidence reads what a run of a layout showed: logs, profiler traces and the contract under which it was measured.
//
// # What to call
//
// [ReadLog] turns the log of Megatron-LM (Core 0.11 to main) or Megatron-Bridge into memory reports per rank, iterations,
// out-of-memory errors and the few other lines that say what happened. [Verify] holds its memory against a prediction.
// [ReadContract] reads the frozen conditions of a measurement, [Assess] says what a log proves under them, and [Compare]
// and [Regress] put two runs side by side. [ReadTrace] measures communication and computation in a PyTorch profiler's trace
// as unions of intervals, [ReadExport] in an Nsight Systems export, and [Trace.Wall] names what the step waits for.
//
// # Units
//
// Bytes are integers. Megatron-LM's "memory (MB)" is MiB (2^20), Megatron-Bridge's "memory (GB)" is 1e9 rounded to five
// digits; both come out in bytes. Times are seconds in logs and nanoseconds in traces. A figure that the input does not
// hold is a [Value] that is not Known, and null in JSON; it is never 0.
//
// # What counts as evidence
//
// Only what a run did: a line that the framework prints when something happened, or a kernel that ran. That a
// configuration asks for a feature proves nothing. Times are never taken from a profiled run or one under the fake process
// group, and never from summing kernels that overlap.
//
// # Bounds
//
// Input is streamed: a line keeps its first 64 KiB, a log its last 131,072 iterations and reports of at most 65,536 ranks, a
// trace or export its first 2 million kernels (then *[LimitError]). gzip is recognised by its first bytes. A log or JSON that was
// cut gives what stands in it, without its unfinished last line; a database that was cut is an error.
//
// An export of 975 MB with a million kernels took 2 to 3 s of CPU and 365 MB (see BenchmarkReadExport in layout/evidence/oracle).
package evidence
