package main

import (
	"fmt"
	"runtime/debug"
)

type versionCmd struct{}

func (c *versionCmd) Run(s streams) error {
	_, err := fmt.Fprintln(s.out, versionText())
	return err
}

// versionText names the program and the framework whose rules it knows.
func versionText() string {
	version, revision := "devel", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := info.Main.Version; v != "" && v != "(devel)" {
			version = v
		}
		for _, kv := range info.Settings {
			if kv.Key == "vcs.revision" {
				revision = " " + kv.Value
			}
		}
	}
	return fmt.Sprintf("moeplan %s%s (rules and flags: Megatron-LM d98e8a64dd, Core 0.20)", version, revision)
}
