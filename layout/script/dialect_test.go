package script

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestDetect(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       Dialect
	}{
		{"run", "#!/bin/bash\nx", Bash},
		{"run", "#!/usr/bin/env bash\nx", Bash},
		{"job.slurm", "x", Bash},
		{"job", "#SBATCH -N 4\nsrun x", Bash},
		{"a.sh", "num_layers: 2", Bash}, // the name counts
		{"x", "export A=1\ntorchrun p.py", Bash},
		{"x", "TP=2\nPP=4\nx", Bash},
		{"model.yaml", "ENV_VARS:\n  A: 1\nMODEL_ARGS:\n  --bf16: true\n", ArgsYAML},
		{"conf.yml", "num_layers: 2\nhidden_size: 4\n", FlatYAML},
		{"conf", "tensor-model-parallel-size: 2\n", FlatYAML},
		{"ds.json", `{"zero_optimization": {"stage": 3}}`, DeepSpeed},
		{"ds.json", `{"train_batch_size": 8}`, DeepSpeed},
		{"config.json", `{"architectures": ["LlamaForCausalLM"]}`, HFConfig},
		{"x.json", `{"a": 1}`, Unknown},
		{"nemo.yaml", "trainer:\n  num_nodes: 2\nexp_manager:\n  x: 1\nmodel:\n  y: 1\n", NeMo},
		{"llama.toml", "[job]\n[parallelism]\n", Torchtitan},
		{"llama", "[job]\ndump_folder = \"x\"\n[training]\n", Torchtitan},
		{"accelerate.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n", Accelerate},
		{"ppo.yaml", "actor_rollout_ref:\n  actor: {}\n", HydraYAML},
		{"bridge.yaml", "model:\n  x: 1\ntrain:\n  y: 2\n", BridgeYAML},
		{"table", "DeepSeek-V3 1 8 64 1 4 1 8192 64 flex true 32 00:20:00\n", RuntimeConf},
		{"runtime.conf", "# nothing\n", RuntimeConf},
		{"readme.txt", "This is prose about training.\n", Unknown},
		{"empty", "", Unknown},
		{"binary", "\x7fELF\x02\x01", Unknown},
	} {
		got, why := Detect(tt.name, []byte(tt.text))
		if got != tt.want || why == "" {
			t.Errorf("%s %.30q: %q (%s), want %q", tt.name, tt.text, got, why, tt.want)
		}
		if !got.Supported() {
			_, err := Read(context.Background(), tt.name, strings.NewReader(tt.text), Options{})
			var e *UnsupportedError
			if !errors.As(err, &e) || e.Dialect != tt.want {
				t.Errorf("%s: Read says %v", tt.name, err)
			}
		}
	}
}

