// Package megatron writes layouts as Megatron-LM command lines.
//
// [Training] gives the flags that make a run train one model in one layout. [CheckCommand] turns them into commands that
// a single GPU can run under Megatron-LM's fake process group, one for each pipeline stage that such a run can
// impersonate, and [Command.Script] renders those as a bash script.
//
// Flag names, arities and choices are those of NVIDIA/Megatron-LM@d98e8a64dd (Core 0.20); a test holds every flag that
// is written against the recorded parser of that commit.
//
// # What a fake run shows
//
// Under the fake process group every collective returns at once, so one process lives through the steps of any one rank:
// its memory is real, its loss and its timing are not. The framework trains only on ranks that own data (tensor rank 0
// of the first stage, the last stage and the stage with the MTP layers) and prints memory only on data parallel rank 0,
// so those are the ranks that are written; middle stages, communication buffers and the flex dispatchers stay unseen.
package megatron
