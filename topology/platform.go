package topology

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Platform is one kind of GPU in one kind of machine. Links count one direction of one GPU; GB and GB/s are
// 1e9, GiB is 2^30; TFLOPS are dense. Platforms of the catalogue are shared and read-only; With makes
// copies.
type Platform struct {
	ID   string `json:"id"`   // "h100"
	Name string `json:"name"` // "H100 SXM (DGX/HGX H100)"
	Arch string `json:"arch"` // ampere, ada, hopper, blackwell, blackwell-ultra, cdna3, cdna4

	SM           Figure `json:"sm"`                            // compute capability times ten: 90
	MemoryGB     Figure `json:"memory_gb_marketed"`            // as sold, 1e9 bytes
	MemoryGiB    Figure `json:"memory_gib_nvidia_smi"`         // as nvidia-smi shows it, GiB: what the driver offers
	HBMGBps      Figure `json:"hbm_gbps"`                      // memory bandwidth, 1e9 bytes a second
	BF16TFLOPS   Figure `json:"bf16_tflops_dense"`             // 1e12 FLOP/s, without sparsity
	FP8TFLOPS    Figure `json:"fp8_tflops_dense"`              // 1e12 FLOP/s; unknown where the tensor cores have no FP8
	FP4TFLOPS    Figure `json:"fp4_tflops_dense"`              // 1e12 FLOP/s; unknown where the tensor cores have no FP4
	Domain       Figure `json:"gpus_per_nvlink_domain"`        // 1: no NVLink
	Node         Figure `json:"gpus_per_node"`                 // what one launcher process group shares a host with
	NVLinkGBps   Figure `json:"nvlink_gbps_unidir_per_gpu"`    // 1e9 bytes a second, one direction of one GPU, inside the domain
	NICGbit      Figure `json:"nic_gbit_per_gpu"`              // Gbit/s, out of the domain
	HostLinkGBps Figure `json:"host_link_gbps_unidir_per_gpu"` // 1e9 bytes a second, one direction of one GPU, to host memory
	HostMemoryGB Figure `json:"host_memory_gb_per_gpu"`        // one GPU's share of the host's memory, 1e9 bytes

	HostLink Text     `json:"host_link"` // what joins GPU and host: "PCIe Gen5 x16"
	Measured Measured `json:"measured"`  // what was measured on such machines; null parts were not
	Notes    []string `json:"notes"`     // what to know about the figures, one sentence each

	// Overridden names the figures that With replaced, in the order they were given.
	Overridden []FigureID `json:"-"`
}

// FigureID names a figure of a platform: its key in platforms.json.
type FigureID string

const (
	FigureSM         FigureID = "sm"
	FigureMarketed   FigureID = "memory_gb_marketed"
	FigureMemory     FigureID = "memory_gib_nvidia_smi"
	FigureHBM        FigureID = "hbm_gbps"
	FigureBF16       FigureID = "bf16_tflops_dense"
	FigureFP8        FigureID = "fp8_tflops_dense"
	FigureFP4        FigureID = "fp4_tflops_dense"
	FigureDomain     FigureID = "gpus_per_nvlink_domain"
	FigureNode       FigureID = "gpus_per_node"
	FigureNVLink     FigureID = "nvlink_gbps_unidir_per_gpu"
	FigureNIC        FigureID = "nic_gbit_per_gpu"
	FigureHostLink   FigureID = "host_link_gbps_unidir_per_gpu"
	FigureHostMemory FigureID = "host_memory_gb_per_gpu"
)

type figureEntry struct {
	id          FigureID
	title, flag string
	count       bool
	of          func(*Platform) *Figure
}

