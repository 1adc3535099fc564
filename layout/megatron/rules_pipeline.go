package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// pipelineRules are about how the flags cut the layers into stages and chunks, and about the schedule.
var pipelineRules = []rule{
	{
		Rule: head("virtual-stage-flags", "43", inArguments, 928, "at most one flag says what a virtual stage is",
			"Layers per virtual stage, virtual stages per rank and a layout string each decide VPP."),
		broken: func(c *launch) bool { return c.virtualFlags() > 1 },
		say: func(c *launch) string {
			return fmt.Sprintf("%d of %s, %s and %s are given", c.virtualFlags(), perStageFlag, virtualStagesFlag, layoutFlag)
		},
		turn: []string{perStageFlag, virtualStagesFlag, layoutFlag},
	},
	inText("split-symbols", layoutFlag),
	inText("split-stages", layoutFlag, "--pipeline-model-parallel-size"),
	{
		Rule: head("virtual-stage-even-only", "46", inArguments, 955, "layers per virtual stage go with an even split",
			"With counts for the first or last stage, --num-virtual-stages-per-pipeline-rank says how many chunks there are."),
		broken: func(c *launch) bool { return c.perStageDecides() && c.uneven() },
		say: func(c *launch) string {
			return fmt.Sprintf("%s %d together with a count for the first or last stage", perStageFlag, c.int("num_layers_per_virtual_pipeline_stage"))
		},
		turn: []string{perStageFlag, "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"},
	},
	{
		Rule: head("virtual-stage-pp", "45", inArguments, 968, "PP divides the layers where layers per virtual stage are given",
			"Every rank gets the same number. Embedding and loss count where --account-for-* says so."),
		broken: func(c *launch) bool { return c.perStageDecides() && c.counted()%c.Degrees.PP != 0 },
		say:    sayCounted,
		turn:   []string{"--pipeline-model-parallel-size", perStageFlag, "BALANCED"},
	},
	{
		Rule: head("virtual-stage-divides", "45", inArguments, 972, "the layers per virtual stage divide the layers of a rank",
			"A rank holds whole chunks."),
		broken: func(c *launch) bool {
			n := c.int("num_layers_per_virtual_pipeline_stage")
			return c.perStageDecides() && c.counted()%c.Degrees.PP == 0 && (n < 1 || c.counted()/c.Degrees.PP%n != 0)
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%s / PP %d = %d on a rank, not divisible by %d per virtual stage", layout.Count(c.counted(), "layer"), c.Degrees.PP,
				c.counted()/c.Degrees.PP, c.int("num_layers_per_virtual_pipeline_stage"))
		},
		turn: []string{perStageFlag, "--pipeline-model-parallel-size"},
	},
	widened("pp-divides-layers",
		func(c *launch) bool {
			return c.virtualFlags() == 0 && !c.uneven() && !c.hybrid() && c.counted()%c.Degrees.PP != 0
		},
		sayCounted, "--pipeline-model-parallel-size", "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split", "BALANCED"),
	widened("vpp-needs-pp",
		func(c *launch) bool { _, set := c.vpp(); return set && c.on("overlap_p2p_comm") && c.Degrees.PP <= 1 },
		func(c *launch) string { return fmt.Sprintf("VPP %d at PP %d", c.Pipeline.VPP, c.Degrees.PP) },
		virtualStagesFlag, perStageFlag, layoutFlag, "--pipeline-model-parallel-size"),
	{
		Rule: head("vpp-serial-needs-pp-3", "51", inArguments, 1006, "VPP without p2p overlap needs PP > 2",
			"Two ranks would post several sends and receives to each other in one batch."),
		broken: func(c *launch) bool { _, set := c.vpp(); return set && !c.on("overlap_p2p_comm") && c.Degrees.PP <= 2 },
		say: func(c *launch) string {
			return fmt.Sprintf("VPP %d at PP %d with --no-overlap-p2p-communication", c.Pipeline.VPP, c.Degrees.PP)
		},
		turn: []string{"--no-overlap-p2p-communication", virtualStagesFlag, perStageFlag, layoutFlag, "--pipeline-model-parallel-size"},
	},
	{
		Rule: headAt("account-with-balancing", "44", layout.Error, layout.AtArguments, "megatron/training/arguments.py:798 (core_v0.11.0)", "in 0.11 MoE losses exclude counting embedding and loss as layers",
			"Their averages assumed equal numbers of layers."),
		until: "0.11.0",
		broken: func(c *launch) bool {
			return c.moe() && c.accounted() && (c.str("moe_router_load_balancing_type") != "none" || !c.none("moe_z_loss_coeff"))
		},
		say:  says("--account-for-* with a MoE balancing loss in release 0.11.0"),
		turn: []string{"--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split", "--moe-router-load-balancing-type none"},
	},
	{
		Rule: head("defer-wgrad-needs-pp", "58", inParallel, 546, "deferred embedding gradients need PP > 1",
			"They fill the cool-down of the pipeline."),
		broken: func(c *launch) bool { return c.on("defer_embedding_wgrad_compute") && c.Degrees.PP == 1 },
		say:    func(c *launch) string { return fmt.Sprintf("--defer-embedding-wgrad-compute at PP %d", c.Degrees.PP) },
		turn:   []string{"--defer-embedding-wgrad-compute", "--pipeline-model-parallel-size"},
	},
	{
		Rule: head("defer-wgrad-needs-fusion", "58", inParallel, 551, "deferred embedding gradients need gradient accumulation fusion",
			"They are added straight into the main gradient."),
		broken: func(c *launch) bool {
			return c.on("defer_embedding_wgrad_compute") && !c.on("gradient_accumulation_fusion")
		},
		say:  says("--defer-embedding-wgrad-compute with --no-gradient-accumulation-fusion"),
		turn: []string{"--no-gradient-accumulation-fusion", "--defer-embedding-wgrad-compute"},
	},
	{
		Rule: head("defer-wgrad-limit", "58", inParallel, 556, "--wgrad-deferral-limit is not negative",
			"0 defers all micro-batches, N the last N."),
		broken: func(c *launch) bool {
			return c.on("defer_embedding_wgrad_compute") && c.int("wgrad_deferral_limit") < 0
		},
		say:  func(c *launch) string { return fmt.Sprintf("--wgrad-deferral-limit %d", c.int("wgrad_deferral_limit")) },
		turn: []string{"--wgrad-deferral-limit 0", "--defer-embedding-wgrad-compute"},
	},
	{
		Rule: head("warmup-overlap-needs-p2p-overlap", "55", inParallel, 572, "overlap in warm-up and flush needs p2p overlap",
			"p2p overlap exists only with VPP; without it transfers are batched."),
		broken: func(c *launch) bool { return c.on("overlap_p2p_comm_warmup_flush") && !c.OverlapP2P },
		say: func(c *launch) string {
			return fmt.Sprintf("--overlap-p2p-communication-warmup-flush with p2p overlap off (VPP %d)", max(1, c.Pipeline.VPP))
		},
		turn: []string{"--overlap-p2p-communication-warmup-flush", virtualStagesFlag},
	},
	widened("vpp-microbatches",
		func(c *launch) bool {
			_, set := c.vpp()
			m, g := c.microbatches(), c.Pipeline.GroupSize
			return set && c.wholeDP() && (g > m || g < c.Degrees.PP)
		},
		func(c *launch) string {
			b := &c.Batch
			return fmt.Sprintf("%d micro-batches (GBS %d / (MBS %d * DP %d)) in groups of %d: the group must lie between PP %d and the number of micro-batches",
				c.microbatches(), b.GlobalBatchSize, b.MicroBatchSize, c.DP, c.Pipeline.GroupSize, c.Degrees.PP)
		},
		"--global-batch-size", "--micro-batch-size", virtualStagesFlag, perStageFlag, "--microbatch-group-size-per-virtual-pipeline-stage"),
	{
		Rule: headAt("vpp-last-group", "53", layout.Error, layout.AtSchedule, "megatron/core/pipeline_parallel/schedules.py:1180", "with VPP the last group of micro-batches is whole, or at least PP",
			"A smaller remainder leaves bubbles that the interleaved schedule does not plan."),
		broken: func(c *launch) bool {
			_, set := c.vpp()
			m, g := c.microbatches(), c.Pipeline.GroupSize
			return set && c.wholeDP() && g >= 1 && g <= m && g >= c.Degrees.PP && m%g != 0 && m%g < c.Degrees.PP
		},
		say: func(c *launch) string {
			m, g := c.microbatches(), c.Pipeline.GroupSize
			return fmt.Sprintf("%d micro-batches in groups of %d leave %d, fewer than PP %d", m, g, m%g, c.Degrees.PP)
		},
		turn: []string{"--global-batch-size", "--micro-batch-size", virtualStagesFlag, perStageFlag, "--microbatch-group-size-per-virtual-pipeline-stage"},
	},
}

