package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/moeplan/moeplan/cmd/internal/report"
)

type configCmd struct {
	Show configShowCmd `cmd:"" group:"commands" default:"withargs" help:"Show each setting's value and where it comes from."`
}

// Help is the part of the usage below the summary.
func (configCmd) Help() string {
	return `Settings are flags without their dashes in a file moeplan.yaml: in the working directory or the nearest above it, and in the
user's configuration directory. Models and platforms of your own lie beside it.

  gpu: h100
  grads: bf16
  headroom: 12
  tp: [1, 2, 4]

A flag wins over the environment (MOEPLAN_GPU, MOEPLAN_GLOBAL_BATCH, ...), that over the project's file, that over the user's,
that over the default. MOEPLAN_CONFIG names another file, or none.

  moeplan config show

Exit codes: 0 done; 80 a file at fault.`
}

type configShowCmd struct {
	machine     `embed:""`
	runFlags    `embed:""`
	searchFlags `embed:""`
	Top         int    `default:"10" help:"How many plans to list."`
	All         bool   `help:"List settings that nobody gave as well."`
	Output      string `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

// settingRow is one setting as it holds.
type settingRow struct {
	Key   string  `json:"key"`   // the flag's name without its dashes
	Value *string `json:"value"` // as it was written; null if there is none
	// From is flag, default, the environment variable, or file:line.
	From string `json:"from"`
}

func (c *configShowCmd) Run(s streams, k *kong.Context, from *settings) error {
	typed := map[string]bool{}
	for _, p := range k.Path {
		if p.Flag != nil && !p.Resolved {
			typed[p.Flag.Name] = true
		}
	}
	rows := []settingRow{}
	for _, f := range k.Selected().Flags {
		if from.knows(f.Name) {
			row := settingRow{Key: f.Name, From: "default"}
			used, ok := from.used[f.Name]
			switch {
			case typed[f.Name]:
				row.From = "flag"
			case ok && used.Line > 0:
				row.From = used.Where()
			case ok:
				row.From = used.File
			}
			if value := fmt.Sprint(k.FlagValue(f)); row.From != "default" || f.HasDefault {
				row.Value = &value
				if ok && row.From != "flag" {
					row.Value = &used.Value
				} else if typed[f.Name] {
					text := typedText(k, f)
					row.Value = &text
				}
			}
			rows = append(rows, row)
		}
	}
	if c.Output == "json" {
		return writeJSON(s.out, rows)
	}
	t := report.Table{Head: []string{"setting", "value", "from"}, Text: []int{0, 1, 2}}
	for _, r := range rows {
		if r.From == "default" && !c.All {
			continue
		}
		value := "-"
		if r.Value != nil {
			value = *r.Value
		}
		t.Add(r.Key, value, r.From)
	}
	if err := t.Write(s.out, report.Text); err != nil {
		return err
	}
	if !c.All {
		_, err := fmt.Fprintln(s.out, "the rest are defaults; --all lists them")
		return err
	}
	return nil
}

// typedText is a flag's value as it was typed.
func typedText(k *kong.Context, f *kong.Flag) string {
	text := ""
	for i, a := range k.Args {
		if value, ok := strings.CutPrefix(a, "--"+f.Name+"="); ok {
			text = value
		} else if a == "--"+f.Name {
			if text = "true"; !f.IsBool() && i+1 < len(k.Args) {
				text = k.Args[i+1]
			}
		}
	}
	return text
}
