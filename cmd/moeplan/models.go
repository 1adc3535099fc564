package main

import (
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/cmd/internal/config"
	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/plan"
)

type modelsCmd struct {
	List   modelsListCmd   `cmd:"" group:"commands" default:"withargs" help:"List the models, or show one (what moeplan models does by itself)."`
	Import modelsImportCmd `cmd:"" group:"commands" help:"Write a model of your own as YAML, from a Hugging Face config.json."`
}

type modelsListCmd struct {
	Name   string `arg:"" optional:"" help:"Model to show in full, with its sources: a name or a YAML file."`
	Output string `short:"o" enum:"table,json,csv,markdown,yaml" default:"table" help:"Format: table, json, csv, markdown or, of one model, yaml: a template for your own."`
}

func (c *modelsListCmd) Run(s streams) error {
	if c.Name != "" {
		m, err := lookupModel(c.Name)
		if err != nil {
			return err
		}
		switch c.Output {
		case "json":
			return writeJSON(s.out, m)
		case "yaml":
			return config.WriteModel(s.out, m, "A model for moeplan: save it under your own id, change it, and pass --model FILE.yaml.")
		}
		showModel(s, m)
		return nil
	}
	if c.Output == "yaml" {
		return usage("-o yaml writes one model: moeplan models qwen3-30b -o yaml")
	}
	models := arch.All()
	if c.Output == "json" {
		return writeJSON(s.out, models)
	}
	t := report.Table{
		Head: []string{"model", "total B", "active B", "layers", "hidden", "experts", "top-k", "attention", "MTP", "unverified"},
		Text: []int{0, 7, 9}, Least: []int{4, 9, 8, 3, 6},
	}
	for _, m := range models {
		total, active := m.Parameters()
		experts, topk := "-", "-"
		if m.MoE != nil {
			experts, topk = fmt.Sprint(m.MoE.NumExperts), fmt.Sprint(m.MoE.TopK)
		}
		unverified := ""
		if len(m.Unverified) > 0 {
			unverified = fmt.Sprint(len(m.Unverified))
		}
		t.Add(m.ID, billions(total), billions(active), fmt.Sprint(m.NumLayers), fmt.Sprint(m.HiddenSize),
			experts, topk, attentionName(m), fmt.Sprint(m.MTPNumLayers), unverified)
	}
	return t.Write(s.out, report.Format(c.Output))
}

// attentionName says in a word how a model attends.
func attentionName(m *arch.Model) string {
	switch {
	case m.Kind == arch.Hybrid:
		return "hybrid Mamba"
	case m.LinearAttention != nil:
		return "GQA + gated delta net"
	case m.MLA != nil:
		return "MLA"
	case m.NumQueryGroups == m.NumAttentionHeads:
		return "MHA"
	}
	return fmt.Sprintf("GQA %d/%d", m.NumAttentionHeads, m.NumQueryGroups)
}

func showModel(s streams, m *arch.Model) {
	total, active := m.Parameters()
	fmt.Fprintf(s.out, "%s  %s  %s B total, %s B active\n", m.ID, m.HFID, billions(total), billions(active))
	if err := plan.Supported(m); err != nil {
		fmt.Fprintf(s.out, "planning     refused: %v\n", err)
	}
	list := func(title string, items []string) {
		for i, item := range items {
			if i > 0 {
				title = ""
			}
			fmt.Fprintf(s.out, "%-12s %s\n", title, item)
		}
	}
	list("source", m.Sources)
	list("unverified", m.Unverified)
	list("note", m.Notes)
	fmt.Fprintf(s.out, "%-12s %s\n", "flags", strings.Join(m.MegatronFlags, " "))
}

func billions(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e9) }
