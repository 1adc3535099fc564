package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/layout/script"
	"github.com/moeplan/moeplan/topology"
)

type checkCmd struct {
	File string   `arg:"" optional:"" help:"Launch script (bash), YAML of arguments, or - for a script on standard input. Nothing in it is executed."`
	Args []string `arg:"" optional:"" passthrough:"" help:"Instead of a file: an argv after --."`

	GPU       string            `name:"gpu" help:"Kind of GPU (default h100): a name or a YAML file."`
	World     int               `name:"world" aliases:"gpus" help:"Number of GPUs, where the script does not say."`
	Set       map[string]string `help:"A variable that the script takes from its environment, NAME=VALUE."`
	Model     string            `help:"Model of the catalogue, for dialects that take the architecture from a checkpoint or a recipe."`
	Release   string            `name:"megatron-version" default:"main" help:"Megatron-Core release: 0.11 to main."`
	TE        string            `name:"te-version" help:"Transformer Engine version, such as 2.9.0."`
	Headroom  *float64          `help:"GiB to keep free above all that the card sees; see explain headroom."`
	Trainable float64           `name:"trainable-fraction" default:"1" help:"Share of the parameters that is trained, as with LoRA."`
	Reserve   float64           `name:"reserve-gib" help:"GiB that something else on the GPU takes."`
	Output    string            `short:"o" enum:"table,json" default:"table" help:"Format: table or json."`
}

// maxScript bounds what is read of a launch script.
const maxScript = 1 << 20

