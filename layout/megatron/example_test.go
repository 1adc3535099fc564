package megatron_test

import (
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout/megatron"
)

func Example() {
	argv := strings.Fields(`--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --swiglu --disable-bias-linear
		--num-experts 16 --moe-ffn-hidden-size 512 --position-embedding-type rope --vocab-size 32000 --bf16
		--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --expert-model-parallel-size 4 --sequence-parallel
		--micro-batch-size 1 --global-batch-size 64 --seq-length 4096 --max-position-embeddings 4096`)
	settings, err := megatron.Parse(argv, megatron.Main)
	if err != nil {
		fmt.Println(err)
		return
	}
	resolved, err := megatron.Resolve(settings, 32, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := megatron.Layout(resolved)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l)
	for _, c := range resolved.Changes {
		fmt.Printf("%s %s: %s, because %s\n", c.Flag, c.Given, c.Becomes, c.Why)
	}
	// Output:
	// tp2 cp1 pp2 vpp1 ep4 etp2 mbs1 recompute=none offload=none split=Et*4|t*4L gbs=64 dispatcher=allgather
	// --expert-tensor-parallel-size not given: 2, because it follows --tensor-model-parallel-size
}

func ExampleParse_problems() {
	_, err := megatron.Parse(strings.Fields("--num-layers x --fake-init-process-group --fp8-format e5m2"), megatron.Main)
	fmt.Println(err)
	release, _ := megatron.ParseRelease("0.12.3")
	_, err = megatron.Parse(strings.Fields("--pipeline-model-parallel-layout Et|tL"), release)
	fmt.Println(err)
	// Output:
	// --num-layers: "x" is not a whole number
	// --fake-init-process-group: Megatron-LM main has no such flag; try --fake-process-group
	// --fp8-format: Megatron-LM main takes e4m3, hybrid, not "e5m2"; try e4m3
	// --pipeline-model-parallel-layout: Megatron-LM 0.12.3 does not have it yet, it came with 0.13.1
}
