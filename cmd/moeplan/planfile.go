package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/cmd/internal/config"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
	"github.com/moeplan/moeplan/topology/steptime"
)

// maxPlanFile bounds a plan file that is read back: thousands of plans.
const maxPlanFile = 256 << 20

// planFile is what moeplan -o json and emit --save write, as far as it is read back. What a person could have written is
// kept as text, for the reader that is strict about it.
type planFile struct {
	Request struct {
		plan.Echo
		ModelSpec    json.RawMessage `json:"model_spec"`
		PlatformSpec json.RawMessage `json:"platform_spec"`
	} `json:"request"`
	Assumed map[string]string `json:"assumed"`
	Plans   []struct {
		Key string `json:"key"`
	} `json:"plans"`
}

// brought is what a plan file brings instead of names: no name in it is ever taken for a file.
type brought struct {
	model    *arch.Model
	platform *topology.Platform
	factors  *steptime.Factors // nil: none
	// own says that the catalogue does not hold both.
	own bool
}

// fromPlan takes the question and the layout from a plan file. What a reader must know of it goes to notes.
func (c *chosen) fromPlan(notes io.Writer) error {
	if c.Model != "" || c.GPUs != nil || c.GPU != "" || len(c.Layout) > 0 || c.Seq != nil || c.GlobalBatch != nil {
		return usage("--plan brings the question and the layout: leave --model, --gpus, --gpu, --seq, --global-batch and the layout out")
	}
	name, number := c.Plan, 1
	if i := strings.LastIndexByte(c.Plan, '#'); i >= 0 {
		n, err := strconv.Atoi(c.Plan[i+1:])
		if err != nil || n < 1 {
			return usage("--plan %s: after # stands the number of a plan", c.Plan)
		}
		name, number = c.Plan[:i], n
	}
	file, err := readPlanFile(name)
	if err != nil {
		return err
	}
	if number > len(file.Plans) {
		return usage("%s holds %d plans, no plan %d", name, len(file.Plans), number)
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s is not a plan that moeplan -o json wrote: %s", name, fmt.Sprintf(format, args...))
	}
	q := &file.Request
	c.Model, c.GPUs, c.GPU = q.Model, &q.GPUs, q.Platform
	c.Seq, c.GlobalBatch, c.Precision = &q.SeqLength, &q.GlobalBatchSize, q.Precision
	c.Grads, c.Moments, c.Offload = q.Gradients, q.Moments, cmp.Or(string(q.Offload), "none")
	if c.Grads == "fp16" { // what fp16 training has
		c.Grads = "fp32"
	}
	for _, dtype := range []string{c.Grads, c.Moments} {
		if dtype != "fp32" && dtype != "bf16" {
			return wrong("dtype %q", dtype)
		}
	}
	if c.brought, err = file.bring(name, notes); err != nil {
		return err
	}
	c.rest(file)
	for id, value := range q.Given {
		if !c.setFigure(topology.FigureID(id), value) {
			return wrong("figure %q", id)
		}
	}
	key := file.Plans[number-1].Key
	if strings.TrimSpace(key) == "" {
		return wrong("plan %d has no key", number)
	}
	c.Layout = []string{key}
	return nil
}

func readPlanFile(name string) (*planFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPlanFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxPlanFile {
		return nil, fmt.Errorf("%s: a plan file is at most %d MiB", name, maxPlanFile>>20)
	}
	var file planFile
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), &file); err != nil {
		return nil, fmt.Errorf("%s is not a plan that moeplan -o json wrote: %w", name, jsonProblem(err))
	}
	return &file, nil
}

// rest takes what decides about memory and time, unless a flag says otherwise.
func (c *chosen) rest(file *planFile) {
	q := &file.Request
	if c.Imbalance == nil && q.Imbalance > 1 {
		c.Imbalance = &q.Imbalance
	}
	if _, assumed := file.Assumed["headroom"]; c.Headroom == nil && !assumed {
		c.Headroom = &q.HeadroomGiB
	}
	if c.ReserveGiB == 0 {
		c.ReserveGiB = q.ReserveGiB
	}
	if c.Trainable == nil && q.TrainableFraction > 0 && q.TrainableFraction != 1 {
		c.Trainable = &q.TrainableFraction
	}
}

// bring takes the model and the platform from the catalogue, or reads what the file says of them as strictly as files of
// their own. Either must be what the file's writer meant.
func (file *planFile) bring(name string, notes io.Writer) (*brought, error) {
	q := &file.Request
	b := &brought{factors: q.Factors, own: present(q.ModelSpec) || present(q.PlatformSpec)}
	if b.factors != nil {
		if err := b.factors.Check(); err != nil {
			return nil, fmt.Errorf("%s: calibration: %w", name, err)
		}
	}
	var err error
	if b.model, err = file.model(name, notes); err != nil {
		return nil, err
	}
	if b.platform, err = file.platform(name, notes); err != nil {
		return nil, err
	}
	return b, nil
}

