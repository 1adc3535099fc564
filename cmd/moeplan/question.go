package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/moeplan/moeplan/cmd/internal/config"
	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

// defaultGPU is DESIGN's.
const defaultGPU = "h100"

// minFigure and maxFigure bound what a person may say of a machine.
const minFigure, maxFigure = 1e-3, 1e6

// machine flags choose the model, the GPUs and what is known about them. Every command that prices a layout has them.
type machine struct {
	Model string `group:"question" help:"Model (required), by any obvious short form (moeplan models lists them), or a YAML file."`
	GPUs  *int   `name:"gpus" group:"question" help:"Number of GPUs (required)."`
	GPU   string `name:"gpu" group:"question" help:"Kind of GPU (default h100): a name that moeplan platforms lists, or a YAML file."`

	Domain     *int     `group:"machine" help:"GPUs per NVLink domain, instead of the platform's."`
	Node       *int     `name:"gpus-per-node" group:"machine" help:"GPUs per node, instead of the platform's."`
	MemoryGiB  *float64 `name:"memory-gib" group:"machine" help:"Memory of a GPU in GiB as nvidia-smi shows it."`
	NICGbit    *float64 `name:"nic-gbit" group:"machine" help:"Network rate per GPU in Gbit/s."`
	NVLinkGBps *float64 `name:"nvlink-gbps" group:"machine" help:"NVLink rate per GPU and direction in GB/s."`
	HBMGBps    *float64 `name:"hbm-gbps" group:"machine" help:"Memory bandwidth in GB/s."`
	BF16TFLOPS *float64 `name:"bf16-tflops" group:"machine" help:"Dense BF16 TFLOPS."`
	SM         *float64 `name:"sm" group:"machine" help:"Compute capability times ten, such as 90."`

	brought *brought // by a plan file; nil without one
}

// run flags set what the training run fixes.
type runFlags struct {
	Seq         *int     `group:"run" help:"Sequence length (default 4096)."`
	GlobalBatch *int     `group:"run" help:"Global batch size in sequences (default: 8 Mi tokens a step, a multiple of the GPUs)."`
	Precision   string   `default:"bf16" group:"run" help:"bf16, fp16, fp8-tensorwise, fp8-blockwise or mxfp8."`
	Imbalance   *float64 `group:"run" help:"Load of the fullest expert rank over the mean (default 1, balanced)."`
	Moments     string   `enum:"fp32,bf16" default:"fp32" group:"run" help:"Adam's moments: fp32, or bf16 with the precision-aware optimizer."`
	Grads       string   `enum:"fp32,bf16" default:"fp32" group:"run" help:"Main gradients: fp32 or bf16."`
	Order       string   `default:"tp-cp-ep-dp-pp" group:"run" help:"Rank order: tp-cp-ep-dp-pp or tp-cp-ep-pp-dp."`
	Headroom    *float64 `group:"run" help:"GiB to keep free above all that the card sees (default: none, but the allocated peak stays well below; see explain headroom)."`
	ReserveGiB  float64  `name:"reserve-gib" group:"run" help:"GiB that something else on the GPU takes."`
	Offload     string   `enum:"none,activations,optimizer,both" default:"none" group:"run" help:"Keep on the host: activations, optimizer or both. Times do not include it."`
	Trainable   *float64 `name:"trainable-fraction" group:"run" help:"Share of the parameters that is trained, as with LoRA; the rest has neither gradients nor optimizer state."`
	Calibration string   `placeholder:"FILE" group:"run" help:"Step times as moeplan calibrate fitted them to your machine."`
}

// figureFlag is one figure of the machine that a person may give.
type figureFlag struct {
	flag  string
	id    topology.FigureID
	value *float64
}

// figures lists the machine's figures with what was given for each.
func (f *machine) figures() []figureFlag {
	whole := func(n *int) *float64 {
		if n == nil {
			return nil
		}
		x := float64(*n)
		return &x
	}
	return []figureFlag{
		{"--domain", topology.FigureDomain, whole(f.Domain)}, {"--gpus-per-node", topology.FigureNode, whole(f.Node)},
		{"--memory-gib", topology.FigureMemory, f.MemoryGiB}, {"--nic-gbit", topology.FigureNIC, f.NICGbit},
		{"--nvlink-gbps", topology.FigureNVLink, f.NVLinkGBps}, {"--hbm-gbps", topology.FigureHBM, f.HBMGBps},
		{"--bf16-tflops", topology.FigureBF16, f.BF16TFLOPS}, {"--sm", topology.FigureSM, f.SM},
	}
}

