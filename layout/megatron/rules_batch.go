package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// batchRules are about the batch and about what every run has to say.
var batchRules = []rule{
	widened("batch-positive",
		func(c *launch) bool { return c.Batch.MicroBatchSize < 1 },
		func(c *launch) string {
			if c.none("micro_batch_size") {
				return "--micro-batch-size is not given"
			}
			return fmt.Sprintf("micro-batch %d must be at least 1", c.Batch.MicroBatchSize)
		},
		"--micro-batch-size 1"),
	{
		Rule: head("batch-schedule-alone", "82", inArguments, 699, "--step-batch-size-schedule excludes --global-batch-size",
			"The schedule says how large the batch is at each step."),
		broken: func(c *launch) bool { return !c.none("step_batch_size_schedule") && c.Batch.GlobalGiven },
		say: func(c *launch) string {
			return fmt.Sprintf("--step-batch-size-schedule together with --global-batch-size %d", c.Batch.GlobalBatchSize)
		},
		turn: []string{"--global-batch-size", "--step-batch-size-schedule"},
	},
	{
		Rule: head("global-batch-positive", "N2", inArguments, 705, "the global batch is at least 1",
			"A step works through at least one sequence."),
		broken: func(c *launch) bool { return c.Batch.GlobalGiven && c.Batch.GlobalBatchSize < 1 },
		say: func(c *launch) string {
			return fmt.Sprintf("global batch %d must be at least 1", c.Batch.GlobalBatchSize)
		},
		turn: []string{"--global-batch-size"},
	},
	{
		Rule: head("eval-batch-divides", "80", inArguments, 715, "evaluation MBS * DP divides the evaluation batch",
			"Both follow the training sizes where they are not given, so a training batch that does not divide shows here first (79)."),
		since: "0.18.2",
		broken: func(c *launch) bool {
			n := c.evalStep()
			return c.wholeDP() && (n == 0 || c.Batch.EvalGlobalBatchSize%n != 0)
		},
		say: func(c *launch) string {
			b := &c.Batch
			text := fmt.Sprintf("evaluation batch %d is not divisible by MBS %d * DP %d", b.EvalGlobalBatchSize, b.EvalMicroBatchSize, c.DP)
			if c.WeightRemat > 1 {
				text += fmt.Sprintf(" * %d weight shards", c.WeightRemat)
			}
			if c.none("eval_global_batch_size") {
				text += "; it follows --global-batch-size"
			}
			return text
		},
		turn: []string{"--global-batch-size", "--micro-batch-size", "--eval-global-batch-size", "--eval-micro-batch-size"},
	},
	{
		Rule: head("required-flags", "", inArguments, 2005, "layers, hidden size, heads, positions and sequence length are given",
			"None of them has a default."),
		broken: func(c *launch) bool { return c.missing() != "" },
		say:    func(c *launch) string { return c.missing() + " is not given" },
	},
	widened("batch-divides",
		func(c *launch) bool {
			sameAsEval := c.from("0.18.2") && c.none("eval_global_batch_size") && c.none("eval_micro_batch_size") // said there already
			return c.wholeDP() && !c.Batch.Whole && !c.on("decrease_batch_size_if_needed") && !sameAsEval
		},
		func(c *launch) string {
			b := &c.Batch
			each := product(b.MicroBatchSize, c.DP, max(1, c.WeightRemat))
			return fmt.Sprintf("global batch %d is not divisible by MBS %d * DP %d * %d weight shards = %d", b.GlobalBatchSize, b.MicroBatchSize, c.DP, max(1, c.WeightRemat), each)
		},
		"--global-batch-size", "--micro-batch-size"),
	{
		Rule: head("save-params-without-gather", "122", inArguments, 1368, "--save-params-interval excludes --overlap-param-gather",
			"Parameters that are still on their way cannot be saved."),
		broken: func(c *launch) bool {
			return !c.none("save") && !c.none("save_params_interval") && c.on("overlap_param_gather")
		},
		say:  says("--save-params-interval with --overlap-param-gather"),
		turn: []string{"--save-params-interval", "--overlap-param-gather"},
	},
	{
		Rule: head("cross-entropy-te", "136", inArguments, 1697, "cross entropy is not fused by Transformer Engine",
			"It was found unstable; the native fusion stays."),
		since: "0.18.2",
		broken: func(c *launch) bool {
			return c.rel.AtLeast("0.18.2") && c.on("cross_entropy_loss_fusion") && c.str("cross_entropy_fusion_impl") == "te"
		},
		say:  says("--cross-entropy-loss-fusion with --cross-entropy-fusion-impl te"),
		turn: []string{"--cross-entropy-fusion-impl native", "--cross-entropy-loss-fusion"},
	},
	{
		Rule: head("fake-no-flex", "", inArguments, 1757, "the fake process group excludes the flex dispatcher",
			"Its kernels talk to peers that do not exist."),
		broken: func(c *launch) bool { return c.on("fake_process_group") && c.Dispatcher == "flex" },
		say:    func(c *launch) string { return "--fake-process-group with dispatcher flex (" + c.FlexBackend + ")" },
		turn:   []string{"--moe-token-dispatcher-type alltoall", "--fake-process-group"},
	},
	{
		Rule: head("upcycling-needs-save", "113", inArguments, 1864, "--moe-use-upcycling needs --save",
			"The upcycled checkpoint has to go somewhere."),
		broken: func(c *launch) bool { return c.on("moe_use_upcycling") && c.none("save") },
		say:    says("--moe-use-upcycling without --save"),
		turn:   []string{"--moe-use-upcycling"},
	},
	{
		Rule: head("attention-backend-local", "", inArguments, 437, "--attention-backend local goes with --spec local",
			"Only the local layer spec has that attention."),
		broken: func(c *launch) bool {
			spec := c.list("spec")
			return c.str("attention_backend") == "local" && (len(spec) == 0 || spec[0] != "local")
		},
		say:  says("--attention-backend local without --spec local"),
		turn: []string{"--attention-backend", "--spec local"},
	},
	{
		Rule: headAt("legacy-models", "", layout.Error, layout.AtArguments, "megatron/training/arguments.py:311 (core_v0.17.1)", "legacy models are saved in the torch format",
			"Distributed checkpoints know only Megatron-Core models. Legacy models are gone from 0.18 on."),
		until:  "0.17.1",
		broken: func(c *launch) bool { return c.on("use_legacy_models") && c.str("ckpt_format") != "torch" },
		say:    func(c *launch) string { return "--use-legacy-models with --ckpt-format " + c.str("ckpt_format") },
		turn:   []string{"--use-legacy-models", "--ckpt-format torch"},
	},
}

// wholeDP reports whether there is a DP; rules that count with it are silent where the world does not divide.
func (c *launch) wholeDP() bool {
	d := &c.Degrees
	p := product(d.TP, d.CP, d.PP, max(1, c.WeightRemat))
	return p > 0 && d.World%p == 0 && c.WeightRemat > 0
}

// evalStep is what the evaluation batch has to be a multiple of; 0 where it is not defined.
func (c *launch) evalStep() int {
	return product(c.Batch.EvalMicroBatchSize, c.DP, max(1, c.WeightRemat))
}

// missing names a flag without default that is not given, "" if all are.
func (c *launch) missing() string {
	switch {
	case c.Shape.NumLayers == 0 && c.none("num_layers") && c.none("encoder_num_layers") && !c.hybrid():
		return "--num-layers"
	case c.none("hidden_size"):
		return "--hidden-size"
	case c.none("num_attention_heads"):
		return "--num-attention-heads"
	case c.none("max_position_embeddings"):
		return "--max-position-embeddings"
	case c.none("seq_length") && c.none("encoder_seq_length"):
		return "--seq-length"
	}
	return ""
}
