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
	ID             string   `json:"id"`
	Kind           string   `json:"kind"`
	Task           string   `json:"task"`
	Model          string   `json:"model"`
	ModelID        *string  `json:"model_id"`
	GPU            string   `json:"gpu"`
	Platform       *string  `json:"platform"`
	GPUs           *int     `json:"gpus"`
	Precision      *string  `json:"precision"`
	GlobalBatch    *int     `json:"global_batch_size"`
	MicroBatch     *int     `json:"micro_batch_size"`
	Sequence       *int     `json:"seq_length"`
	TP             *int     `json:"tensor_model_parallel_size"`
	CP             *int     `json:"context_parallel_size"`
	PP             *int     `json:"pipeline_model_parallel_size"`
	VPP            *int     `json:"virtual_pipeline_model_parallel_size"`
	EP             *int     `json:"expert_model_parallel_size"`
	ETP            *int     `json:"expert_tensor_parallel_size"`
	Split          *string  `json:"pipeline_model_parallel_layout"`
	Recompute      *string  `json:"recompute"`
	Offload        *string  `json:"offload"`
	Dispatcher     *string  `json:"dispatcher"`
	EPOverlap      *bool    `json:"overlap_moe_expert_parallel_comm"`
	Graphs         *string  `json:"cuda_graphs"`
	Optimizer      *string  `json:"optimizer"`
	GradsFP32      *bool    `json:"grad_reduce_in_fp32"`
	Moments        *string  `json:"exp_avg_dtype"`
	FSDP           bool     `json:"fsdp"`
	TFLOPS         *float64 `json:"tflops_per_gpu"`
	Tokens         *float64 `json:"tokens_per_second_per_gpu"`
	StepMS         *float64 `json:"step_time_ms"`
	MFU            *float64 `json:"mfu_percent"`
	Container      *string  `json:"container"`
	Note           *string  `json:"note"`
	Inconsistent   bool     `json:"inconsistent"`
	Source         string   `json:"source"`
	LayoutText     string   `json:"layout"`
	PrecisionWords *string  `json:"precision_text"`
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
