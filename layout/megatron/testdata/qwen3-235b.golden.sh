#!/usr/bin/env bash
# One-GPU check of qwen3-235b-a22b, tp2 cp1 pp8 vpp2 ep32 etp1 mbs1 recompute=moe_act,layernorm
# offload=none split=Et*5|(t*6|)*14t*5L dispatcher=deepep
#
# Run it in the root of a Megatron-LM checkout (Core 0.16 or later) with Transformer Engine, on one
# GPU. It is plain python: torchrun would overwrite WORLD_SIZE and RANK.
# The flag is --fake-process-group. Documents also call it --fake-init-process-group, but no parser
# has ever had that one.
# Keep the order: RANK 0 compiles the dataset helper that the other ranks import.
# Read the last memory line; the first has no optimizer state at its peak. Loss and times mean
# nothing, and a nan norm is normal.
# Dispatcher deepep is refused under a fake process group: alltoall stands in for it, and the
# buffers of deepep come on top.
# Tokens are balanced by force: an untrained router would decide the memory otherwise.
# Global batch 2048 of the run is cut to 256: 16 micro-batches a pipeline instead of 128 bring as
# many into flight at once.
# Not seen: pipeline stages 1 to 6. Ranks without data skip training, so middle stages cannot be
# impersonated as they are; --middle-stages adds them through a wrapper that nobody has tested.
# Not seen either: buffers of NCCL and of other communication libraries, uneven routing across
# ranks, and any timing.
set -uo pipefail
status=0

# RANK 0, pipeline stage 0: embedding, layers 1-5, layers 48-53
WORLD_SIZE=256 RANK=0 LOCAL_RANK=0 CUDA_DEVICE_MAX_CONNECTIONS=1 \
python pretrain_gpt.py \
  --tensor-model-parallel-size 2 --context-parallel-size 1 --pipeline-model-parallel-size 8 \
  --expert-model-parallel-size 32 --expert-tensor-parallel-size 1 --sequence-parallel \
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --num-layers 94 \
  --hidden-size 4096 --ffn-hidden-size 12288 --num-attention-heads 64 --kv-channels 128 \
  --group-query-attention --num-query-groups 4 --normalization RMSNorm --norm-epsilon 1e-06 \
  --swiglu --disable-bias-linear --untie-embeddings-and-output-weights --qk-layernorm \
  --position-embedding-type rope --rotary-base 1000000 --rotary-percent 1.0 \
  --attention-dropout 0.0 --hidden-dropout 0.0 --vocab-size 151936 \
  --make-vocab-size-divisible-by 1187 --num-experts 128 --moe-ffn-hidden-size 1536 \
  --moe-router-topk 8 --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 0.001 \
  --moe-router-score-function softmax --moe-grouped-gemm --moe-router-dtype fp32 \
  --pipeline-model-parallel-layout 'Et*5|(t*6|)*14t*5L' --seq-length 4096 \
  --max-position-embeddings 40960 --micro-batch-size 1 --global-batch-size 256 \
  --recompute-granularity selective --recompute-modules moe_act layernorm --bf16 \
  --transformer-impl transformer_engine --cross-entropy-loss-fusion \
  --cross-entropy-fusion-impl native --moe-token-dispatcher-type alltoall --moe-permute-fusion \
  --moe-router-fusion --train-iters 3 --eval-iters 0 --eval-interval 1000 --lr 1e-4 --min-lr 1e-5 \
  --lr-decay-style cosine --lr-warmup-iters 1 --mock-data --num-workers 1 --no-mmap-bin-files \
  --no-create-attention-mask-in-dataloader --tokenizer-type NullTokenizer \
  --moe-router-force-load-balancing --log-interval 1 --log-memory-interval 1 --no-one-logger \
  --fake-process-group \
  2>&1 | tee moeplan-check.rank0.log || status=1

# RANK 224, pipeline stage 7: layers 42-47, layers 90-94, output layer
WORLD_SIZE=256 RANK=224 LOCAL_RANK=0 CUDA_DEVICE_MAX_CONNECTIONS=1 \
python pretrain_gpt.py \
  --tensor-model-parallel-size 2 --context-parallel-size 1 --pipeline-model-parallel-size 8 \
  --expert-model-parallel-size 32 --expert-tensor-parallel-size 1 --sequence-parallel \
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --num-layers 94 \
  --hidden-size 4096 --ffn-hidden-size 12288 --num-attention-heads 64 --kv-channels 128 \
  --group-query-attention --num-query-groups 4 --normalization RMSNorm --norm-epsilon 1e-06 \
  --swiglu --disable-bias-linear --untie-embeddings-and-output-weights --qk-layernorm \
  --position-embedding-type rope --rotary-base 1000000 --rotary-percent 1.0 \
  --attention-dropout 0.0 --hidden-dropout 0.0 --vocab-size 151936 \
  --make-vocab-size-divisible-by 1187 --num-experts 128 --moe-ffn-hidden-size 1536 \
  --moe-router-topk 8 --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 0.001 \
  --moe-router-score-function softmax --moe-grouped-gemm --moe-router-dtype fp32 \
  --pipeline-model-parallel-layout 'Et*5|(t*6|)*14t*5L' --seq-length 4096 \
  --max-position-embeddings 40960 --micro-batch-size 1 --global-batch-size 256 \
  --recompute-granularity selective --recompute-modules moe_act layernorm --bf16 \
  --transformer-impl transformer_engine --cross-entropy-loss-fusion \
  --cross-entropy-fusion-impl native --moe-token-dispatcher-type alltoall --moe-permute-fusion \
  --moe-router-fusion --train-iters 3 --eval-iters 0 --eval-interval 1000 --lr 1e-4 --min-lr 1e-5 \
  --lr-decay-style cosine --lr-warmup-iters 1 --mock-data --num-workers 1 --no-mmap-bin-files \
  --no-create-attention-mask-in-dataloader --tokenizer-type NullTokenizer \
  --moe-router-force-load-balancing --log-interval 1 --log-memory-interval 1 --no-one-logger \
  --fake-process-group \
  2>&1 | tee moeplan-check.rank224.log || status=1

# last LOG EXPECTED: what the last memory line says, or that there is none
last() {
  line=$(grep -a 'memory (MB)' "$1" | tail -n 1)
  echo "$1: ${line:-none, the run failed or ran out of memory}"
  [ -z "$2" ] || echo "  expected: max allocated: $2"
}
echo 'The last memory line of each run:'
last moeplan-check.rank0.log ''
last moeplan-check.rank224.log ''
exit "$status"
