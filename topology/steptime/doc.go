// Package steptime estimates how long one training step of a layout takes, and where the time goes.
//
// For most uses: [New] once per model, GPU kind and run, then [Estimator.Price] for every layout, with the
// software side that [BringUp] or [Estimator.Tuned] gives. Price is a pure function of its arguments: it
// allocates nothing, takes microseconds and may be called from any number of goroutines.
//
//	est, err := steptime.New(model, platform, steptime.DefaultRun())
//	now := est.Price(&l, steptime.BringUp())
//	tuned := est.Price(&l, est.Tuned(&l))
//
// # The model
//
//	step  = passes + exposed DP and EDP collectives + optimizer + fixed tail
//	passes = (m + (PP-1)/VPP) * (stage + p2p), if all chunks of the pipeline are alike
//	stage = the slowest pipeline rank: its layers, output heads and MTP layers
//	layer = ((compute + exposed EP, ETP, TP, CP + gap)^4 + host^4)^(1/4)
//
// m is the number of micro-batches. Chunks that differ make stages wait for each other. The passes then take what the
// longest path through them takes in the order of 1F1B: in closed form where each stage has one chunk, else by a recurrence
// over the slots of the schedule. Both come from the schedule alone, and no measurement is known that would test them.
//
// A layer is either bound by its kernels and exposed communication or by
// the host that launches them; the fourth-power mean joins the two. Volumes of communication and where they
// travel are counted exactly; how fast the links and kernels are is fitted, once, to 84 published
// measurements ([Calibration] says which). Every such number is in constants.go and nowhere else.
//
// Formulas are those of the moeplan research notes, "comm-model" sections 1 to 4, which cite Megatron-LM,
// TransformerEngine, DeepEP and nccl-tests for the counting. The notes' own model left 84 priced rows
// (testdata/golden.json); with all [Corrections] off this package reproduces every component of every row.
// The corrections are what later study found wrong or missing in it ("ranking-findings" section 3).
//
// # What it is good for
//
// Ranking. Median error against the 84 points is about 6 %, one in ten is off by more than 17 %
// ([Price.Band] is +-15 %), and two layouts closer than 5 % are not distinguishable ([Distinguishable]). No
// measured point exists for ETP > 1, the allgather dispatcher, TP across NVLink domains, and the GPU kinds
// other than H100, B200, B300, GB200 and GB300: such a price carries a note ([Notes]).
// Mamba and gated delta net layers are counted, with one constant set by hand to published steps. Not modelled: FSDP, token
// dropping, activation offload, data loading, checkpointing; and models with both kinds of such layers ([UnsupportedError]).
//
// # Conventions
//
// Times are seconds, volumes bytes, both per rank; a collective's bytes are what leaves one rank. Rates are
// GB/s = 1e9 bytes per second and one direction. A domain is the set of GPUs joined by NVLink.
package steptime
