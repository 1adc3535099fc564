package main

import (
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/recipes"
)

type recipesCmd struct {
	Text   []string `arg:"" optional:"" help:"Words that a record must contain, such as hybridep pp8 nemo:26.06, or an ID such as r0010."`
	Model  string   `placeholder:"NAME" help:"A model of the catalogue (moeplan models)."`
	GPU    string   `placeholder:"KIND" help:"A GPU kind, such as h100 or gb200."`
	GPUs   int      `name:"gpus" placeholder:"N" help:"A number of GPUs."`
	Output string   `short:"o" enum:"table,json,csv,markdown" default:"table" help:"Format: table, json, csv or markdown."`
}

func (c *recipesCmd) Run(s streams) error {
	q := recipes.Query{GPU: c.GPU, GPUs: c.GPUs, Text: strings.Join(c.Text, " ")}
	if c.Model != "" {
		m, err := arch.Lookup(c.Model)
		if err != nil {
			return err
		}
		q.About = m.ID
	}
	if c.GPUs < 0 {
		return usage("--gpus %d is not positive", c.GPUs)
	}
	found := recipes.Find(q)
	if c.Output == "json" {
		out := make([]recipeJSON, len(found))
		for i, r := range found {
			out[i] = recipeOf(r)
		}
		return writeJSON(s.out, out)
	}
	if len(found) == 0 {
		return usage("no published layout matches; moeplan recipes lists all %d", len(recipes.All()))
	}
	t := report.Table{Head: []string{"id", "model", "gpu", "gpus", "precision", "gbs", "layout", "reached", "source"}, Text: []int{0, 1, 2, 4, 6, 8},
		Least: []int{8, 5, 4}}
	for _, r := range found {
		name := r.About
		if name == "" {
			name = r.Model
		}
		precision := r.Precision
		if precision == "" {
			precision = r.PrecisionText
		}
		layout := r.Mesh()
		if r.MicroBatch > 0 {
			layout += " mbs" + strconv.Itoa(r.MicroBatch)
		}
		if r.Recompute != "" && r.Recompute != "none" {
			layout += " recompute=" + r.Recompute
		}
		t.Add(r.ID, name, r.GPU, stated(r.GPUs), precision, stated(r.GlobalBatch), layout, r.Throughput(), r.ShortSource())
	}
	return t.Write(s.out, report.Format(c.Output))
}

