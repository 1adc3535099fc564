package megatron

import "strings"

// architectureFlags are the options that describe a model rather than how it is trained: those that Model reads, and those
// that change its mathematics without changing its size (positions, norms, router).
var architectureFlags = strings.Fields(`
	--num-layers --hidden-size --ffn-hidden-size --num-attention-heads --kv-channels --group-query-attention --num-query-groups
	--normalization --norm-epsilon --apply-layernorm-1p --swiglu --squared-relu --use-fused-weighted-squared-relu --quick-geglu
	--glu-linear-offset --activation-func-clamp-value --disable-bias-linear --add-qkv-bias --no-bias-dropout-fusion
	--no-bias-gelu-fusion --no-bias-swiglu-fusion --untie-embeddings-and-output-weights --qk-layernorm --qk-l2-norm
	--softmax-type --attention-output-gate --window-size --window-attn-skip-freq
	--position-embedding-type --use-rotary-position-embeddings --rotary-base --rotary-percent --rotary-interleaved --use-rope-scaling
	--rope-scaling-factor --no-rope-freq --rotary-scaling-factor --rope-type --mscale --mscale-all-dim --yarn-original-max-position-embeddings
	--yarn-beta-fast --yarn-beta-slow --yarn-correction-range-round-to-int --no-yarn-correction-range-round-to-int
	--attention-dropout --hidden-dropout --vocab-size --padded-vocab-size --make-vocab-size-divisible-by
	--multi-latent-attention --q-lora-rank --kv-lora-rank --qk-head-dim --qk-pos-emb-head-dim --v-head-dim
	--num-experts --moe-layer-freq --moe-ffn-hidden-size --moe-router-topk --moe-shared-expert-intermediate-size --moe-shared-expert-gate
	--moe-latent-size --moe-grouped-gemm --moe-apply-probs-on-input --moe-router-load-balancing-type --moe-aux-loss-coeff --moe-router-score-function
	--moe-router-pre-softmax --moe-router-num-groups --moe-router-group-topk --moe-router-topk-scaling-factor --moe-router-enable-expert-bias
	--moe-router-bias-update-rate --moe-router-dtype
	--mtp-num-layers --mtp-loss-scaling-factor --mtp-use-repeated-layer
	--hybrid-layer-pattern --hybrid-override-pattern --mtp-hybrid-override-pattern --is-hybrid-model
	--mamba-num-heads --mamba-head-dim --mamba-state-dim --mamba-num-groups
	--experimental-attention-variant --linear-attention-freq --linear-conv-kernel-dim --linear-key-head-dim --linear-value-head-dim
	--linear-num-key-heads --linear-num-value-heads`)

var isArchitecture = func() map[string]bool {
	set := make(map[string]bool, len(architectureFlags))
	for _, name := range architectureFlags {
		set[name] = true
	}
	return set
}()

// architecture returns the given options that describe the model, in table order, as words of a command line.
func architecture(s *Settings) []string {
	words := []string{}
	for g := range s.Given() {
		if !isArchitecture[g.Option.Name] {
			continue
		}
		words = append(append(words, g.Option.Name), g.Value.Texts()...)
	}
	return words
}
