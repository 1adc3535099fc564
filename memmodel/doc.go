// Package memmodel predicts the bytes on every GPU of a Megatron-Core training run: one figure per pipeline
// stage, split into parameters' state, persistent workspaces, saved activations and transients, at the moment
// of the stage's peak.
//
// Start with New, which reads a model and the assumptions of a run (Run), then call Estimate for the full
// account of a layout or Peak, the same arithmetic without the account, which a search can call hundreds of
// thousands of times: it allocates nothing once it has seen a pipeline split. DefaultRun is the run that
// moeplan's own commands start; package launch reads one off a Megatron-LM command line. LayerTensors and Buffers
// name what a figure is made of.
//
// # How a stage is priced
//
//	allocated after a step = weights + gradients + optimizer + workspace + what the schedule still holds
//	peak allocated         = the larger of the step's own peak and of
//	                         static + max over the schedule of (saved activations + transient)
//
// kinds.go tells layers apart: a mixer (attention, Mamba, gated delta net) with a feedforward (dense, experts).
// parameters.go counts elements and buffers.go lays them out, state.go turns them into bytes (fsdp.go, muon.go for
// what shards otherwise), workspace.go adds what stays allocated besides. attention.go, recurrent.go, feedforward.go,
// experts.go and head.go name each tensor that a layer saves for backward; transient.go prices what lives only while one
// layer runs, schedule.go which micro-batches are in flight at once, residual.go what the schedule's variables hold,
// and stage.go puts them together. Recompute drops named tensors from the saved set and offload moves them; the parts
// are not additive, the set decides. device.go goes from there to what the card sees.
//
// # Where it comes from
//
// Formulas follow NVIDIA/Megatron-LM@d98e8a64dd and NVIDIA/TransformerEngine@d0067d0da as read for moeplan's
// research notes (memory-model.md, corrected by memory-findings.md, C1 to C24); each function says which
// part. Constants that were measured, fitted or assumed are in constants.go and say so. Package calibrate compares
// with 589 measurements; the tests of package launch with buffers and saved tensors that the framework itself made.
//
// # How sure it is
//
// State, buffers, warm-up counts and the saved tensors of attention, dense and expert layers are exact: they agree
// with recordings byte for byte. Measured peaks are almost all those of last stages, at the loss. Derived with no
// measurement: peaks of first and middle stages under large VPP, the transients of flex dispatchers, backward passes of
// attention. Assumed: gated delta nets, CUDA graph pools, everything outside the allocator.
//
// # Conventions
//
// Counts of elements and bytes are int64; sizes of a model or a layout are int. T is the tokens of one
// context-parallel rank (seq*mbs/cp), Ts those of one sequence-parallel shard (T/tp). GiB is 2^30 bytes.
package memmodel