// stated prints a size, or "-" where the source states none.
func stated(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// recipeJSON is a record under Megatron's names. What the source does not state is null.
type recipeJSON struct {
	ID string `json:"id"` // r and four digits; stable
	// Kind says where the record comes from: benchmark-recipe, library-recipe (a starting point, not tuned),
	// published-benchmark, verification-card, modelzoo-best-practice, modelzoo-default, modelzoo-measured, tech-report,
	// skill-config, skill-long-context, or a table of the Parallel Folding paper: paper-optimal-mapping,
	// paper-strong-scaling, paper-context-scaling, paper-fp8.
	Kind           string   `json:"kind"`
	Task           string   `json:"task"`                                 // pretrain, sft, peft, lora, or a word of the source, such as pretrain_performance
	Model          string   `json:"model"`                                // as the source calls it
	ModelID        *string  `json:"model_id"`                             // the catalogue's id, for --model; null for models that it does not have
	GPU            string   `json:"gpu"`                                  // as the source calls it, in lower case
	Platform       *string  `json:"platform"`                             // the catalogue's id, for --gpu; null for kinds that it does not have
	GPUs           *int     `json:"gpus"`                                 // how many the whole run takes
	Precision      *string  `json:"precision"`                            // bf16, fp16, fp8-tensorwise, fp8-blockwise, mxfp8 or nvfp4; null where not stated, or see precision_text
	GlobalBatch    *int     `json:"global_batch_size"`                    // sequences a step
	MicroBatch     *int     `json:"micro_batch_size"`                     // sequences a micro-batch
	Sequence       *int     `json:"seq_length"`                           // tokens a sequence
	TP             *int     `json:"tensor_model_parallel_size"`           // TP; null is not stated, which is not 1
	CP             *int     `json:"context_parallel_size"`                // CP; null is not stated, which is not 1
	PP             *int     `json:"pipeline_model_parallel_size"`         // PP; null is not stated, which is not 1
	VPP            *int     `json:"virtual_pipeline_model_parallel_size"` // VPP, chunks per pipeline rank; null is not stated, which is not 1
	EP             *int     `json:"expert_model_parallel_size"`           // EP; null is not stated, which is not 1
	ETP            *int     `json:"expert_tensor_parallel_size"`          // ETP; null is not stated, which is not 1
	Split          *string  `json:"pipeline_model_parallel_layout"`       // as Megatron-LM spells it, such as Et*4|(t*4|)*14tmL
	Recompute      *string  `json:"recompute"`                            // none, full[:method:layers], selective, or modules with commas, known to moeplan or not
	Offload        *string  `json:"offload"`                              // upstream's options, NAME or NAME=VALUE, with blanks between them
	Dispatcher     *string  `json:"dispatcher"`                           // alltoall, allgather, deepep, hybridep, or flex where the backend is not stated
	EPOverlap      *bool    `json:"overlap_moe_expert_parallel_comm"`     // whether expert communication is hidden behind the other micro-batch
	Graphs         *string  `json:"cuda_graphs"`                          // what is captured: eager (nothing), router, attn, full-iteration or other
	Optimizer      *string  `json:"optimizer"`                            // adam, muon or dist_muon
	GradsFP32      *bool    `json:"grad_reduce_in_fp32"`                  // whether gradients are reduced in fp32; false is bf16
	Moments        *string  `json:"exp_avg_dtype"`                        // type of Adam's two moments: fp32 or bf16
	FSDP           bool     `json:"fsdp"`                                 // whether Megatron-FSDP shards parameters; false also where nothing is stated
	TFLOPS         *float64 `json:"tflops_per_gpu"`                       // model TFLOPS of one GPU (1e12 FLOP/s), as published
	Tokens         *float64 `json:"tokens_per_second_per_gpu"`            // as published, of one GPU
	StepMS         *float64 `json:"step_time_ms"`                         // published step time in ms
	MFU            *float64 `json:"mfu_percent"`                          // published model FLOPs utilisation in percent, 0 to 100
	Container      *string  `json:"container"`                            // software that the figures were measured with
	Note           *string  `json:"note"`                                 // what to know about the record
	Inconsistent   bool     `json:"inconsistent"`                         // true if the record cannot run on the number of GPUs that it names
	Source         string   `json:"source"`                               // repository@commit:path, or paper and table
	LayoutText     string   `json:"layout"`                               // the text form, as moeplan takes it; what is not stated is left out
	PrecisionWords *string  `json:"precision_text"`                       // the source's word for a precision that is none of ours; precision is then null
}

// unlessZero is nil for what is not stated.
func unlessZero[T comparable](x T) *T {
	var zero T
	if x == zero {
		return nil
	}
	return &x
}

func recipeOf(r *recipes.Recipe) recipeJSON {
	return recipeJSON{
		ID: r.ID, Kind: string(r.Kind), Task: r.Task, Model: r.Model, ModelID: unlessZero(r.About), GPU: r.GPU,
		Platform: unlessZero(r.Platform()), GPUs: unlessZero(r.GPUs), Precision: unlessZero(r.Precision),
		GlobalBatch: unlessZero(r.GlobalBatch), MicroBatch: unlessZero(r.MicroBatch), Sequence: unlessZero(r.Sequence),
		TP: unlessZero(r.TP), CP: unlessZero(r.CP), PP: unlessZero(r.PP), VPP: unlessZero(r.VPP), EP: unlessZero(r.EP),
		ETP: unlessZero(r.ETP), Split: unlessZero(r.Split), Recompute: unlessZero(r.Recompute), Offload: unlessZero(r.Offload),
		Dispatcher: unlessZero(r.Dispatcher), EPOverlap: r.EPOverlap, Graphs: unlessZero(r.Graphs), Optimizer: unlessZero(r.Optimizer),
		GradsFP32: r.GradsFP32, Moments: unlessZero(r.Moments), FSDP: r.FSDP, TFLOPS: unlessZero(r.TFLOPS), Tokens: unlessZero(r.Tokens),
		StepMS: unlessZero(r.StepMS), MFU: unlessZero(r.MFU), Container: unlessZero(r.Container), Note: unlessZero(r.Note),
		Inconsistent: r.Inconsistent, Source: r.Source, LayoutText: r.Layout(), PrecisionWords: unlessZero(r.PrecisionText),
	}
}
