package main

import (
	"fmt"

	"github.com/moeplan/moeplan/cmd/internal/config"
	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/topology"
)

type platformsCmd struct {
	Name   string `arg:"" optional:"" help:"Platform to show in full, with its sources."`
	Output string `short:"o" enum:"table,json,csv,markdown,yaml" default:"table" help:"Format: table, json, csv, markdown or, of one platform, yaml: a template for your own."`
}

// platformJSON is one platform.
type platformJSON struct {
	*topology.Platform
	// Sources says where each figure comes from, by its key.
	Sources map[topology.FigureID]string `json:"sources"`
}

func (c *platformsCmd) Run(s streams) error {
	if c.Name != "" {
		p, err := lookupPlatform(c.Name)
		if err != nil {
			return err
		}
		if c.Output == "json" {
			return writeJSON(s.out, platformJSON{p, sourcesOf(p)})
		}
		if c.Output == "yaml" {
			return config.WritePlatform(s.out, p)
		}
		fmt.Fprintf(s.out, "%s  %s (%s)\n", p.ID, p.Name, p.Arch)
		t := report.Table{Head: []string{"figure", "value", "source"}, Text: []int{0, 2}}
		for _, id := range topology.Figures() {
			f := p.Figure(id)
			t.Add(string(id), figure(f), topology.SourceText(f.Source))
		}
		if err := t.Write(s.out, report.Format(c.Output)); err != nil {
			return err
		}
		for _, n := range p.Notes {
			fmt.Fprintf(s.out, "note: %s\n", n)
		}
		return nil
	}
	if c.Output == "yaml" {
		return usage("-o yaml writes one platform: moeplan platforms h100 -o yaml")
	}
	platforms := topology.Platforms()
	if c.Output == "json" {
		return writeJSON(s.out, platforms)
	}
	t := report.Table{
		Head: []string{"platform", "name", "memory GiB", "bf16 TFLOPS", "fp8 TFLOPS", "NVLink domain", "node", "NVLink GB/s", "NIC Gbit/s"},
		Text: []int{0, 1}, Least: []int{1, 4, 6},
	}
	for _, p := range platforms {
		t.Add(p.ID, p.Name, figure(p.MemoryGiB), figure(p.BF16TFLOPS), figure(p.FP8TFLOPS), figure(p.Domain), figure(p.Node),
			figure(p.NVLinkGBps), figure(p.NICGbit))
	}
	return t.Write(s.out, report.Format(c.Output))
}

// sourcesOf says where each known figure comes from.
func sourcesOf(p *topology.Platform) map[topology.FigureID]string {
	sources := make(map[topology.FigureID]string)
	for _, id := range topology.Figures() {
		if f := p.Figure(id); f.Known {
			sources[id] = topology.SourceText(f.Source)
		}
	}
	return sources
}

// figure prints a number, or "unknown".
func figure(f topology.Figure) string {
	if !f.Known {
		return "unknown"
	}
	return fmt.Sprintf("%g", f.Value)
}
