package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/moeplan/moeplan/cmd/internal/config"
	"github.com/moeplan/moeplan/layout/arch"
)

type modelsImportCmd struct {
	File   string `arg:"" help:"config.json of a Hugging Face repository, or - for standard input."`
	Name   string `help:"What to call the model, such as Qwen/Qwen3-8B (default: the file's folder, or what it says itself). A size in it is compared with the shape."`
	Output string `short:"o" default:"-" placeholder:"FILE" help:"YAML file to write (default: standard output)."`
}

// Help is the part of the usage below the summary.
func (modelsImportCmd) Help() string {
	return `Reads the shape of a model from its config.json and writes it as YAML for --model. Comments in the file say what was read,
what was assumed because the config.json is silent, and what was left out. A key that would change the shape and is not known
is refused.

  moeplan models import my-model/config.json -o my-model.yaml
  moeplan --gpus 64 --model my-model.yaml

Exit codes: 0 done; 1 the file cannot be read; 80 the configuration cannot be represented, or usage.`
}

// maxConfig bounds a config.json.
const maxConfig = 4 << 20

func (c *modelsImportCmd) Run(s streams) error {
	var in io.Reader = os.Stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return &coded{exitUsage, err}
		}
		defer f.Close()
		in = f
	}
	name := cmp.Or(c.Name, c.File)
	if absolute, err := filepath.Abs(c.File); c.Name == "" && c.File != "-" && err == nil {
		name = absolute // its folder is its name
	}
	m, imported, err := arch.FromHF(io.LimitReader(in, maxConfig), name)
	if err != nil {
		return &coded{exitUsage, err}
	}
	m.ID = modelID(m.ID)
	m.Sources = []string{"config.json read as " + cmp.Or(c.Name, c.File)}
	var out bytes.Buffer
	if err := config.WriteModel(&out, m, importComments(imported)...); err != nil {
		return err
	}
	if _, err := config.ReadModel(c.Output, bytes.NewReader(out.Bytes())); err != nil {
		return fmt.Errorf("bug: what was written is not read back: %w", err)
	}
	if c.Output == "-" {
		_, err = s.out.Write(out.Bytes())
		return err
	}
	if err := writeWhole(c.Output, out.Bytes()); err != nil {
		return err
	}
	total, active := m.Parameters()
	_, err = fmt.Fprintf(s.out, "%s: %s, %s B total, %s B active; %d keys read, %d assumed, %d left out\n", c.Output, m.ID,
		billions(total), billions(active), len(imported.Read), len(imported.Assumed), len(imported.Ignored))
	return err
}

// modelID makes a legal name of a file's.
func modelID(name string) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '-'
	}, strings.TrimSuffix(strings.ToLower(name), ".json"))
	id = strings.Trim(id, "-._")
	return cmp.Or(id[:min(len(id), 64)], "model")
}

// importComments say where the numbers come from.
func importComments(i *arch.Import) []string {
	lines := []string{"A model for moeplan (--model FILE.yaml), imported from a config.json of " + i.Architecture + "."}
	if i.Size != nil {
		lines = append(lines, i.Size.Message)
	}
	for _, part := range []struct {
		what  string
		notes []arch.HFNote
	}{{"assumed", i.Assumed}, {"left out", i.Ignored}} {
		for _, n := range part.notes {
			lines = append(lines, fmt.Sprintf("%s: %s %s: %s", part.what, n.Key, n.Value, n.Reason))
		}
	}
	return lines
}
