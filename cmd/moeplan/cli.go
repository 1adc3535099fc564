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

// grammar is the command line. Its groups are the phases of the workflow, as moeplan workflow numbers them, then the rest.
type grammar struct {
	Contract contractCmd `cmd:"" group:"contract" help:"Write the contract under which a layout is measured."`

	Plan   planCmd   `cmd:"" group:"fit" default:"withargs" help:"Find, price and rank layouts (the default command)."`
	Mem    memCmd    `cmd:"" group:"fit" help:"Show where the memory of a layout goes, and what each choice would save."`
	Check  checkCmd  `cmd:"" group:"fit" help:"Judge a launch script or an argv: rules, memory, rank among ours."`
	Batch  batchCmd  `cmd:"" group:"fit" help:"Judge command lines: JSON lines in, JSON lines out."`
	Emit   emitCmd   `cmd:"" group:"fit" help:"Print the commands that check a layout on one GPU, or launch it."`
	Verify verifyCmd `cmd:"" group:"fit" help:"Hold the memory in a run's log against the prediction."`

	Size  sizeCmd  `cmd:"" group:"scale" help:"Size a cluster: the fewest GPUs, and a table over numbers of GPUs."`
	Ranks ranksCmd `cmd:"" group:"scale" help:"Show the process groups of a layout and where they lie."`

	Trace   traceCmd   `cmd:"" group:"profile" help:"Write the planned step of every pipeline rank as a trace for Perfetto."`
	Overlap overlapCmd `cmd:"" group:"profile" help:"Measure hidden and exposed communication in a profiler trace."`

	Next      nextCmd      `cmd:"" group:"retune" help:"What to try next on a layout, one variable at a time."`
	Diff      diffCmd      `cmd:"" group:"retune" help:"Compare two layouts: flags, bytes, links, time."`
	Calibrate calibrateCmd `cmd:"" group:"retune" help:"Fit the step times to measured runs of your own machine."`

	Evidence evidenceCmd `cmd:"" group:"validate" help:"Say what a run's log proves, alone or against another."`

	Workflow  workflowCmd  `cmd:"" group:"rest" help:"These phases as a checklist, filled in for a layout."`
	Report    reportCmd    `cmd:"" group:"rest" help:"Write the answer as one HTML file with pictures."`
	Serve     serveCmd     `cmd:"" group:"rest" help:"Serve that page on this machine, with a form to change the question."`
	Explain   explainCmd   `cmd:"" group:"rest" help:"Explain a rule or a term, or list them."`
	Models    modelsCmd    `cmd:"" group:"rest" help:"List the models, show one, or write your own from a config.json (models import)."`
	Platforms platformsCmd `cmd:"" group:"rest" help:"List the GPU platforms, show one with its sources, or write a template for your own."`
	Recipes   recipesCmd   `cmd:"" group:"rest" help:"Search the published layouts."`
	Validate  validateCmd  `cmd:"" group:"rest" help:"Compare moeplan's predictions with what was published and measured."`
	Config    configCmd    `cmd:"" group:"rest" help:"Show what is set in moeplan.yaml and the environment."`
	Version   versionCmd   `cmd:"" group:"rest" help:"Print the version."`

	Completion completionCmd `cmd:"" group:"rest" help:"Print a script that completes command lines in bash, zsh or fish."`
	Complete   completeCmd   `cmd:"" group:"rest" hidden:"" help:"Answer a completion script."`
}

// helpGroups are the headings of --help: commands by phase, flags by what they say.
var helpGroups = []kong.Group{
	{Key: "contract", Title: "1 Contract: freeze what is measured"},
	{Key: "fit", Title: "2 Fit: find the layout, price its memory, check it on one GPU"},
	{Key: "scale", Title: "3 Scale: how many GPUs, and which of them talk to each other"},
	{Key: "profile", Title: "4 Profile: where the time of a step goes"},
	{Key: "retune", Title: "5 Retune: one variable at a time"},
	{Key: "validate", Title: "6 Validate: what a run proves"},
	{Key: "rest", Title: "Beside the phases"},
	{Key: "commands", Title: "Commands:"},
	{Key: "question", Title: "The question:"},
	{Key: "machine", Title: "The machine, instead of the platform's figures:"},
	{Key: "run", Title: "The run:"},
	{Key: "search", Title: "The search:"},
}

const description = `moeplan finds the Megatron-Core layout to train a model with on a number of GPUs.

  moeplan --gpus 256 --model qwen3-235b

Exit codes: 0 done; 1 failure; 2 the layout breaks a rule, or no legal layout exists for what was pinned;
3 legal but nothing fits; 4 a measurement contradicts the prediction or the claim; 80 usage.`

// streams are where a command writes: results to out, everything else to err.
type streams struct{ out, err io.Writer }

// run parses and executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	exited := -1
	out := &sticky{w: stdout}
	from := newSettings(os.Getenv)
	output := outputTo(out, stdout, os.Getenv)
	out.color = output.Color
	s := streams{output, stderr}
	parser, err := newParser(grammarFor(args), s, func(code int) { exited = code },
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s), kong.Resolvers(from), kong.Bind(from))
	if err != nil {
		return complain(stderr, err, false)
	}
	asJSON := wantsJSON(args)
	if err := missingValue(parser.Model.Node, args); err != nil {
		return complain(stderr, err, asJSON)
	}
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
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	return complain(stderr, err, asJSON)
}

// newParser knows how moeplan's command lines are read and how its help looks; exit is told where that was all that was asked.
func newParser(grammar any, s streams, exit func(code int), options ...kong.Option) (*kong.Kong, error) {
	return kong.New(grammar, append(options,
		kong.Name("moeplan"),
		kong.Description(description),
		kong.Writers(s.out, s.err),
		kong.Exit(exit),
		kong.WithHyphenPrefixedParameters(true), // so that --seq -5 is an error about -5
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.ExplicitGroups(helpGroups),
	)...)
}

// sticky remembers the first failure to write a result, so that it is never taken for success, and lets nothing through that steers a
// terminal.
type sticky struct {
	w     io.Writer
	color bool // whether sequences of colour are ours
	err   error
}

func (s *sticky) Write(p []byte) (int, error) {
	if _, err := s.w.Write(tame(p, s.color)); err != nil {
		if s.err == nil {
			s.err = fmt.Errorf("the result could not be written: %w", err)
		}
		return 0, err
	}
	return len(p), nil
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