// TestDialects: each dialect's own spelling comes out as Megatron-LM's.
func TestDialects(t *testing.T) {
	for _, tt := range []struct {
		why, args          string
		dialect            Dialect
		want               string // arguments, in order
		assumed            string // flags among Assumed
		unmapped           string // keys
		model              string
		nodes, each, world int
	}{
		{"Megatron-LM as it is", "--num-layers 94 --bf16 --no-such-flag x", Megatron, "--num-layers 94 --bf16 --no-such-flag x", "", "", "", 0, 0, 0},
		{
			"Megatron-Bridge overrides", "torchrun --nnodes 2 --nproc_per_node 8 scripts/train.py --recipe qwen3 model.tensor_model_parallel_size=2 +model.pipeline_model_parallel_size=4 ++model.expert_model_parallel_size=8 model.sequence_parallel=true train.micro_batch_size=1 ddp.use_distributed_optimizer=True model.recompute_modules=[moe_act,layernorm] model.moe_layer_freq=[0,1,1] checkpoint.save=/x model.unheard_of=1",
			Bridge, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8 --sequence-parallel --micro-batch-size 1 --use-distributed-optimizer --recompute-modules moe_act layernorm --moe-layer-freq [0,1,1] --expert-tensor-parallel-size 1",
			"--expert-tensor-parallel-size 1", "checkpoint.save model.unheard_of model.pipeline_model_parallel_layout recipe", "qwen3", 2, 8, 16,
		},
		{
			"Megatron-Bridge's performance scripts", "python scripts/performance/setup_experiment.py -m deepseek -mr deepseek_v3 -ng 256 -gn 8 -tp 2 -pp 8 -vp 1 -ep 32 -et 1 -mb 1 -gb 2048 -d",
			Bridge, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 8 --expert-model-parallel-size 32 --expert-tensor-parallel-size 1 --micro-batch-size 1 --global-batch-size 2048",
			"", "-m -d model.pipeline_model_parallel_layout recipe", "deepseek_v3", 0, 8, 256,
		},
		{
			"Megatron-Bridge: a layout goes with its null", "model.pipeline_model_parallel_size=4 model.pipeline_model_parallel_layout=null model.add_bias_linear=false model.share_embeddings_and_output_weights=false mixed_precision=bf16_mixed optimizer.exp_avg_dtype=torch.bfloat16",
			Bridge, "--pipeline-model-parallel-size 4 --disable-bias-linear --untie-embeddings-and-output-weights --bf16 --exp-avg-dtype bf16", "", "model.pipeline_model_parallel_layout recipe", "", 0, 0, 0,
		},
		{
			"ms-swift", "megatron sft --model Qwen/Qwen3-30B-A3B --tensor_model_parallel_size 2 --expert_model_parallel_size 8 --sequence_parallel true --moe_grouped_gemm true --overlap_grad_reduce false --max_length 8192 --packing true --recompute_granularity full --recompute_method uniform --recompute_num_layers 1 --lr 1e-5",
			Swift, "--tensor-model-parallel-size 2 --expert-model-parallel-size 8 --sequence-parallel --moe-grouped-gemm --seq-length 8192 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --lr 1e-5 --micro-batch-size 1 --global-batch-size 16 --expert-tensor-parallel-size 1 --use-distributed-optimizer --moe-token-dispatcher-type alltoall --bf16",
			"--micro-batch-size 1,--global-batch-size 16,--expert-tensor-parallel-size 1,--use-distributed-optimizer,--moe-token-dispatcher-type alltoall,--bf16", "--packing", "Qwen/Qwen3-30B-A3B", 1, 1, 1,
		},
		{
			"ms-swift: the expert mesh as given", "megatron pt --expert_tensor_parallel_size 2 --micro_batch_size 4 --global_batch_size 64 --recompute_granularity none --fp16 true --use_distributed_optimizer true --moe_token_dispatcher_type flex --recompute_modules core_attn moe",
			Swift, "--expert-tensor-parallel-size 2 --micro-batch-size 4 --global-batch-size 64 --fp16 --use-distributed-optimizer --moe-token-dispatcher-type flex --recompute-modules core_attn moe", "", "", "", 1, 1, 1,
		},
		{
			"verl", "python3 -m verl.trainer.main_ppo --config-path=config actor_rollout_ref.model.path=Qwen/Qwen3-30B-A3B actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 actor_rollout_ref.actor.megatron.expert_model_parallel_size=8 +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full actor_rollout_ref.actor.megatron.param_offload=True actor_rollout_ref.ref.megatron.tensor_model_parallel_size=4 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 data.max_prompt_length=1024 data.max_response_length=7168 trainer.nnodes=4 trainer.n_gpus_per_node=8",
			Verl, "--tensor-model-parallel-size 2 --expert-model-parallel-size 8 --recompute-granularity full --micro-batch-size 1 --seq-length 8192 --use-distributed-optimizer --moe-token-dispatcher-type alltoall --bf16 --sequence-parallel",
			"--use-distributed-optimizer,--moe-token-dispatcher-type alltoall,--bf16,--sequence-parallel", "actor_rollout_ref.actor.megatron.param_offload actor_rollout_ref.ref.megatron.tensor_model_parallel_size", "Qwen/Qwen3-30B-A3B", 4, 8, 32,
		},
		{
			"slime speaks Megatron-LM", "python3 train.py --actor-num-nodes 4 --actor-num-gpus-per-node 8 --hf-checkpoint /m/Qwen3 --tensor-model-parallel-size 4 --rollout-batch-size 8",
			Megatron, "--actor-num-nodes 4 --actor-num-gpus-per-node 8 --hf-checkpoint /m/Qwen3 --tensor-model-parallel-size 4 --rollout-batch-size 8", "", "", "/m/Qwen3", 4, 8, 32,
		},
	} {
		t.Run(tt.why, func(t *testing.T) {
			s, err := ReadArgs("argv", strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			c := s.Commands[0]
			if got := strings.Join(c.Megatron, " "); got != tt.want || c.Dialect != tt.dialect {
				t.Errorf("%s\ngot  %s\nwant %s", c.Dialect, got, tt.want)
			}
			var assumed, unmapped []string
			for _, a := range c.Assumed {
				flag, _, _ := strings.Cut(a, ":")
				assumed = append(assumed, flag)
			}
			for _, u := range c.Unmapped {
				unmapped = append(unmapped, u.Key)
				if u.Reason == "" {
					t.Errorf("%s is left out without a reason", u.Key)
				}
			}
			if got := strings.Join(assumed, ","); got != tt.assumed {
				t.Errorf("assumed %s, want %s", got, tt.assumed)
			}
			if got := strings.Join(unmapped, " "); got != tt.unmapped {
				t.Errorf("unmapped %s, want %s", got, tt.unmapped)
			}
			if c.Model != tt.model || c.Nodes.N != tt.nodes || c.PerNode.N != tt.each || c.World.N != tt.world {
				t.Errorf("model %q, %d x %d = %d", c.Model, c.Nodes.N, c.PerNode.N, c.World.N)
			}
		})
	}
}

// TestUnsupportedLaunches: other frameworks are named, not guessed.
func TestUnsupportedLaunches(t *testing.T) {
	for _, tt := range []struct {
		script string
		want   Dialect
	}{
		{`accelerate launch --num_processes 8 train.py --model x`, Accelerate},
		{`torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file llama.toml`, Torchtitan},
		{`deepspeed --num_gpus 8 pretrain_gpt.py --tensor-model-parallel-size 2 --deepspeed --deepspeed_config ds.json`, DeepSpeed},
		{`python megatron_gpt_pretraining.py --config-path=conf trainer.num_nodes=2 model.tensor_model_parallel_size=2`, NeMo},
	} {
		_, err := ReadBash(context.Background(), "run.sh", strings.NewReader(tt.script), Options{})
		var e *UnsupportedError
		if !errors.As(err, &e) || e.Dialect != tt.want {
			t.Errorf("%s: %v, want %s", tt.script, err, tt.want)
		}
	}
	// Beside a launch that is read, they are only marked.
	s := readBash(t, "accelerate launch x.py\ntorchrun pretrain_gpt.py --num-layers 2", Options{})
	if len(s.Commands) != 2 || s.Commands[0].Dialect != Accelerate || s.Training().Program != "pretrain_gpt.py" {
		t.Errorf("%+v", s.Commands)
	}
}

// TestFieldsTable: a field is spelled as a flag, once.
func TestFieldsTable(t *testing.T) {
	for name, s := range fields {
		if s.kind == noEffect {
			if s.flag != "" {
				t.Errorf("%s: a flag without effect", name)
			}
			continue
		}
		if !strings.HasPrefix(s.flag, "--") || strings.ContainsAny(s.flag, "_ ") {
			t.Errorf("%s: %q is no flag", name, s.flag)
		}
	}
	for _, tt := range []struct{ field, value, want string }{
		{"sequence_parallel", "maybe", "refused"}, {"no_such_field", "1", "refused"}, {"recompute_modules", "[a", "refused"},
		{"add_bias_linear", "true", ""}, {"add_bias_linear", "false", "--disable-bias-linear"},
		{"num_query_groups", "4", "--group-query-attention --num-query-groups 4"},
		{"num_moe_experts", "null", ""}, {"fp8", "'hybrid'", "--fp8-format hybrid"},
		{"pipeline_model_parallel_layout", `"Et|(tt|)*30L"`, "--pipeline-model-parallel-layout Et|(tt|)*30L"},
	} {
		words, ok := spell(tt.field, tt.value)
		got := strings.Join(words, " ")
		if !ok {
			got = "refused"
		}
		if got != tt.want {
			t.Errorf("%s=%s: %q, want %q", tt.field, tt.value, got, tt.want)
		}
	}
}
