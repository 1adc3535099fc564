package script_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout/script"
)

func ExampleRead() {
	const file = `#!/bin/bash
#SBATCH --nodes=4
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=$(nvidia-smi -L | wc -l)
ARGS=(
    --num-layers 94
    --tensor-model-parallel-size ${TP:-4}
    --moe-layer-freq "([0]*1+[1]*93)"
)
srun bash -c "torchrun --nnodes $SLURM_NNODES --nproc_per_node $GPUS_PER_NODE \
    pretrain_gpt.py --bf16 $(printf '%q ' "${ARGS[@]}")" 2>&1 | tee train.log
rm -rf /tmp/cache
`
	s, err := script.Read(context.Background(), "train.sh", strings.NewReader(file), script.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	c := s.Training()
	fmt.Println(c.Launcher, c.Program, c.Megatron)
	fmt.Printf("%d nodes, world %d: %s\n", c.Nodes.N, c.World.N, c.World.From)
	for _, w := range s.Warnings {
		fmt.Println(w.Kind, "-", w.Message)
	}
	// Output:
	// torchrun pretrain_gpt.py [--bf16 --num-layers 94 --tensor-model-parallel-size 4 --moe-layer-freq ([0]*1+[1]*93)]
	// 4 nodes, world 0: --nproc_per_node has no value
	// script-default - TP is not set, so the script's own default holds for --tensor-model-parallel-size; --set TP=VALUE changes it
	// not-executed - wc was not executed, and world size depends on it; give --set GPUS_PER_NODE=VALUE
}
