// Package calibrate holds memmodel against measurements: 589 published or recorded memory figures of real runs, embedded
// with their configuration and source.
//
// Validate is the way in: it predicts every record that says enough, groups the errors and returns a Report, which the
// command moeplan validate prints:
//
//	report := calibrate.Validate()
//	for _, g := range report.Groups { ... }
//
// # What is compared
//
// Most records are functional tests of Megatron-LM: each is ONE rank of the last pipeline stage. Memory after a step
// (allocated_current) is compared with Stage.AllocatedAfterStep, the peak before the first checkpoint is saved (else
// the last one) with Stage.PeakAllocated. Reserved memory is compared nowhere: those runs did not record it.
//
// A record says what it can be used for (Use). One that cannot is shown with its reason and never dropped; one that can
// only under an assumption (a container, a kernel) is a group of its own. Nothing in memmodel is fitted to single
// records; its few fitted constants say in constants.go to which set they belong.
//
// # What was chosen with the errors in view
//
// So the errors are in-sample. Files of resumed tests that name no GPU are taken to have run FlashAttention 2; the extra layer
// of merged steps under EP overlap counts away from the loss only; MTP layers keep their tensors under offload. The aim for
// selective recompute leaves CUDA graph runs to their own, that for EP overlap leaves out the run under Megatron-FSDP.
package calibrate
