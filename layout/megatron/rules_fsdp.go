package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// fsdpRules are about both kinds of FSDP, emerging optimizers and checkpoint formats, as far as they limit a layout.
var fsdpRules = []rule{
	fsdp2("fsdp2-no-pp", "153", 1034, "PP 1", func(c *launch) bool { return c.Degrees.PP != 1 }, "--pipeline-model-parallel-size 1"),
	fsdp2("fsdp2-no-ep", "153", 1036, "EP 1", func(c *launch) bool { return c.Degrees.EP != 1 }, "--expert-model-parallel-size 1"),
	fsdp2("fsdp2-no-distributed-optimizer", "153", 1038, "no distributed optimizer", func(c *launch) bool { return c.on("use_distributed_optimizer") }, "--use-distributed-optimizer"),
	fsdp2("fsdp2-no-fusion", "153", 1040, "--no-gradient-accumulation-fusion", func(c *launch) bool { return c.on("gradient_accumulation_fusion") }, "--no-gradient-accumulation-fusion"),
	since("0.12.3", fsdp2("fsdp2-checkpoint-format", "153", 1042, "--ckpt-format torch_dist or torch_dcp",
		func(c *launch) bool {
			return c.str("ckpt_format") != "torch_dist" && c.str("ckpt_format") != "torch_dcp"
		}, "--ckpt-format torch_dist", "--ckpt-format torch_dcp")),
	fsdp2("fsdp2-untied", "153", 1044, "--untie-embeddings-and-output-weights", func(c *launch) bool { return !c.on("untie_embeddings_and_output_weights") },
		"--untie-embeddings-and-output-weights"),
	fsdp2("fsdp2-no-fp16", "153", 1046, "no fp16", func(c *launch) bool { return c.on("fp16") }, "--fp16"),
	since("0.12.3", fsdp2("fsdp2-connections", "9", 1048, "another CUDA_DEVICE_MAX_CONNECTIONS than 1", func(c *launch) bool { return c.isEnv(connections, "1") }, connections+"=")),
	megatronFSDP("fsdp-v2-no-distributed-optimizer", "151", 1125, "version 2 shards by itself, so --use-distributed-optimizer is left out",
		"Version 1 switches the distributed optimizer on, version 2 replaces it.",
		func(c *launch) bool { return c.int("megatron_fsdp_version") == 2 && c.on("use_distributed_optimizer") }, "--use-distributed-optimizer", "--megatron-fsdp-version"),
	megatronFSDP("fsdp-no-grouped-parameters", "105", 1143, "no single grouped MoE parameters", "Its buffers do not take grouped tensors yet.",
		func(c *launch) bool { return c.on("moe_single_grouped_weight") || c.on("moe_single_grouped_bias") }, "--moe-single-grouped-weight", "--moe-single-grouped-bias"),
	megatronFSDP("fsdp-optimizer", "151", 1150, "--optimizer adam or sgd", "Others do not work on flat shards.",
		func(c *launch) bool { return c.str("optimizer") != "adam" && c.str("optimizer") != "sgd" }, "--optimizer adam"),
	megatronFSDP("fsdp-no-weight-hash", "151", 1163, "no weight hash check while parameters are sharded", "Replicas hold different parts then.",
		func(c *launch) bool {
			return c.str("data_parallel_sharding_strategy") == "optim_grads_params" && !c.none("check_weight_hash_across_dp_replicas_interval")
		}, "--check-weight-hash-across-dp-replicas-interval", "--data-parallel-sharding-strategy"),
	megatronFSDP("fsdp-connections", "9", 1166, "another CUDA_DEVICE_MAX_CONNECTIONS than 1", "With one connection gathers would wait behind GEMMs.",
		func(c *launch) bool { return c.isEnv(connections, "1") }, connections+"="),
	megatronFSDP("fsdp-checkpoint-format", "151", 1169, "--ckpt-format fsdp_dtensor", "Only that format knows its shards.",
		func(c *launch) bool { return c.str("ckpt_format") != "fsdp_dtensor" }, "--ckpt-format fsdp_dtensor"),
	megatronFSDP("fsdp-meta-needs-shards", "151", 1184, "shards where the model is initialised on the meta device", "Without sharding the whole model is on each GPU anyway.",
		func(c *launch) bool {
			return c.on("init_model_with_meta_device") && c.str("data_parallel_sharding_strategy") == "no_shard"
		}, "--init-model-with-meta-device", "--data-parallel-sharding-strategy"),
	{
		Rule: head("torch-dcp-needs-fsdp2", "156", inArguments, 1668, "--ckpt-format torch_dcp goes with Torch FSDP2",
			"It saves DTensors."),
		broken: func(c *launch) bool { return c.str("ckpt_format") == "torch_dcp" && !c.on("use_torch_fsdp2") },
		say:    says("--ckpt-format torch_dcp without --use-torch-fsdp2"),
		turn:   []string{"--ckpt-format torch_dist", "--use-torch-fsdp2"},
	},
	{
		Rule: head("torch-dcp-no-tp", "156", inArguments, 1669, "--ckpt-format torch_dcp needs TP 1",
			"Its parameters are not cut by Megatron."),
		broken: func(c *launch) bool { return c.str("ckpt_format") == "torch_dcp" && c.Degrees.TP > 1 },
		say:    func(c *launch) string { return fmt.Sprintf("--ckpt-format torch_dcp at TP %d", c.Degrees.TP) },
		turn:   []string{"--ckpt-format torch_dist", "--tensor-model-parallel-size 1"},
	},
	{
		Rule: head("torch-dcp-no-pp", "156", inArguments, 1671, "--ckpt-format torch_dcp needs PP 1",
			"Its parameters are not cut by Megatron."),
		broken: func(c *launch) bool { return c.str("ckpt_format") == "torch_dcp" && c.Degrees.PP > 1 },
		say:    func(c *launch) string { return fmt.Sprintf("--ckpt-format torch_dcp at PP %d", c.Degrees.PP) },
		turn:   []string{"--ckpt-format torch_dist", "--pipeline-model-parallel-size 1"},
	},
	{
		Rule: head("fsdp-dtensor-needs-fsdp", "156", inArguments, 1676, "--ckpt-format fsdp_dtensor goes with Megatron-FSDP",
			"It saves that wrapper's shards."),
		broken: func(c *launch) bool { return c.str("ckpt_format") == "fsdp_dtensor" && !c.fsdp() },
		say:    says("--ckpt-format fsdp_dtensor without --use-megatron-fsdp"),
		turn:   []string{"--ckpt-format torch_dist", "--use-megatron-fsdp"},
	},
	emerging("emerging-no-fsdp2", 1739, "no Torch FSDP2", func(c *launch) bool { return c.on("use_torch_fsdp2") }, "--use-torch-fsdp2"),
	emerging("emerging-checkpoint-format", 1741, "--ckpt-format torch or torch_dist",
		func(c *launch) bool { return c.str("ckpt_format") != "torch" && c.str("ckpt_format") != "torch_dist" }, "--ckpt-format torch_dist"),
	{
		Rule: headAt("muon-alone", "155", layout.Error, layout.AtArguments, "megatron/training/arguments.py:1487 (core_v0.17.1)", "up to 0.17 muon excludes overlap and the distributed optimizer",
			"It worked on whole matrices only."),
		since: "0.16.1", until: "0.17.1",
		broken: func(c *launch) bool {
			o := c.str("optimizer")
			return (o == "muon" || o == "dist_muon") && (c.on("overlap_grad_reduce") || c.on("overlap_param_gather") || c.on("use_distributed_optimizer"))
		},
		say: func(c *launch) string {
			return "--optimizer " + c.str("optimizer") + " with overlap or the distributed optimizer in release " + c.rel.String()
		},
		turn: []string{"--optimizer adam"},
	},
	{
		Rule: head("gloo-needs-distributed-checkpoint", "", inArguments, 1750, "without Gloo groups the distributed optimizer saves distributed checkpoints",
			"The old format collects the state over Gloo."),
		broken: func(c *launch) bool {
			return !c.on("use_gloo_process_groups") && c.s.Has("use_gloo_process_groups") && c.DistributedOptimizer && c.str("ckpt_format") == "torch"
		},
		say:  says("--disable-gloo-process-groups and --use-distributed-optimizer with --ckpt-format torch"),
		turn: []string{"--disable-gloo-process-groups", "--ckpt-format torch_dist"},
	},
}

