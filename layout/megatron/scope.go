package megatron

import "slices"

// Scope is a numbered constraint of the reference list that no rule judges.
type Scope struct {
	Constraint string
	What       string
	Reason     string
}

const (
	cannotFail = "cannot fail from a command line"
	bridgeOnly = "Megatron-Bridge's own check: its configuration is not a Megatron-LM command line"
	statement  = "a statement of what the framework does, not a condition; Resolve does it"
)

var outOfScope = []Scope{
	{"7", "VPP needs PP > 1 when the process groups are made", cannotFail + ": 51 is earlier"},
	{"52", "without VPP overlap of p2p and aligned gathers are off", statement},
	{"56", "an embedding or loss that counts as a layer leaves its chunk at least none", cannotFail + ": a chunk has a layer once 44 and 47 hold"},
	{"57", "PP > 1 has a type for what is sent", cannotFail + ": the command line always sets it"},
	{"61", "--moe-layer-freq N makes every N-th layer MoE, from the first on", statement},
	{"68", "a layout string excludes a hybrid pattern", cannotFail + ": 75 is earlier"},
	{"72", "MTP layers take the kind of the last decoder layer", statement + "; the rules about layers look at them"},
	{"74", "embeddings are tied unless a flag unties them", statement},
	{"78", "hybrid models are started with pretrain_hybrid.py", "the script is not part of the arguments; Model.Launcher names it"},
	{"81", "--decrease-batch-size-if-needed relaxes the calculator", statement},
	{"96", "HybridEP is installed and gets equal numbers of tokens", "packages and routing are not known from a command line"},
	{"99", "backends of the flex dispatcher by GPU", bridgeOnly},
	{"112", "--num-experts 0 means none", statement},
	{"149", "local graphs only of the whole iteration", bridgeOnly},
	{"157", "the world divides without weight shards", bridgeOnly},
	{"158", "evaluation batch with evaluation CP", bridgeOnly},
	{"159", "fine-tuning with CP counts the loss per token", bridgeOnly},
	{"160", "packed sequences have MBS 1", bridgeOnly},
	{"161", "vision data sets pad to CP and TP", bridgeOnly},
	{"162", "model and data set have one sequence length", bridgeOnly},
	{"163", "two kinds of FSDP exclude each other", bridgeOnly},
	{"164", "TP overlap is switched off without SP", bridgeOnly},
	{"165", "copies of flags agree", bridgeOnly},
	{"166", "deterministic mode needs NCCL_ALGO", bridgeOnly},
	{"", "flags of inference, reinforcement learning, knowledge distillation and data", "no choice of a training layout; the parser still reads them"},
	{"", "checks inside --yaml-cfg, --spec, checkpoints and other files", "files are never opened; Resolved.External names the flags"},
	{"", "sparse attention (dsa), gated delta products and muP beyond the numbered constraints", "experimental variants that no model of moeplan has"},
	{"", "missing packages: DeepEP, Apex, FlashAttention, TE itself", "the environment of a launch, not its arguments; versions of TE and PyTorch that are given are judged"},
}

// OutOfScope returns what no rule judges, and why. The slice is the caller's.
func OutOfScope() []Scope { return slices.Clone(outOfScope) }
