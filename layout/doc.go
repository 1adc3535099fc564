// Package layout says what a training layout is, whether Megatron accepts it, and which layouts there are.
//
// For most uses call [Check] on a [Layout] that [Parse] or package layout/megatron read, or [Enumerate] a [Space]:
//
//	m, err := arch.Lookup("qwen3-235b")
//	space, err := layout.DefaultSpace(m, 256, 8, layout.Run{}, layout.Pins{})
//	var counts layout.Counts
//	for l := range layout.Enumerate(m, space, &counts) {
//		fmt.Println(l) // tp1 cp1 pp1 vpp1 ep1 etp1 mbs1 recompute=none offload=none split=Et*94L
//	}
//	fmt.Println(counts.Legal, counts.Illegal(), counts.Err(m, space))
//
// # What a layout is
//
// Attention layers run on the mesh TP x CP x DP x PP, MoE layers on ETP x EP x EDP x PP, over the same ranks (package
// folding). A [Split] says which layers sit on which pipeline rank and chunk. Batch, recompute, precision, dispatcher
// and rank order complete the choice. What a run fixes before any of this is a [Run].
//
//	Go                 text form     Megatron flag                                   JSON key
//	World              (not in it)   WORLD_SIZE in the environment                   world_size
//	TP                 tp2           --tensor-model-parallel-size                    tensor_model_parallel_size
//	CP                 cp1           --context-parallel-size                         context_parallel_size
//	PP                 pp8           --pipeline-model-parallel-size                  pipeline_model_parallel_size
//	VPP                vpp4          --num-virtual-stages-per-pipeline-rank, or the  virtual_pipeline_model_parallel_size
//	                                 layout string
//	EP                 ep32          --expert-model-parallel-size                    expert_model_parallel_size
//	ETP                etp1          --expert-tensor-parallel-size (unset: TP)       expert_tensor_parallel_size
//	DP()               (derived)     none                                            data_parallel_size
//	EDP()              (derived)     none                                            expert_data_parallel_size
//	Split              split=...     --pipeline-model-parallel-layout                pipeline_model_parallel_layout
//	MicroBatchSize     mbs1          --micro-batch-size                              micro_batch_size
//	GlobalBatchSize    gbs=2048      --global-batch-size                             global_batch_size
//	NumMicrobatches()  (derived)     none                                            num_microbatches
//	SeqLength          seq=4096      --seq-length                                    seq_length
//	SequenceParallel   sp=on         --sequence-parallel                             sequence_parallel
//	Recompute          recompute=... --recompute-granularity, -method, -num-layers,  recompute_granularity, ...
//	                                 -modules
//	Precision          precision=... --bf16, --fp16, --fp8-format and --fp8-recipe   bf16, fp16, fp8_recipe, ...
//	Dispatcher         dispatcher=.. --moe-token-dispatcher-type and                 moe_token_dispatcher_type, ...
//	                                 --moe-flex-dispatcher-backend
//	EPOverlap          overlap=on    --overlap-moe-expert-parallel-comm              overlap_moe_expert_parallel_comm
//	Order              order=...     --use-tp-pp-dp-mapping                          use_tp_pp_dp_mapping
//
// # Conventions
//
// A size, a degree or an index is an int; sizes are at least 1 and zero is invalid. Decoder layers are counted from 0
// here and from 1 in what users read. DP and EDP are never stored. An Order of "" is the default order, which is never
// written out, so that equal layouts are equal values; compare splits with [Split.Equal], or whole layouts by
// [Layout.Key].
//
// # Rules
//
// Each condition is a [Rule] in one table, with a stable ID, a severity, the moment at which the framework notices, and
// the upstream line. Check asks all of them; Enumerate asks the same table, each rule as soon as the axes it looks at are
// chosen. To add a rule, add it to its family's list (rules_*.go), its ID to firingOrder, and a case on either side of
// the line to the tests, which insist on all three.
//
// Upstream paths are those of NVIDIA/Megatron-LM@d98e8a64dd unless they name another repository. "Rule 53" and the like
// refer to the numbered list of layout rules that the project was given.
package layout
