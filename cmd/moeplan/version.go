package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology"
)

type versionCmd struct {
	Output string `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

// build is what a binary is made of: the program, and the data in it.
type build struct {
	Version  string `json:"version"`  // of the release; "devel" for a build from a working tree
	Revision string `json:"revision"` // commit; "" where the build does not say
	Modified bool   `json:"modified"` // whether the tree was not that commit
	Go       string `json:"go"`       // version of the Go compiler
	OS       string `json:"os"`       // as Go names it: linux, darwin, windows
	Arch     string `json:"arch"`     // as Go names it: amd64, arm64
	// Megatron is the state of the framework that rules and flags are read from.
	Megatron string `json:"megatron_lm"`

	Models int `json:"models"` // models in the catalogue
	// GPU platforms in the catalogue
	Platforms int `json:"platforms"`
}

// framework is where rules and flags are read from.
const framework = "d98e8a64dd, Core 0.20"

// program says what is cheap to know; the data of a full version are read for it.
func program() build {
	b := build{Version: "devel", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Megatron: framework}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, kv := range info.Settings {
		switch kv.Key {
		case "vcs.revision":
			b.Revision = kv.Value
		case "vcs.modified":
			b.Modified = kv.Value == "true"
		}
	}
	return b
}

func (c *versionCmd) Run(s streams) error {
	b := program()
	b.Models, b.Platforms = len(arch.All()), len(topology.Platforms())
	if c.Output == "json" {
		return writeJSON(s.out, b)
	}
	_, err := fmt.Fprintf(s.out, "%s\nbuilt with %s for %s/%s\ndata: %d models, %d platforms\n",
		versionText(), b.Go, b.OS, b.Arch, b.Models, b.Platforms)
	return err
}

// versionText names the program and the framework whose rules it knows.
func versionText() string {
	b := program()
	text := "moeplan " + b.Version
	if b.Revision != "" {
		text += " " + b.Revision
	}
	if b.Modified {
		text += " (modified)"
	}
	return fmt.Sprintf("%s (rules and flags: Megatron-LM %s)", text, framework)
}
