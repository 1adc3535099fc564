package main

import (
	"strings"
	"testing"

	"github.com/moeplan/moeplan/topology"
)

// TestFigureFlags: errors about an unknown figure name the flag that supplies it, so that flag must be there.
func TestFigureFlags(t *testing.T) {
	_, help, _ := command(t, "plan", "--help")
	flags := map[topology.FigureID]string{}
	for _, f := range (&machine{}).figures() {
		flags[f.id] = f.flag
		if !strings.Contains(help, f.flag+"=") {
			t.Errorf("%s is no flag of plan", f.flag)
		}
	}
	for _, id := range topology.Figures() {
		if id.Flag() != flags[id] {
			t.Errorf("%s: errors name the flag %q, the command line has %q", id, id.Flag(), flags[id])
		}
	}
}
