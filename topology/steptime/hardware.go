package steptime

import (
	"math"

	"github.com/moeplan/moeplan/topology"
)

// hardware is what a step time needs to know of a platform. Rates are GB/s of one direction of one GPU;
// 0 is unknown.
type hardware struct {
	id, arch     string
	bf16, hbm    float64 // 1e12 FLOP/s, GB/s
	nvlink       float64
	nic          float64
	domain, node int
	fp8, fp4     bool // the tensor cores have the format
	missingNIC   error
	flexDispatch bool // DeepEP and HybridEP run on it
}

// hardwareOf reads a platform. It refuses one that cannot be priced at all (*topology.UnknownFigureError);
// a missing network rate only matters to layouts that leave a domain.
func hardwareOf(p *topology.Platform) (h hardware, err error) {
	need := func(id topology.FigureID) float64 {
		v, e := p.Need(id)
		if e != nil && err == nil {
			err = e
		}
		return v
	}
	h = hardware{
		id: p.ID, arch: p.Arch,
		bf16: need(topology.FigureBF16), hbm: need(topology.FigureHBM), domain: int(need(topology.FigureDomain)),
		node: p.Node.Int(),
		fp8:  p.FP8TFLOPS.Known, fp4: p.FP4TFLOPS.Known,
	}
	if h.domain > 1 {
		h.nvlink = need(topology.FigureNVLink)
	}
	var gbit float64
	gbit, h.missingNIC = p.Need(topology.FigureNIC)
	h.nic = gbit / 8
	if h.domain == 1 && p.HostLinkGBps.Known && h.nic > 0 {
		// Without NVLink even neighbours talk over the host link or the NIC; the slower of the two holds.
		h.nic = math.Min(h.nic, p.HostLinkGBps.Value)
	}
	switch p.Arch {
	case "ampere", "hopper", "blackwell", "blackwell-ultra":
		h.flexDispatch = true // NVIDIA-NeMo/Megatron-Bridge@067f987df training/flex_dispatcher_backend.py
	}
	return h, err
}