func fsdp2(id layout.RuleID, constraint string, line int, what string, broken func(c *launch) bool, turn ...string) rule {
	return rule{Rule: head(id, constraint, inArguments, line, "Torch FSDP2 needs "+what, "It shards every parameter by itself and has not been combined with the rest."),
		turn:   append(turn, "--use-torch-fsdp2"),
		broken: func(c *launch) bool { return c.on("use_torch_fsdp2") && broken(c) },
		say: func(c *launch) string {
			return fmt.Sprintf("--use-torch-fsdp2 at PP %d, EP %d needs %s", c.Degrees.PP, c.Degrees.EP, what)
		}}
}

func megatronFSDP(id layout.RuleID, constraint string, line int, what, why string, broken func(c *launch) bool, turn ...string) rule {
	return rule{Rule: head(id, constraint, inArguments, line, "Megatron-FSDP needs "+what, why), turn: append(turn, "--use-megatron-fsdp"),
		broken: func(c *launch) bool { return c.fsdp() && broken(c) },
		say:    says("--use-megatron-fsdp needs " + what)}
}

func emerging(id layout.RuleID, line int, what string, broken func(c *launch) bool, turn ...string) rule {
	return rule{Rule: head(id, "155", inArguments, line, "optimizers other than adam and sgd need "+what, "They work on whole matrices and shard by layer."),
		turn: append(turn, "--optimizer adam"), since: "0.16.1",
		broken: func(c *launch) bool {
			o := c.str("optimizer")
			return o != "adam" && o != "sgd" && broken(c)
		},
		say: func(c *launch) string { return "--optimizer " + c.str("optimizer") + " needs " + what }}
}
