package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// grammar is the command line.
type grammar struct {
	Plan      planCmd      `cmd:"" default:"withargs" help:"Find, price and rank layouts (the default command)."`
	Check     checkCmd     `cmd:"" help:"Judge a launch script or an argv: rules, memory, rank among ours."`
	Batch     batchCmd     `cmd:"" help:"Judge command lines: JSON lines in, JSON lines out."`
	Workflow  workflowCmd  `cmd:"" help:"The workflow of the field as a checklist, filled in for the best plan."`
	Next      nextCmd      `cmd:"" help:"What to try next on a layout, one variable at a time."`
	Emit      emitCmd      `cmd:"" help:"Print the commands that check a layout on one GPU."`
	Verify    verifyCmd    `cmd:"" help:"Hold the memory in a run's log against the prediction."`
	Contract  contractCmd  `cmd:"" help:"Write the contract under which a layout is measured."`
	Evidence  evidenceCmd  `cmd:"" help:"Say what a run's log proves, alone or against another."`
	Overlap   overlapCmd   `cmd:"" help:"Measure hidden and exposed communication in a profiler trace."`
	Mem       memCmd       `cmd:"" help:"Show where the memory of a layout goes, and what each choice would save."`
	Diff      diffCmd      `cmd:"" help:"Compare two layouts: flags, bytes, links, time."`
	Size      sizeCmd      `cmd:"" help:"Size a cluster: the fewest GPUs, and a table over numbers of GPUs."`
	Trace     traceCmd     `cmd:"" help:"Write the planned step of every pipeline rank as a trace for Perfetto."`
	Report    reportCmd    `cmd:"" help:"Write the answer as one HTML file with pictures."`
	Serve     serveCmd     `cmd:"" help:"Serve that page on this machine, with a form to change the question."`
	Ranks     ranksCmd     `cmd:"" help:"Show the process groups of a layout and where they lie."`
	Explain   explainCmd   `cmd:"" help:"Explain a rule or a term, or list them."`
	Validate  validateCmd  `cmd:"" help:"Compare predictions with what was published and measured."`
	Calibrate calibrateCmd `cmd:"" help:"Fit the step times to measured runs of your own machine."`
	Recipes   recipesCmd   `cmd:"" help:"Search the published layouts."`
	Models    modelsCmd    `cmd:"" help:"List the models of the catalogue, or show one."`
	Platforms platformsCmd `cmd:"" help:"List the GPU platforms, or show one with its sources."`
	Config    configCmd    `cmd:"" help:"Show what is set in moeplan.yaml and the environment."`
	Version   versionCmd   `cmd:"" help:"Print the version."`

	Completion completionCmd `cmd:"" help:"Print a script that completes command lines in bash, zsh or fish."`
	Complete   completeCmd   `cmd:"" hidden:"" help:"Answer a completion script."`
}

const description = `moeplan finds the Megatron-Core layout to train a model with on a number of GPUs.

  moeplan --gpus 256 --model qwen3-235b

Exit codes: 0 done; 1 failure; 2 the layout breaks a rule, or no legal layout exists for what was pinned;
3 legal but nothing fits; 80 usage.`

// streams are where a command writes: results to out, everything else to err.
type streams struct{ out, err io.Writer }

// run parses and executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var g grammar
	exited := -1
	out := &sticky{w: stdout}
	results := outputTo(out, stdout, os.Getenv)
	parser, err := kong.New(&g,
		kong.Name("moeplan"),
		kong.Description(description),
		kong.Writers(out, stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.WithHyphenPrefixedParameters(true), // so that --seq -5 is an error about -5
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(streams{results, stderr}),
	)
	if err != nil {
		return complain(stderr, err, false)
	}
	from := newSettings(parser.Model, os.Getenv)
	for _, o := range []kong.Option{kong.Resolvers(from), kong.Bind(from)} {
		if err := o.Apply(parser); err != nil {
			return complain(stderr, err, false)
		}
	}
	asJSON := wantsJSON(args)
	k, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		return complain(stderr, from.blame(err), asJSON)
	}
	if note := from.note(); note != "" && !asJSON && !strings.HasPrefix(k.Command(), "config") {
		fmt.Fprintln(stderr, note)
	}
	err = from.blame(k.Run())
	if exited >= 0 {
		return exited
	}
	if err == nil {
		err = out.err
	}
	return complain(stderr, err, asJSON)
}

// sticky remembers the first failure to write a result, so that it is never taken for success.
type sticky struct {
	w   io.Writer
	err error
}

func (s *sticky) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("the result could not be written: %w", err)
	}
	return n, err
}

// wantsJSON tells from the bare arguments whether errors are to be JSON, since they may be errors of parsing.
func wantsJSON(args []string) bool {
	for i, a := range args {
		switch {
		case a == "--":
			return false
		case a == "-ojson", a == "-o=json", a == "--output=json":
			return true
		case (a == "-o" || a == "--output") && i+1 < len(args):
			return args[i+1] == "json"
		}
	}
	return false
}

// errHandled is returned by commands that have written their own report; errNothingFits by those that need a plan.
var (
	errHandled     = errors.New("handled")
	errNothingFits = errors.New("nothing fits")
)