// figures lists every figure with what people call it, the command-line flag that supplies it, "" where only a platform's
// file does, and where it lives. Counts must be whole.
var figures = []figureEntry{
	{FigureSM, "compute capability", "--sm", true, func(p *Platform) *Figure { return &p.SM }},
	{FigureMarketed, "marketed memory", "", false, func(p *Platform) *Figure { return &p.MemoryGB }},
	{FigureMemory, "memory that the driver offers", "--memory-gib", false, func(p *Platform) *Figure { return &p.MemoryGiB }},
	{FigureHBM, "memory bandwidth", "--hbm-gbps", false, func(p *Platform) *Figure { return &p.HBMGBps }},
	{FigureBF16, "BF16 peak", "--bf16-tflops", false, func(p *Platform) *Figure { return &p.BF16TFLOPS }},
	{FigureFP8, "FP8 peak", "", false, func(p *Platform) *Figure { return &p.FP8TFLOPS }},
	{FigureFP4, "FP4 peak", "", false, func(p *Platform) *Figure { return &p.FP4TFLOPS }},
	{FigureDomain, "GPUs per NVLink domain", "--domain", true, func(p *Platform) *Figure { return &p.Domain }},
	{FigureNode, "GPUs per node", "--gpus-per-node", true, func(p *Platform) *Figure { return &p.Node }},
	{FigureNVLink, "NVLink bandwidth", "--nvlink-gbps", false, func(p *Platform) *Figure { return &p.NVLinkGBps }},
	{FigureNIC, "network bandwidth", "--nic-gbit", false, func(p *Platform) *Figure { return &p.NICGbit }},
	{FigureHostLink, "host link bandwidth", "", false, func(p *Platform) *Figure { return &p.HostLinkGBps }},
	{FigureHostMemory, "host memory per GPU", "", false, func(p *Platform) *Figure { return &p.HostMemoryGB }},
}

// Figures lists the IDs of all figures, in the order of the catalogue's fields.
func Figures() []FigureID {
	list := make([]FigureID, len(figures))
	for i, f := range figures {
		list[i] = f.id
	}
	return list
}

// Flag returns the command-line flag that supplies a figure: "--memory-gib"; "" for one that only a platform's file supplies, and
// for an unknown ID.
func (id FigureID) Flag() string {
	for _, f := range figures {
		if f.id == id {
			return f.flag
		}
	}
	return ""
}

// Figure returns a figure by its ID; the zero Figure for an ID that does not exist.
func (p *Platform) Figure(id FigureID) Figure {
	for _, f := range figures {
		if f.id == id {
			return *f.of(p)
		}
	}
	return Figure{}
}

// UnknownFigureError says that a computation needs a figure that no source states.
type UnknownFigureError struct {
	Platform string
	Figure   FigureID
	Title    string // "memory that the driver offers"
	Flag     string // "--memory-gib"; "" where there is none
}

func (e *UnknownFigureError) Error() string {
	return fmt.Sprintf("platform %s: the %s is not known, give it with %s", e.Platform, e.Title, cmp.Or(e.Flag, "a file (--gpu FILE)"))
}

// Need returns the value of a figure, or an *UnknownFigureError that says how to supply it.
func (p *Platform) Need(id FigureID) (float64, error) {
	for _, f := range figures {
		if f.id != id {
			continue
		}
		if v := *f.of(p); v.Known {
			return v.Value, nil
		}
		return 0, &UnknownFigureError{p.ID, id, f.title, f.flag}
	}
	return 0, fmt.Errorf("platforms have no figure %q", id)
}

// Override replaces one figure.
type Override struct {
	Figure FigureID
	Value  float64
}

// overrideSource is the source of figures that With replaced.
const overrideSource = "given by the user"

// With returns a copy in which the given figures replace the catalogue's. Their source says so, and
// Overridden lists them. A new domain size on a machine whose domain is its node (a box) changes the node
// with it, unless the node is given too.
//
// Errors: an ID that does not exist, a value that is not finite and positive, a count that is not whole.
func (p *Platform) With(overrides ...Override) (*Platform, error) {
	q := *p
	q.Overridden = slices.Clone(p.Overridden)
	box, node, domain := p.Domain.Known && p.Domain.Value == p.Node.Value, false, false
	for _, o := range overrides {
		i := slices.IndexFunc(figures, func(e figureEntry) bool { return e.id == o.Figure })
		if i < 0 {
			return nil, fmt.Errorf("platforms have no figure %q", o.Figure)
		}
		f := figures[i]
		switch {
		case !(o.Value > 0) || math.IsInf(o.Value, 0):
			return nil, fmt.Errorf("%s %v: must be a positive number", cmp.Or(f.flag, f.title), o.Value)
		case f.count && (o.Value != math.Trunc(o.Value) || o.Value > maxCount):
			return nil, fmt.Errorf("%s %v: must be a whole number up to %d", cmp.Or(f.flag, f.title), o.Value, maxCount)
		}
		*f.of(&q) = Figure{Value: o.Value, Known: true, Source: overrideSource}
		q.Overridden = append(q.Overridden, o.Figure)
		node = node || o.Figure == FigureNode
		domain = domain || o.Figure == FigureDomain
	}
	if box && domain && !node {
		q.Node = q.Domain
		q.Node.Note = "follows the domain: a box"
	}
	return &q, nil
}

// maxCount bounds counts, far above any machine.
const maxCount = 1 << 20
