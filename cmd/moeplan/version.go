package main

import (
	"fmt"
	"runtime/debug"
)

type versionCmd struct{}

func (c *versionCmd) Run(s streams) error {
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
	fmt.Fprintf(s.out, "moeplan %s%s (rules and flags: Megatron-LM d98e8a64dd, Core 0.20)\n", version, revision)
	return nil
}
