package plan_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
)

// question is the one that the examples ask.
func question(model, gpu string, gpus int) plan.Request {
	m, err := arch.Lookup(model)
	if err != nil {
		panic(err)
	}
	p, err := topology.LookupPlatform(gpu)
	if err != nil {
		panic(err)
	}
	return plan.Request{Model: m, Platform: p, GPUs: gpus}
}

// Plan a run: the best layouts of a model on so many GPUs, one for each pair of meshes.
func ExampleSearch() {
	result, err := plan.Search(context.Background(), question("qwen3-235b", "h100", 256))
	if err != nil {
		panic(err)
	}
	best := &result.Plans[0]
	fmt.Println(best.Layout.Degrees)
	fmt.Println(best.Grade, best.WorstStage, best.Wall)
	fmt.Println(len(result.Plans) == plan.DefaultTop, result.Searched.Legal > 1000)
	// Output:
	// tp2 cp1 dp16 pp8 | etp1 ep32 edp1 | 256 ranks
	// fits 0 communication
	// true true
}

// Nothing fits: the answer says what is missing by how much, and what would help.
func ExampleSearch_nothingFits() {
	result, err := plan.Search(context.Background(), question("deepseek-v3", "h100", 8))
	if err != nil {
		panic(err)
	}
	miss := result.NearestMiss
	fmt.Println(len(result.Plans), miss.OverBytes > 0, miss.Component)
	fmt.Println(*miss.SmallestGPUs > 8)
	// Output:
	// 0 true expert state (weights, gradients, optimizer)
	// true
}

// Check an argv: which rules a Megatron-LM command line breaks, and how to repair it.
func ExampleJudge() {
	argv := strings.Fields(`--num-layers 30 --hidden-size 1024 --num-attention-heads 16 --seq-length 4096
		--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --vocab-size 32000 --bf16
		--pipeline-model-parallel-size 4`)
	judged, err := plan.Judge(context.Background(), plan.Launch{Argv: argv, World: 8, Release: megatron.Main})
	if err != nil {
		panic(err)
	}
	for _, v := range judged.Violations.Errors() {
		fmt.Println(v.Rule)
	}
	// Output:
	// pp-divides-layers
}

// Price one layout that somebody has, in the terms of Search.
func ExampleDescribe() {
	r := question("qwen3-30b", "b200", 64)
	l, err := layout.Parse("tp1 pp2 vpp4 ep8 mbs1 recompute=moe_act", layout.Defaults{World: r.GPUs, Model: r.Model})
	if err != nil {
		panic(err)
	}
	priced, violations, err := plan.Describe(context.Background(), r, l)
	if err != nil {
		panic(err)
	}
	fmt.Println(violations.Legal(), priced.Grade, len(priced.Stages))
	for _, t := range priced.Communication {
		if t.Axis == "ep" {
			fmt.Println(t.GroupSize, "ranks,", t.Domains, "domain")
		}
	}
	// Output:
	// true fits 2
	// 8 ranks, 1 domain
}

// Walk the enumeration: every legal layout of a space, by conditions of one's own. The sequence can be left at any time.
func Example_enumeration() {
	r := question("qwen3-30b", "h100", 16)
	space, err := layout.DefaultSpace(r.Model, r.GPUs, 8, layout.Run{}.WithDefaults(r.GPUs), layout.Pins{PP: layout.Exactly(2)})
	if err != nil {
		panic(err)
	}
	var counts layout.Counts
	experts := map[int]bool{}
	for l := range layout.Enumerate(r.Model, space, &counts) {
		experts[l.EP] = true
	}
	fmt.Println(experts[1], experts[2], experts[4], experts[8])
	fmt.Println(counts.Legal > 0, counts.Layouts > counts.Legal)
	// Output:
	// true true true true
	// true true
}

// A search stops when its context ends.
func ExampleSearch_cancelled() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := plan.Search(ctx, question("deepseek-v3", "h100", 2048))
	fmt.Println(errors.Is(err, context.Canceled))
	// Output: true
}