// resolve looks the model and the platform up.
func (f *machine) resolve() (*arch.Model, *topology.Platform, error) {
	if f.Model == "" {
		return nil, nil, usage("no --model: try --model qwen3-235b; moeplan models lists them")
	}
	m, p, err := f.lookup()
	if err != nil {
		return nil, nil, err
	}
	var overrides []topology.Override
	for _, o := range f.figures() {
		if o.value == nil {
			continue
		}
		if !(*o.value >= minFigure && *o.value <= maxFigure) {
			return nil, nil, usage("%s %g cannot be meant: it lies between %g and %g", o.flag, *o.value, minFigure, maxFigure)
		}
		overrides = append(overrides, topology.Override{Figure: o.id, Value: *o.value})
	}
	if len(overrides) > 0 {
		if p, err = p.With(overrides...); err != nil {
			return nil, nil, &coded{exitUsage, err}
		}
	}
	return m, p, nil
}

// lookup finds what the flags name, or takes what a plan file brings.
func (f *machine) lookup() (*arch.Model, *topology.Platform, error) {
	if f.brought != nil {
		return f.brought.model, f.brought.platform, nil
	}
	m, err := lookupModel(f.Model)
	if err != nil {
		return nil, nil, err
	}
	p, err := lookupPlatform(cmp.Or(f.GPU, defaultGPU))
	return m, p, err
}