// teVersion is how Transformer Engine's versions begin.
var teVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,6}\.[0-9]{1,6}($|[.a-z+])`) })

func (c *checkCmd) Run(ctx context.Context, s streams) error {
	if c.TE != "" && !teVersion().MatchString(c.TE) {
		return usage("--te-version %q is no version: such as 2.9.0 or 2.10", c.TE)
	}
	p, err := lookupPlatform(cmp.Or(c.GPU, defaultGPU))
	if err != nil {
		return err
	}
	if err := keptFree(p, c.Headroom, c.Reserve); err != nil {
		return err
	}
	release, err := megatron.ParseRelease(c.Release)
	if err != nil {
		return &coded{exitUsage, err}
	}
	read, command, err := c.read(ctx)
	if err != nil {
		return err
	}
	out := report.Checked{Script: read, Command: command, Platform: p.ID}
	argv, err := c.argv(command)
	if err != nil {
		return err
	}
	world := command.World.N
	if c.World > 0 {
		world, out.WorldGiven = c.World, true
	}
	if world < 1 {
		name := cmp.Or(c.File, "the argv")
		if strings.HasPrefix(name, "--") {
			name = "the argv"
		}
		why := command.World.From
		for _, count := range []script.Count{command.PerNode, command.Nodes} {
			if count.N < 1 && count.From != "" {
				why = count.From
			}
		}
		if why != "" {
			why = " (" + why + ")"
		}
		return usage("%s does not say on how many GPUs it runs%s: give --world", name, why)
	}
	out.World = world
	if !(c.Trainable > 0 && c.Trainable <= 1) {
		return usage("--trainable-fraction %g: it lies above 0 and up to 1", c.Trainable)
	}
	launch := plan.Launch{Argv: argv, World: world, Env: command.Env, Platform: p, Release: release, TrainableFraction: c.Trainable}
	launch.Checks.TransformerEngine, launch.Checks.ComputeCapability = c.TE, p.SM.Int()/10
	out.Judgement, err = plan.Judge(ctx, launch)
	if err != nil {
		return &coded{exitUsage, err}
	}
	if err := c.place(ctx, p, &out); err != nil {
		return err
	}
	if c.Output == "json" {
		err = writeJSON(s.out, out.JSON())
	} else {
		report.Check(s.out, &out)
	}
	switch {
	case err != nil:
		return err
	case !out.Judgement.Violations.Legal():
		return &coded{exitIllegal, errHandled}
	case out.Fit != nil && out.Fit.Grade == plan.No:
		return &coded{exitNoFit, errHandled}
	}
	return nil
}

// read finds the launch in what was given.
func (c *checkCmd) read(ctx context.Context) (*script.Script, *script.Command, error) {
	var s *script.Script
	var err error
	switch {
	case c.File == "" && len(c.Args) == 0:
		return nil, nil, usage("no file and no argv: moeplan check run.sh, or moeplan check -- --num-layers 94 ...")
	case strings.HasPrefix(c.File, "--") || c.File == "":
		args := c.Args
		if c.File != "" && c.File != "--" {
			args = append([]string{c.File}, args...)
		}
		s, err = script.ReadArgs("argv", args)
	case c.File == "-":
		s, err = script.Read(ctx, "standard input", os.Stdin, script.Options{Set: c.Set, MaxBytes: maxScript})
	default:
		f, openErr := os.Open(c.File)
		if openErr != nil {
			return nil, nil, openErr
		}
		defer f.Close()
		s, err = script.Read(ctx, c.File, f, script.Options{Set: c.Set, Sources: os.DirFS(filepath.Dir(c.File)), Args: c.Args, MaxBytes: maxScript})
	}
	if s == nil || s.Training() == nil {
		if err == nil {
			err = noLaunch(cmp.Or(c.File, "the argv"), s)
		}
		return nil, nil, &coded{exitUsage, err}
	}
	return s, s.Training(), nil
}

// noLaunch says why no launch was found, as far as it is known: a loop without an end hides what follows it.
func noLaunch(name string, s *script.Script) error {
	const most = 5
	problems := []error{fmt.Errorf("no launch of a training program found in %s", name)}
	if s != nil {
		for i := range s.Warnings[:min(most, len(s.Warnings))] {
			w := &s.Warnings[i]
			at := cmp.Or(w.File, name)
			if w.Line > 0 {
				at += ":" + strconv.Itoa(w.Line)
			}
			problems = append(problems, fmt.Errorf("%s: %s", at, w.Message))
		}
	}
	return errors.Join(problems...)
}

// argv is the command in Megatron-LM's words, with the architecture of --model in front where one was given.
func (c *checkCmd) argv(command *script.Command) ([]string, error) {
	if command.Dialect == script.Unknown {
		return nil, &coded{exitUsage, fmt.Errorf("%s is none of the programs whose arguments moeplan reads", command.Program)}
	}
	argv := command.Megatron
	if c.Model == "" {
		return argv, nil
	}
	m, err := lookupModel(c.Model)
	if err != nil {
		return nil, err
	}
	return append(append([]string(nil), m.MegatronFlags...), argv...), nil
}

// place judges the fit, and where the layout would rank among ours.
func (c *checkCmd) place(ctx context.Context, p *topology.Platform, out *report.Checked) error {
	j := out.Judgement
	if j.Layout == nil || j.Model == nil || len(j.Stages) == 0 {
		return nil
	}
	l := j.Layout
	r := plan.Request{Model: j.Model, Platform: p, GPUs: l.World, SeqLength: l.SeqLength, GlobalBatchSize: l.GlobalBatchSize,
		Precision: l.Precision, Order: l.Order, HeadroomGiB: c.Headroom, ReserveGiB: c.Reserve, TrainableFraction: c.Trainable}
	fit, err := plan.Judged(r, j.Stages)
	if err != nil {
		out.NotPlaced = err.Error()
		return nil
	}
	out.Fit = fit
	if out.NotPlaced = j.Untimed; out.NotPlaced != "" {
		return nil
	}
	if !j.Violations.Legal() || layout.Check(j.Model, l).Errors() != nil {
		return nil
	}
	base, err := plan.CompareBase(ctx, r, *l)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		out.NotPlaced = err.Error()
	}
	out.Base = base
	return nil
}