func (file *planFile) model(name string, notes io.Writer) (*arch.Model, error) {
	q := &file.Request
	known, unknown := arch.Lookup(q.Model)
	if !present(q.ModelSpec) {
		if unknown != nil {
			return nil, unknown
		}
		return known, agree(name, "model", known.ID, q.ModelDigest, plan.ModelDigest(known), false)
	}
	m, err := config.ReadModel(name+" (model_spec)", indented(q.ModelSpec))
	if err != nil {
		return nil, err
	}
	if m.ID != q.Model {
		return nil, fmt.Errorf("%s: it asks about %q and describes %q", name, q.Model, m.ID)
	}
	if err := agree(name, "model", m.ID, q.ModelDigest, plan.ModelDigest(m), true); err != nil {
		return nil, err
	}
	if unknown == nil && known.ID == m.ID && plan.ModelDigest(known) != plan.ModelDigest(m) {
		fmt.Fprintf(notes, "moeplan: %s brings a model %s of its own, which is not the catalogue's of that name\n", name, m.ID)
	}
	return m, nil
}

func (file *planFile) platform(name string, notes io.Writer) (*topology.Platform, error) {
	q := &file.Request
	p, unknown := topology.LookupPlatform(q.Platform)
	own := present(q.PlatformSpec)
	switch {
	case own:
		read, err := config.ReadPlatform(name+" (platform_spec)", indented(q.PlatformSpec))
		if err != nil {
			return nil, err
		}
		if read.ID != q.Platform {
			return nil, fmt.Errorf("%s: it asks about %q and describes %q", name, q.Platform, read.ID)
		}
		if unknown == nil && p.ID == read.ID {
			fmt.Fprintf(notes, "moeplan: %s brings a platform %s of its own, which is not the catalogue's of that name\n", name, p.ID)
		}
		p = read
	case unknown != nil:
		return nil, unknown
	}
	var given []topology.Override // the digest is of the platform with the figures that flags replaced
	for id, value := range q.Given {
		given = append(given, topology.Override{Figure: topology.FigureID(id), Value: value})
	}
	whole, err := p.With(given...)
	if err != nil {
		return nil, fmt.Errorf("%s is not a plan that moeplan -o json wrote: %w", name, err)
	}
	return p, agree(name, "platform", p.ID, q.PlatformDigest, plan.PlatformDigest(whole), own)
}

// agree refuses a description that is not the one which the file's writer had: want is its digest, "" in files older than
// digests.
func agree(file, what, id, want, got string, own bool) error {
	switch {
	case want == "" || want == got:
		return nil
	case own:
		return fmt.Errorf("%s: its description of the %s %s was changed after moeplan wrote it (digest %s, not %s)", file, what, id, got, want)
	}
	return fmt.Errorf("%s was planned with another %s than the catalogue of this moeplan holds under the name %s (digest %s, here %s): plan again",
		file, what, id, want, got)
}

func present(text json.RawMessage) bool { return len(text) > 0 && string(text) != "null" }

// mostNested bounds what is laid out: a model's own nesting is 3.
const mostNested = 32

// indented lays JSON out as YAML reads it best, whatever tool has written the file. What is nested beyond all meaning stays as
// it is: indenting it takes memory that grows with the square.
func indented(text json.RawMessage) io.Reader {
	depth, in := 0, json.NewDecoder(bytes.NewReader(text))
	for token, err := in.Token(); err == nil; token, err = in.Token() {
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth > mostNested {
			return bytes.NewReader(text)
		}
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil { // it was decoded already
		return bytes.NewReader(text)
	}
	return &out
}

// setFigure gives a figure of the machine as its flag would.
func (f *machine) setFigure(id topology.FigureID, value float64) bool {
	n := int(value)
	switch id {
	case topology.FigureDomain:
		f.Domain = &n
	case topology.FigureNode:
		f.Node = &n
	case topology.FigureMemory:
		f.MemoryGiB = &value
	case topology.FigureNIC:
		f.NICGbit = &value
	case topology.FigureNVLink:
		f.NVLinkGBps = &value
	case topology.FigureHBM:
		f.HBMGBps = &value
	case topology.FigureBF16:
		f.BF16TFLOPS = &value
	case topology.FigureSM:
		f.SM = &value
	default:
		return false
	}
	return true
}