// microbatches is what the schedule sees. The main recorder left the weight shards out.
func (c *launch) microbatches() int {
	if c.checks == Recorder && c.WeightRemat > 1 {
		return quotient(c.Batch.GlobalBatchSize, product(c.Batch.MicroBatchSize, c.DP))
	}
	return c.Batch.NumMicrobatches
}

// virtualFlags counts the flags that decide VPP.
func (c *launch) virtualFlags() int {
	n := 0
	for _, dest := range []string{"num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank", "pipeline_model_parallel_layout"} {
		if !c.none(dest) {
			n++
		}
	}
	return n
}

// perStageDecides reports whether validate_args works out VPP from the layers per virtual stage.
func (c *launch) perStageDecides() bool {
	return !c.none("num_layers_per_virtual_pipeline_stage") && c.none("num_virtual_stages_per_pipeline_rank") && !c.layoutGiven()
}

func sayCounted(c *launch) string {
	n, pp := c.counted(), c.Degrees.PP
	text := layout.Are(n, "layer")
	if n != c.Shape.NumLayers {
		text = fmt.Sprintf("%s and embedding or loss counted as layers = %d,", layout.Count(c.Shape.NumLayers, "layer"), n)
	}
	return fmt.Sprintf("%s not divisible by PP %d (%d %% %d = %d)", text, pp, n, pp, n%pp)
}
