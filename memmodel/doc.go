// Package memmodel predicts the bytes on every GPU of a Megatron-Core training run: one figure per pipeline
// stage, split into parameters' state, persistent workspaces, saved activations and transients, at the moment
// of the stage's peak.
//
// Start with New, which reads a model and the assumptions of a run (Run), then call Estimate for the full
// account of a layout or Peak, the same arithmetic without the account, which a search can call hundreds of
// thousands of times: it allocates nothing once it has seen a pipeline split.
//
// # How a stage is priced
//
//	allocated after a step = weights + gradients + optimizer + workspace
//	peak allocated         = allocated after a step + max over the schedule of (saved activations + transient)
//
// parameters.go counts elements, state.go turns them into bytes, workspace.go adds what stays allocated
// besides, attention.go, feedforward.go and head.go name each tensor that a layer saves for backward,
// transient.go what lives only while one layer runs, schedule.go which micro-batches are in flight at once,
// and stage.go puts them together. Recompute drops named tensors from the saved set; the parts are not
// additive, the set decides.
//
// # Where it comes from
//
// Formulas follow NVIDIA/Megatron-LM@d98e8a64dd and NVIDIA/TransformerEngine@d0067d0da as read for moeplan's
// research notes (memory-model.md, corrected by memory-findings.md, C1 to C24); each function says which
// part. Constants that were measured or assumed are in constants.go, and nowhere else.
//
// # Conventions
//
// Counts of elements and bytes are int64; sizes of a model or a layout are int. T is the tokens of one
// context-parallel rank (seq*mbs/cp), Ts those of one sequence-parallel shard (T/tp). GiB is 2^30 bytes.
//
// Not modelled yet, and refused by name rather than guessed: hybrid (Mamba) and gated delta net layers,
// offload, FSDP, Muon.
package memmodel
