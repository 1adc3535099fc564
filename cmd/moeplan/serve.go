package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"

	"github.com/moeplan/moeplan/cmd/internal/live"
	"github.com/moeplan/moeplan/cmd/internal/page"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
)

type serveCmd struct {
	Listen string   `default:"127.0.0.1:8080" help:"Address to listen on. Other machines reach one that is not loopback."`
	Host   []string `placeholder:"NAME" help:"Host name under which the page may be opened, besides localhost and addresses; repeatable."`
}

// Help is the part of the usage below the summary.
func (serveCmd) Help() string {
	return `Serves the report as a page on which the question can be changed. It writes no files and answers only this machine, unless
--listen says otherwise; Ctrl-C ends it.

  moeplan serve --listen 127.0.0.1:8080

Exit codes: 0 done; 1 the address cannot be listened on; 80 usage.`
}

func (c *serveCmd) Run(ctx context.Context, s streams) error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return usage("--listen %q: want ADDRESS:PORT, such as 127.0.0.1:8080", c.Listen)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return err
	}
	if a, ok := listener.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		fmt.Fprintf(s.err, "moeplan: %s is reached from other machines, and there is no password\n", c.Listen)
	}
	fmt.Fprintf(s.err, "moeplan: open http://%s/ (Ctrl-C ends it)\n", listener.Addr())
	server := live.Server{Ask: answerForm, Fields: formFields(), Names: c.Host}
	return server.Serve(ctx, listener)
}

// formPlans is how many plans a live page shows: few, so that it answers at once.
const formPlans = 6

// answerForm answers what a form holds. Names are those of the catalogues and nothing else: a command line may name
// files, a request may not.
func answerForm(ctx context.Context, q url.Values) (*page.Answer, error) {
	c := reportCmd{machine: machine{Model: q.Get("model"), GPU: q.Get("gpu")},
		runFlags:    runFlags{Precision: q.Get("precision"), Moments: q.Get("moments"), Grads: q.Get("grads"), Order: "tp-cp-ep-dp-pp"},
		searchFlags: searchFlags{Recompute: q.Get("recompute"), Objective: q.Get("objective"), Wide: q.Get("wide") == "yes"}}
	if isFile(c.Model) || isFile(c.GPU) {
		return nil, errors.New("files are not read here")
	}
	for _, dtype := range []string{c.Moments, c.Grads} {
		if dtype != "fp32" && dtype != "bf16" {
			return nil, fmt.Errorf("%q is neither fp32 nor bf16", dtype)
		}
	}
	if _, err := plan.ParseObjective(c.Objective); err != nil {
		return nil, err
	}
	for _, n := range []struct {
		name string
		into **int
	}{{"gpus", &c.GPUs}, {"seq", &c.Seq}, {"global-batch", &c.GlobalBatch}} {
		if text := q.Get(n.name); text != "" {
			value, err := strconv.Atoi(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is not a number", n.name, text)
			}
			*n.into = &value
		}
	}
	for _, pin := range []struct {
		name string
		into *layout.Range
	}{{"tp", &c.TP}, {"cp", &c.CP}, {"pp", &c.PP}, {"ep", &c.EP}, {"etp", &c.ETP}, {"vpp", &c.VPP}, {"mbs", &c.MBS}} {
		if text := q.Get(pin.name); text != "" {
			if err := pin.into.UnmarshalText([]byte(text)); err != nil {
				return nil, fmt.Errorf("%s: %w", pin.name, err)
			}
		}
	}
	r, err := c.request(&c.runFlags)
	if err != nil {
		return nil, err
	}
	if err := c.bound(&r); err != nil {
		return nil, err
	}
	r.Top = formPlans
	a, err := page.Ask(ctx, r)
	if err != nil {
		return nil, err
	}
	a.Flags, a.Version = c.flagText(&c.runFlags), versionText()
	return a, nil
}

// formFields are the questions of the live page, with the defaults of DESIGN's contract.
func formFields() []live.Field {
	var models, platforms []string
	for _, m := range arch.All() {
		if plan.Supported(m) == nil {
			models = append(models, m.ID)
		}
	}
	slices.Sort(models)
	for _, p := range topology.Platforms() {
		platforms = append(platforms, p.ID)
	}
	bits := []string{"fp32", "bf16"}
	fields := []live.Field{
		{Name: "model", Label: "Model", Choices: models, Default: "qwen3-235b-a22b"},
		{Name: "gpus", Label: "GPUs", Default: "256", Number: true},
		{Name: "gpu", Label: "Kind of GPU", Choices: platforms, Default: defaultGPU},
		{Name: "seq", Label: "Sequence length", Placeholder: "4096", Number: true},
		{Name: "global-batch", Label: "Global batch", Placeholder: "8 Mi tokens", Number: true},
		{Name: "recompute", Label: "Recompute", Placeholder: "cheapest that fits"},
		{Name: "precision", Label: "Precision", Choices: []string{"bf16", "fp16", "fp8-tensorwise", "fp8-blockwise", "mxfp8"},
			Default: "bf16", Pin: true},
		{Name: "grads", Label: "Gradients", Choices: bits, Default: "fp32", Pin: true},
		{Name: "moments", Label: "Moments", Choices: bits, Default: "fp32", Pin: true},
		{Name: "objective", Label: "Order by", Choices: []string{"time", "memory", "locality", "workflow"},
			Default: "time", Pin: true},
		{Name: "wide", Label: "Longer CP, ETP > 1", Choices: []string{"no", "yes"}, Default: "no", Pin: true},
	}
	for _, pin := range []struct{ name, label string }{{"tp", "TP"}, {"cp", "CP"}, {"pp", "PP"}, {"ep", "EP"}, {"etp", "ETP"},
		{"vpp", "VPP"}, {"mbs", "Micro-batch"}} {
		fields = append(fields, live.Field{Name: pin.name, Label: pin.label, Placeholder: "2 | 1,2 | 2..8", Pin: true})
	}
	return fields
}
