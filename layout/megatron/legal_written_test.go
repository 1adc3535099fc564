package megatron

import (
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

// What is written for a legal layout is a legal command line: the rules of a layout and those of a command line agree. The
// real argument checks and configs accepted these runs (fixtures_test.go).
func TestWrittenCommandsAreLegal(t *testing.T) {
	commands := 0
	eachCommand(t, func(t *testing.T, m *arch.Model, l *layout.Layout, c *Command) {
		for _, run := range c.Runs {
			env := map[string]string{}
			for _, v := range run.Env {
				env[v.Name] = v.Value
			}
			_, vs, err := CheckArgv(run.Argv[2:], Main, l.World, env, CheckSettings{NoRepairs: true})
			if err != nil {
				t.Fatal(err)
			}
			commands++
			for _, v := range vs.Errors() {
				t.Errorf("%v", v.Error())
			}
		}
	})
	t.Logf("%d commands", commands)
}
