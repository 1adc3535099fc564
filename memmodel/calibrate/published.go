package calibrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/memmodel"
)

// published completes a figure that a source states with the sizes of its layout, but without a command line: a model of the
// catalogue, the flags that follow from the sizes, and what its recipe is known to do. All of it is assumed, so these
// records are a group of their own.
type published struct {
	model  string
	flags  string
	adjust func(*memmodel.Run)
}

// bridgeTypes are the types of Megatron-Bridge's precision-aware recipes: bf16 gradients and moments, an fp32 master copy,
// and because an unused FP8 recipe is set, the fp32 copy of the gradients (memory-findings.md C12, the Bridge trap).
func bridgeTypes(r *memmodel.Run) {
	r.GradientBytes, r.MomentBytes, r.MasterBytes, r.PrecisionAware = 2, 2, 4, false
}

const (
	moonlight = "--tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 8 --seq-length 4096 --micro-batch-size 1 --global-batch-size 4 --recompute-granularity selective --recompute-modules "
	offloaded = "--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2 --expert-model-parallel-size 4 --seq-length 4096 --micro-batch-size 1 --global-batch-size 256 --optimizer-cpu-offload --optimizer-offload-fraction "
)

// figures are the published runs that say enough.
var figures = map[string]published{
	"m0775": {"moonlight-16b-a3b", strings.TrimSuffix(moonlight, "--recompute-granularity selective --recompute-modules "), bridgeTypes},
	"m0776": {"moonlight-16b-a3b", moonlight + "core_attn", bridgeTypes},
	"m0777": {"moonlight-16b-a3b", moonlight + "mla_up_proj", bridgeTypes},
	"m0778": {"moonlight-16b-a3b", moonlight + "mla_up_proj mlp", bridgeTypes},
	"m0779": {"moonlight-16b-a3b", moonlight + "moe_act", bridgeTypes},
	"m0780": {"moonlight-16b-a3b", moonlight + "layernorm moe_act", bridgeTypes},
	"m0801": {"qwen3-30b-a3b", offloaded + "0", nil},
	"m0802": {"qwen3-30b-a3b", offloaded + "0.25", nil},
	"m0803": {"qwen3-30b-a3b", offloaded + "0.5", nil},
	"m0804": {"qwen3-30b-a3b", offloaded + "0.75", nil},
	"m0805": {"qwen3-30b-a3b", offloaded + "1", nil},
	"m0825": {"qwen3-30b-a3b", "--expert-model-parallel-size 16 --seq-length 4096 --micro-batch-size 1 --global-batch-size 1024", bridgeTypes},
}

// common are the flags of every recipe: no dropout, no mask, the distributed optimizer, grouped experts.
const common = "--bf16 --use-distributed-optimizer --attention-dropout 0 --hidden-dropout 0 --no-create-attention-mask-in-dataloader --moe-grouped-gemm --moe-permute-fusion --moe-token-dispatcher-type alltoall --expert-tensor-parallel-size 1 --cross-entropy-loss-fusion --cross-entropy-fusion-impl te"

// argv returns the words of a published run.
func (p *published) argv() ([]string, error) {
	m, err := arch.Lookup(p.model)
	if err != nil {
		return nil, fmt.Errorf("published figure: %w", err)
	}
	words := slices.Concat(m.MegatronFlags, strings.Fields(common), strings.Fields(p.flags))
	return append(words, "--vocab-size", fmt.Sprint(m.VocabSize)), nil
}
