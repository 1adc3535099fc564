package config

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/moeplan/moeplan/topology"
)

// platformFile is a platform as YAML. A missing or null figure is unknown; moeplan asks for it where it is needed.
type platformFile struct {
	ID   string `yaml:"id"`
	Name string `yaml:"name"`
	Arch string `yaml:"arch"`

	SM           *float64 `yaml:"sm"`
	MemoryGiB    *float64 `yaml:"memory_gib_nvidia_smi"`
	HBMGBps      *float64 `yaml:"hbm_gbps"`
	BF16TFLOPS   *float64 `yaml:"bf16_tflops_dense"`
	FP8TFLOPS    *float64 `yaml:"fp8_tflops_dense"`
	FP4TFLOPS    *float64 `yaml:"fp4_tflops_dense"`
	Domain       *float64 `yaml:"gpus_per_nvlink_domain"`
	Node         *float64 `yaml:"gpus_per_node"`
	NVLinkGBps   *float64 `yaml:"nvlink_gbps_unidir_per_gpu"`
	NICGbit      *float64 `yaml:"nic_gbit_per_gpu"`
	HostLinkGBps *float64 `yaml:"host_link_gbps_unidir_per_gpu"`
	HostMemoryGB *float64 `yaml:"host_memory_gb_per_gpu"`
}

// entry is one figure of the file: its key, its place in a platform, what it says, and whether it counts things.
type entry struct {
	key   string
	id    topology.FigureID
	what  string
	whole bool
	file  func(*platformFile) **float64
	into  func(*topology.Platform) *topology.Figure
}

var entries = []entry{
	{"sm", topology.FigureSM, "compute capability times ten", true, func(f *platformFile) **float64 { return &f.SM }, func(p *topology.Platform) *topology.Figure { return &p.SM }},
	{"memory_gib_nvidia_smi", topology.FigureMemory, "GiB as nvidia-smi shows it", false, func(f *platformFile) **float64 { return &f.MemoryGiB }, func(p *topology.Platform) *topology.Figure { return &p.MemoryGiB }},
	{"hbm_gbps", topology.FigureHBM, "GB/s", false, func(f *platformFile) **float64 { return &f.HBMGBps }, func(p *topology.Platform) *topology.Figure { return &p.HBMGBps }},
	{"bf16_tflops_dense", topology.FigureBF16, "TFLOPS, dense", false, func(f *platformFile) **float64 { return &f.BF16TFLOPS }, func(p *topology.Platform) *topology.Figure { return &p.BF16TFLOPS }},
	{"fp8_tflops_dense", topology.FigureFP8, "TFLOPS, dense", false, func(f *platformFile) **float64 { return &f.FP8TFLOPS }, func(p *topology.Platform) *topology.Figure { return &p.FP8TFLOPS }},
	{"fp4_tflops_dense", topology.FigureFP4, "TFLOPS, dense", false, func(f *platformFile) **float64 { return &f.FP4TFLOPS }, func(p *topology.Platform) *topology.Figure { return &p.FP4TFLOPS }},
	{"gpus_per_nvlink_domain", topology.FigureDomain, "GPUs joined by NVLink; 1 without", true, func(f *platformFile) **float64 { return &f.Domain }, func(p *topology.Platform) *topology.Figure { return &p.Domain }},
	{"gpus_per_node", topology.FigureNode, "GPUs that one host holds", true, func(f *platformFile) **float64 { return &f.Node }, func(p *topology.Platform) *topology.Figure { return &p.Node }},
	{"nvlink_gbps_unidir_per_gpu", topology.FigureNVLink, "GB/s, one direction", false, func(f *platformFile) **float64 { return &f.NVLinkGBps }, func(p *topology.Platform) *topology.Figure { return &p.NVLinkGBps }},
	{"nic_gbit_per_gpu", topology.FigureNIC, "Gbit/s, out of the domain", false, func(f *platformFile) **float64 { return &f.NICGbit }, func(p *topology.Platform) *topology.Figure { return &p.NICGbit }},
	{"host_link_gbps_unidir_per_gpu", topology.FigureHostLink, "GB/s, one direction", false, func(f *platformFile) **float64 { return &f.HostLinkGBps }, func(p *topology.Platform) *topology.Figure { return &p.HostLinkGBps }},
	{"host_memory_gb_per_gpu", topology.FigureHostMemory, "GB of host memory per GPU", false, func(f *platformFile) **float64 { return &f.HostMemoryGB }, func(p *topology.Platform) *topology.Figure { return &p.HostMemoryGB }},
}

const (
	// maxFile bounds what is read, bytes: the longest model of the catalogue takes 4 kB, and the YAML parser's time grows
	// with the square.
	maxFile   = 64 << 10
	maxFigure = 1e7
)

// idForm is what a platform or a model may be called.
var idForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`) })

// ReadPlatform reads a platform of a person's own. name is that of the file, for errors and as the figures' source.
func ReadPlatform(name string, r io.Reader) (*topology.Platform, error) {
	d, err := readDocument(name, "platform", r)
	if err != nil {
		return nil, err
	}
	var file platformFile
	if err := d.decodeYAML(&file); err != nil {
		return nil, err
	}
	at := func(key, format string, args ...any) error {
		problem := fmt.Sprintf("%s: %s: %s", name, key, fmt.Sprintf(format, args...))
		if path, err := yaml.PathString("$." + key); err == nil {
			if excerpt, err := path.AnnotateSource(d.data, false); err == nil {
				problem += "\n" + strings.TrimRight(string(excerpt), "\n")
			}
		}
		return fmt.Errorf("%s", problem)
	}
	if !idForm().MatchString(file.ID) {
		return nil, at("id", "%q is no name: lower case letters, digits, dots and dashes", file.ID)
	}
	p := &topology.Platform{ID: file.ID, Name: file.Name, Arch: file.Arch}
	if p.Name == "" {
		p.Name = p.ID
	}
	for _, e := range entries {
		value := *e.file(&file)
		if value == nil {
			continue
		}
		switch v := *value; {
		case !(v > 0 && v <= maxFigure):
			return nil, at(e.key, "%g does not lie between 0 and %g", v, float64(maxFigure))
		case e.whole && v != float64(int(v)):
			return nil, at(e.key, "%g is not a whole number", v)
		}
		*e.into(p) = topology.Figure{Value: *value, Known: true, Source: "given in " + name}
	}
	return p, nil
}

// WritePlatform writes a platform as YAML that ReadPlatform takes, each figure with its unit and source.
func WritePlatform(w io.Writer, p *topology.Platform) error {
	quoted := func(s string) string {
		text, err := yaml.Marshal(s)
		if err != nil {
			return `""`
		}
		return strings.TrimSpace(string(text))
	}
	_, err := fmt.Fprintf(w, "# A platform for moeplan: save it under your own id, change the figures, and pass --gpu FILE.yaml.\n"+
		"# null is unknown; moeplan asks for what it needs.\nid: %s\nname: %s\narch: %s\n", quoted(p.ID), quoted(p.Name), quoted(p.Arch))
	for _, e := range entries {
		if err != nil {
			return err
		}
		f := p.Figure(e.id)
		value := "null"
		if f.Known {
			value = f.String()
		}
		comment := e.what
		if f.Source != "" {
			comment += "; " + strings.Join(strings.Fields(topology.SourceText(f.Source)), " ")
		}
		_, err = fmt.Fprintf(w, "%s: %s # %s\n", e.key, value, comment)
	}
	return err
}
