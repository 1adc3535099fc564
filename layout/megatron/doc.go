// Package megatron reads and writes Megatron-LM command lines, by release, from one table of flags.
//
// # Reading
//
// [Parse] does what Megatron-LM's argument parser does and reports everything that it would refuse; [Resolve] then derives
// what the framework derives (expert tensor parallel size from the tensor parallel size, padded vocabulary, virtual
// stages, ...) and says what it silently changes; [Model] and [Layout] turn that into moeplan's own terms:
//
//	settings, err := megatron.Parse(argv, megatron.Main)
//	resolved, err := megatron.Resolve(settings, 256, nil)
//	model, err := megatron.Model(resolved)
//	layout, err := megatron.Layout(resolved)
//
// [Check] judges whether all that is legal: every rule that a launch would break, in the order in which it would hit them,
// with repairs that were judged too ([CheckArgv] does all from the argv on):
//
//	for _, v := range megatron.Check(resolved, megatron.CheckSettings{}) {
//		fmt.Println(v.Severity, v.NoticedAt, v.Error(), v.Repairs, v.Source)
//	}
//
// [Rules] lists the rules, those of package layout among them, and [OutOfScope] what is not judged. [LookupFlag] answers questions about
// single flags, [ParseRelease] reads release names. [Theoretical] is the estimate that the framework itself prints.
//
// # Writing
//
// [Training] gives the flags that make a run train one model in one layout. [CheckCommand] turns them into commands that
// a single GPU can run under Megatron-LM's fake process group, one for each pipeline stage that such a run can
// impersonate, and [Command.Script] renders those as a bash script.
//
// Flag names, arities and choices are those of NVIDIA/Megatron-LM@d98e8a64dd (Core 0.20); a test holds every flag that
// is written against the recorded parser of that commit, and what is written reads back as the same model and layout.
//
// # What a fake run shows
//
// Under the fake process group every collective returns at once, so one process lives through the steps of any one rank:
// its memory is real, its loss and its timing are not. The framework trains only on ranks that own data (tensor rank 0
// of the first stage, the last stage and the stage with the MTP layers) and prints memory only on data parallel rank 0,
// so those are the ranks that are written; middle stages, communication buffers and the flex dispatchers stay unseen.
//
// # Limits
//
// Files that a command line names (tokenizers, YAML, specs, checkpoints) are never opened: Resolved.External lists the
// flags, and a vocabulary that only a tokenizer knows is unknown. Flags that scripts add when NVIDIA modelopt or kitchen is
// installed are unknown flags here. Command lines are read up to 16,384 words.
package megatron
