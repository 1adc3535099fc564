package main

// Help texts below the summary, for commands whose own file does not hold one: what the command does, an example, its exit
// codes. TestEveryCommandHasHelp wants all three of every command.

// Help is of the default command.
func (planCmd) Help() string {
	return `Searches every legal pair of meshes, prices memory and step time of each layout, and lists the best plan of each pair.
Sizes can be pinned or bounded: --tp 2, --ep 8..64, --pp 4,8.

  moeplan --gpus 256 --model qwen3-235b --gpu h100
  moeplan --gpus 256 --model qwen3-235b --explain 4

Exit codes: 0 done; 2 no legal layout exists for what was pinned; 3 legal but nothing fits; 80 usage.`
}

// Help is of moeplan check.
func (checkCmd) Help() string {
	return `Reads a launch script, or an argv, without running anything: which rules it breaks and how to repair them, what each stage
allocates, and where its layout stands among those that moeplan finds.

  moeplan check train.sh --gpu h100 --set NNODES=32
  moeplan check -- --num-layers 94 ... (a Megatron-LM argv)

Exit codes: 0 legal and fits; 1 a file cannot be read; 2 it breaks a rule; 3 it does not fit; 80 usage, or no launch found.`
}

// Help is of moeplan batch.
func (batchCmd) Help() string {
	return `Reads one JSON request a line, {"id":"a","world_size":256,"args":["--num-layers","94",...]}, and writes one JSON answer a
line, in order. A line that cannot be answered gets {"id":...,"error":...}, and the next one is read.

  moeplan batch < requests.jsonl > answers.jsonl

Exit codes: 0 every line was answered; 1 failure to read or write.`
}

// Help is of moeplan workflow.
func (workflowCmd) Help() string {
	return `Prints the steps of the field's workflow (contract, fit, scale, profile, retune, validate) as a checklist, filled in for a
layout or, without one, for the best plan.

  moeplan workflow --gpus 256 --model qwen3-235b 'tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm'

Exit codes: 0 done; 2 the layout breaks a rule; 3 no layout was given and nothing fits; 80 usage.`
}

// Help is of moeplan next.
func (nextCmd) Help() string {
	return `Lists experiments on a layout, one variable each, with what to expect, what each needs, and when to accept it.

  moeplan next --gpus 256 --model qwen3-235b 'tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm'

Exit codes: 0 done; 2 the layout breaks a rule; 3 nothing fits; 80 usage.`
}

// Help is of moeplan emit.
func (emitCmd) Help() string {
	return `Prints what runs a layout: a check on one GPU under Megatron-LM's fake process group, a launch with torchrun or sbatch, or
Megatron-Bridge overrides.

  moeplan emit --for check --gpus 256 --model qwen3-235b 'tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm' > check.sh

Exit codes: 0 done; 2 the layout breaks a rule; 3 no layout was given and nothing fits; 80 usage.`
}

// Help is of moeplan mem.
func (memCmd) Help() string {
	return `Accounts for every byte of a layout, stage by stage and part by part, and says what each choice would save.

  moeplan mem --gpus 256 --model qwen3-235b 'tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm'

Exit codes: 0 done; 2 the layout breaks a rule; 3 no layout was given and nothing fits; 80 usage.`
}

// Help is of moeplan diff.
func (diffCmd) Help() string {
	return `Compares two layouts of one model on the same GPUs: flags, memory, where bytes travel, time.

  moeplan diff --gpus 256 --model qwen3-235b 'tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm' 'tp4 pp8 vpp8 ep16 mbs2 recompute=moe_act'

Exit codes: 0 done; 2 a layout breaks a rule; 80 usage.`
}

// Help is of moeplan size.
func (sizeCmd) Help() string {
	return `Finds the fewest GPUs on which a model can be trained, and tabulates time, efficiency and cost over numbers of GPUs.

  moeplan size --model qwen3-235b --gpu h100,b200 --tokens 15T --price-per-gpu-hour 2.5

Exit codes: 0 done; 3 nothing fits; 80 usage.`
}

// Help is of moeplan trace.
func (traceCmd) Help() string {
	return `Lays the planned step of every pipeline rank out in time (forward, backward, exchanges, gradient reduction, optimizer,
allocated memory) and writes it as a Chrome trace, for https://ui.perfetto.dev.

  moeplan trace --gpus 256 --model qwen3-235b -o step.json 'tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm'

Exit codes: 0 done; 2 the layout breaks a rule; 3 no layout was given and nothing fits; 80 usage.`
}

// Help is of moeplan ranks.
func (ranksCmd) Help() string {
	return `Shows which ranks form each process group, as the framework builds them, and how groups lie over nodes and NVLink domains.

  moeplan ranks --world 64 --tp 2 --cp 2 --pp 2 --ep 8 --etp 1

Exit codes: 0 done; 2 the framework refuses the sizes; 80 usage.`
}

// Help is of moeplan explain.
func (explainCmd) Help() string {
	return `Says what a rule asks and why, with its source, or what a word means.

  moeplan explain vpp-needs-pp
  moeplan explain EDP

Exit codes: 0 done; 80 unknown name.`
}

// Help is of moeplan validate.
func (validateCmd) Help() string {
	return `Compares predictions with what was measured and published: memory by group, component and record; with --ranking the
published layouts replayed against our best.

  moeplan validate --ranking

Exit codes: 0 done; 80 usage.`
}

// Help is of moeplan calibrate.
func (calibrateCmd) Help() string {
	return `Fits the step times to measured runs of your own machine, and writes the factors for --calibration. Nothing is written
unless runs that were left out of the fit are predicted better with it.

  moeplan calibrate --from runs.jsonl --save calibration.yaml
  moeplan --gpus 256 --model qwen3-235b --calibration calibration.yaml

Exit codes: 0 done; 1 the fit predicts no better; 80 usage.`
}

// Help is of moeplan recipes.
func (recipesCmd) Help() string {
	return `Searches the published layouts by words, model and GPU.

  moeplan recipes --model dsv3 --gpu h100
  moeplan recipes hybridep pp8

Exit codes: 0 done; 80 usage, or nothing found.`
}

// Help is of moeplan models.
func (modelsCmd) Help() string {
	return `Lists the models, or shows one with its sources and what is unverified of it.

  moeplan models dsv3
  moeplan models import my-model/config.json -o my-model.yaml

Exit codes: 0 done; 80 unknown model.`
}

// Help is of moeplan platforms.
func (platformsCmd) Help() string {
	return `Lists the GPU platforms, or shows one with the source of each figure. -o yaml writes one as a template for your own.

  moeplan platforms gb200
  moeplan platforms h100 -o yaml > mine.yaml && moeplan --gpu mine.yaml --gpus 64 --model qwen3-30b

Exit codes: 0 done; 80 unknown platform.`
}

// Help is of moeplan version.
func (versionCmd) Help() string {
	return `Says which build this is, and on which state of the framework and which data it rests.

  moeplan version

Exit codes: 0 done.`
}
