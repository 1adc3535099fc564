// Package script reads people's own launch files and returns the Megatron-LM command line in them. It runs nothing,
// writes nothing and fetches nothing.
//
// For most uses call [Read]: it looks at a file with [Detect], and hands it to [ReadBash] or [ReadYAML]. A command
// line that is already an argv, in any of the dialects, goes through [ReadArgs]. The answer is a [Script]: every launch
// that the file would make, each a [Command] with its launcher, its number of GPUs where that can be derived, the
// environment it sets, and its arguments in Megatron-LM's own spelling. What the argv means is layout/megatron's to say.
//
// # Reading a bash script
//
// A script is interpreted (mvdan.cc/sh) so that its variables, arrays, functions, loops and conditions come out as bash
// would expand them, with every door to the machine replaced:
//
//   - a program is never started: its argv is noted, it "succeeds", and it prints nothing;
//   - a redirection to a file is cut off before it is expanded; nothing is opened for writing;
//   - a file is read only if it is in the fs.FS that the caller handed over; every other path does not exist;
//   - the environment holds the caller's Set, what the script's #SBATCH lines say, and [DefaultEnv]; nothing else;
//   - set -e and set -u have no effect: a value that is missing here must not end the reading;
//   - time, calls, bytes of variables and nesting are bounded ([Options]). Pipes and background jobs are run one after
//     the other, so the answer is the same every time.
//
// The interpreter has ways out of its own that have no handler: named pipes for <( ), lookups of programs in PATH,
// real process numbers. The script's syntax tree is rewritten before it runs so that none of them is reached
// (rewrite.go, calls.go), and its temporary directory is one that cannot exist.
//
// # Values that nobody computed
//
// A script that asks nvidia-smi or scontrol for a number, or reads $SLURM_NNODES, depends on something that is not
// there. Such a value is empty, as it would be in bash. Which arguments depend on it is then found by experiment: the
// script is read again with that one thing answered, and the launches are compared. The difference is the [Warning].
//
// # Dialects
//
// Megatron-Bridge's dotted overrides, ms-swift's flags with underscores and verl's Hydra keys are translated by one
// table of names (fields.go); what is not in it is named in [Command].Unmapped. Any other dialect is a
// *[UnsupportedError] that names it: it is never guessed.
package script