// isFile tells the file of a platform or a model from a name.
func isFile(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// gpuFile is the file that describes the platform, "" for one of the catalogue.
func (f *machine) gpuFile() string {
	if isFile(f.GPU) {
		return f.GPU
	}
	return ""
}

// modelFile is the file that describes the model, "" for one of the catalogue.
func (f *machine) modelFile() string {
	if isFile(f.Model) {
		return f.Model
	}
	return ""
}

// lookupModel finds a model of the catalogue, or reads a YAML file.
func lookupModel(name string) (*arch.Model, error) {
	if !isFile(name) {
		return arch.Lookup(name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, &coded{exitUsage, err}
	}
	defer f.Close()
	m, err := config.ReadModel(name, f)
	if err != nil {
		return nil, &coded{exitUsage, err}
	}
	return m, nil
}

// lookupPlatform finds a platform of the catalogue, or reads a YAML file.
func lookupPlatform(name string) (*topology.Platform, error) {
	if !isFile(name) {
		return topology.LookupPlatform(name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, &coded{exitUsage, err}
	}
	defer f.Close()
	p, err := config.ReadPlatform(name, f)
	if err != nil {
		return nil, &coded{exitUsage, err}
	}
	return p, nil
}

// request turns flags into the part of a request that every command shares.
func (f *machine) request(run *runFlags) (plan.Request, error) {
	m, p, err := f.resolve()
	if err != nil {
		return plan.Request{}, err
	}
	r := plan.Request{Model: m, Platform: p, AssumedPlatform: f.GPU == "", ReserveGiB: run.ReserveGiB, HeadroomGiB: run.Headroom,
		LowPrecisionMoments: run.Moments == "bf16", BF16Gradients: run.Grads == "bf16"}
	if f.GPUs == nil {
		return r, usage("no --gpus: how many GPUs are there?")
	}
	r.GPUs = *f.GPUs
	// Numbers are judged one by one, and what is wrong with them is told together.
	var problems []error
	wrong := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	if err := positive("--gpus", r.GPUs, layout.MaxSize); err != nil {
		wrong(err)
	} else {
		wrong(wholeNodes(r.GPUs, p))
	}
	for _, n := range []struct {
		name  string
		value *int
		into  *int
	}{{"--seq", run.Seq, &r.SeqLength}, {"--global-batch", run.GlobalBatch, &r.GlobalBatchSize}} {
		if n.value != nil {
			wrong(positive(n.name, *n.value, layout.MaxSequence))
			*n.into = *n.value
		}
	}
	if r.Precision, err = layout.ParsePrecision(run.Precision); err != nil {
		wrong(&coded{exitUsage, err})
	}
	r.Order, err = parseOrder(run.Order)
	wrong(err)
	switch {
	case run.Imbalance != nil && m.MoE == nil:
		wrong(usage("--imbalance: %s has no experts", m.ID))
	case run.Imbalance != nil && !(*run.Imbalance >= 1 && *run.Imbalance <= plan.MostImbalance(m, layout.MaxSize)):
		wrong(usage("--imbalance %g: balanced is 1, and %g is the most that top-%d of %d experts allows", *run.Imbalance,
			plan.MostImbalance(m, layout.MaxSize), m.MoE.TopK, m.MoE.NumExperts))
	case run.Imbalance != nil:
		r.Imbalance = *run.Imbalance
	}
	if err := keptFree(p, run.Headroom, run.ReserveGiB); err != nil {
		wrong(err)
	}
	if run.Offload != "none" {
		r.Offload = plan.Offload(run.Offload)
	}
	if f := run.Trainable; f != nil {
		if !(*f > 0 && *f <= 1) {
			wrong(usage("--trainable-fraction %g: it lies above 0 and up to 1", *f))
		}
		r.TrainableFraction = *f
	}
	if len(problems) > 0 {
		return r, errors.Join(problems...)
	}
	if f.brought != nil && f.brought.factors != nil {
		r.Factors = *f.brought.factors
	}
	if run.Calibration != "" {
		c, err := calibration(run.Calibration, p)
		if err != nil {
			return r, err
		}
		if r.Factors = c.Factors.Of(); r.Factors == (steptime.Factors{Compute: 1, NVLink: 1, NIC: 1, Host: 1}) {
			r.Factors = steptime.Factors{}
		}
		if c.Memory != nil {
			r.ReserveGiB += max(0, c.Memory.OffsetGiB)
		}
	}
	return r, nil
}

// keptFree refuses a headroom or a reservation that the GPU does not have. A platform of unknown memory refuses elsewhere.
func keptFree(p *topology.Platform, headroom *float64, reserve float64) error {
	var problems []error
	if h := headroom; h != nil && !(*h >= 0 && *h < p.MemoryGiB.Value) {
		problems = append(problems, usage("--headroom %g: it lies between 0 and the %g GiB of %s", *h, p.MemoryGiB.Value, p.ID))
	}
	if reserve != 0 && !(reserve >= 0 && reserve < p.MemoryGiB.Value) {
		problems = append(problems, usage("--reserve-gib %g: it lies between 0 and the %g GiB of %s", reserve, p.MemoryGiB.Value, p.ID))
	}
	return errors.Join(problems...)
}

// flagText writes the flags that ask the same question, as far as a layout's text does not say them.
func (f *machine) flagText(run *runFlags) string {
	var b strings.Builder
	for _, o := range f.figures() {
		if o.value != nil {
			fmt.Fprintf(&b, " %s %g", o.flag, *o.value)
		}
	}
	if run.Moments != "fp32" {
		fmt.Fprintf(&b, " --moments %s", run.Moments)
	}
	if run.Grads != "fp32" {
		fmt.Fprintf(&b, " --grads %s", run.Grads)
	}
	if run.Offload != "none" {
		fmt.Fprintf(&b, " --offload %s", run.Offload)
	}
	if run.Trainable != nil {
		fmt.Fprintf(&b, " --trainable-fraction %g", *run.Trainable)
	}
	return b.String()
}

// wholeNodes refuses a number of GPUs that no launcher spreads evenly: neither whole nodes nor an even part of one.
func wholeNodes(gpus int, p *topology.Platform) error {
	node := p.Node.Int()
	if !p.Node.Known || gpus%node == 0 || node%gpus == 0 {
		return nil
	}
	if gpus < node {
		near := layout.NearestDivisors(node, gpus)
		return usage("--gpus %d: a node of %s has %d GPUs, and %d do not share it evenly: try %d or %d (or --gpus-per-node %d)",
			gpus, p.ID, node, gpus, near[0], near[len(near)-1], gpus)
	}
	near := layout.NearestMultiples(node, gpus)
	return usage("--gpus %d is not a whole number of %s nodes, which have %d GPUs: try %d or %d (or --gpus-per-node)",
		gpus, p.ID, node, near[0], near[len(near)-1])
}

func positive(name string, n, most int) error {
	switch {
	case n < 1:
		return usage("%s %d is below 1", name, n)
	case n > most:
		return usage("%s %d is more than moeplan takes (%d)", name, n, most)
	}
	return nil
}

// parseOrder accepts what a Megatron command line can produce.
func parseOrder(text string) (folding.Order, error) {
	switch o := folding.Order(strings.ToLower(text)); o {
	case folding.DefaultOrder:
		return "", nil
	case folding.TPPPDPOrder:
		return o, nil
	}
	return "", usage("--order %q: a Megatron command line gives %s or, with --use-tp-pp-dp-mapping, %s", text,
		folding.DefaultOrder, folding.TPPPDPOrder)
}
